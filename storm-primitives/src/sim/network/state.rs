//! The state of the network and of its nodes.

use crate::sim::executor::Core;
use crate::sim::fabric::{Fabric, Random};
use crate::sim::group::Group;
use crate::sim::link::Link;
use crate::sim::operation::{Message, OpId, Pending, Request};
use crate::sim::runtime::SimRuntime;
use crate::{EventTable, GlobalMemory, Instant, Layout, Membership, NodeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub(in crate::sim) struct Network {
    pub(super) core: Rc<Core>,
    pub(super) fabric: Rc<dyn Fabric>,
    pub(super) layout: Layout,
    pub(super) state: RefCell<State>,
}

pub(super) struct State {
    pub(super) nodes: Vec<Node>,
    pub(super) next_op: u64,
    pub(super) pending: BTreeMap<OpId, Pending>,
    /// Operations that reached the sequencer and have not started.
    pub(super) queue: VecDeque<(NodeId, u64, Request)>,
}

/// The action to take when a message has crossed a link.
pub(super) type Held = Box<dyn FnOnce(&Rc<Network>)>;

/// The state that belongs to one incarnation of a node.
#[derive(Clone)]
pub(in crate::sim) struct Seat {
    pub(in crate::sim) runtime: SimRuntime,
    pub(in crate::sim) node: NodeId,
    pub(in crate::sim) life: u64,
    pub(in crate::sim) memory: GlobalMemory,
    pub(in crate::sim) events: EventTable,
    pub(in crate::sim) membership: Membership,
}

/// One node as the network sees it.
pub(super) struct Node {
    pub(super) life: u64,
    /// Its tasks: they outlive an incarnation that ends without the node's death.
    pub(super) group: Group,
    pub(super) up: bool,
    pub(super) frozen: bool,
    /// The sequencer has recorded that it is dead.
    pub(super) known_dead: bool,
    pub(super) seat: Option<Seat>,
    /// When its last operation reaches the sequencer, so that order is kept.
    pub(super) last_issue: Instant,
    /// When the last message reaches it.
    pub(super) last_arrival: Instant,
    /// When the last signal is noticed on it.
    pub(super) last_wake: Instant,
    pub(super) inbox: VecDeque<(OpId, Message)>,
    pub(super) link: Link,
    /// Messages that wait on either side of the node's cut link.
    pub(super) held: VecDeque<Held>,
    /// The node dies after this many more steps.
    pub(super) steps_left: Option<u64>,
}

impl Network {
    pub(super) fn random(&self) -> Random<'_> {
        Random::new(&self.core)
    }

    /// Runs `action` at a time, even if the node that requested it is dead by then.
    pub(super) fn at(self: &Rc<Self>, when: Instant, action: impl FnOnce(&Rc<Network>) + 'static) {
        let network = self.clone();
        self.core.call_at(when, move || action(&network));
    }
}

impl Node {
    pub(super) fn absent() -> Node {
        Node {
            life: 0,
            group: Group { node: NodeId::MM, life: 0 },
            up: false,
            frozen: false,
            known_dead: true,
            seat: None,
            last_issue: Instant::ORIGIN,
            last_arrival: Instant::ORIGIN,
            last_wake: Instant::ORIGIN,
            inbox: VecDeque::new(),
            link: Link::SOUND,
            held: VecDeque::new(),
            steps_left: None,
        }
    }
}

impl Node {
    /// Whether the node neither takes nor sends anything.
    pub(super) fn is_silent(&self) -> bool {
        self.frozen || self.link.cut
    }
}

impl State {
    pub(super) fn is_known_dead(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).is_none_or(|node| node.known_dead)
    }
}
