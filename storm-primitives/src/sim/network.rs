//! The in-memory network: a sequencer and links. The sequencer gives every operation its place in
//! the total order. The links deliver to each node in that order, at the times of a [`Fabric`].
//!
//! Nodes can be killed, frozen, slowed, cut off and brought back, also at the n-th step that they
//! take part in. A test can thus try every point of an operation. Messages that reach many nodes at
//! one instant are one event, and data common to all nodes is kept once. Machines of many thousand
//! nodes therefore fit a laptop.
//!
//! The network does not decide how long anything takes, and runs no daemon.

mod delivery;
mod links;
mod lives;
mod operations;
pub(super) mod state;

use crate::sim::executor::Simulation;
use crate::sim::fabric::Fabric;
use crate::sim::node::SimPrimitives;
use crate::sim::{NetworkConfig, NodeFault, ScriptedFault};
use crate::{Layout, NodeId, NodeSet};
use lives::End;
use state::{Network, Node, State};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A cluster in memory: the management node and `n` compute nodes.
#[derive(Clone)]
pub struct SimNetwork {
    network: Rc<Network>,
}

impl SimNetwork {
    /// A cluster of the management node and compute nodes `n[1-nodes]`, all
    /// joined, in the world of `simulation`.
    pub fn new(
        simulation: &Simulation,
        nodes: u32,
        layout: &Layout,
        config: NetworkConfig,
    ) -> SimNetwork {
        SimNetwork::with_fabric(simulation, nodes, layout, Rc::new(config))
    }

    /// Like [`new`](Self::new), with the timing of `fabric`.
    pub fn with_fabric(
        simulation: &Simulation,
        nodes: u32,
        layout: &Layout,
        fabric: Rc<dyn Fabric>,
    ) -> SimNetwork {
        SimNetwork::without(simulation, nodes, &NodeSet::new(), layout, fabric)
    }

    /// Makes a network in which the nodes of `absent` are alive but have not joined.
    pub fn without(
        simulation: &Simulation,
        nodes: u32,
        absent: &NodeSet,
        layout: &Layout,
        fabric: Rc<dyn Fabric>,
    ) -> SimNetwork {
        let network = Rc::new(Network {
            core: simulation.core.clone(),
            fabric,
            layout: layout.clone(),
            state: RefCell::new(State {
                nodes: (0..=nodes).map(|_| Node::absent()).collect(),
                next_op: 0,
                pending: BTreeMap::new(),
                queue: VecDeque::new(),
            }),
        });
        for node in (0..=nodes).map(NodeId) {
            network.join(node);
            network.state.borrow_mut().nodes[node.index()].known_dead = absent.contains(node);
        }
        network.everyone_knows_everyone();
        SimNetwork { network }
    }

    /// The primitives as the present incarnation of `node` sees them.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node(&self, node: NodeId) -> SimPrimitives {
        let seat = self.network.state.borrow().nodes[node.index()].seat.clone();
        let seat = seat.expect("every node has a seat from its first join on");
        SimPrimitives { network: self.network.clone(), seat }
    }

    /// All nodes, the management node included.
    pub fn nodes(&self) -> NodeSet {
        let last = self.network.state.borrow().nodes.len() as u32 - 1;
        NodeSet::range(NodeId::MM, NodeId(last))
    }

    /// Stops a node for ever, at any point of its tasks.
    pub fn kill(&self, node: NodeId) {
        self.network.kill(node);
    }

    /// Kills a node and reports to the management node that the node's process has ended: the
    /// node's host is up and closes its links.
    pub fn end_process(&self, node: NodeId) {
        self.network.report_end(node, End::OfProcess);
        self.network.kill(node);
    }

    /// Kills a node when it has taken `steps` more steps: operations issued,
    /// messages received, answers sent.
    pub fn kill_after(&self, node: NodeId, steps: u64) {
        self.network.state.borrow_mut().nodes[node.index()].steps_left = Some(steps);
    }

    /// Stops a node as SIGSTOP or a cut cable would. If it is not thawed before
    /// its silence is noticed, it is cut off for ever.
    pub fn freeze(&self, node: NodeId) {
        self.network.freeze(node);
    }

    /// Lets a frozen node continue.
    pub fn thaw(&self, node: NodeId) {
        self.network.thaw(node);
    }

    /// Does `fault` to `node`, now.
    pub fn inflict(&self, node: NodeId, fault: NodeFault) {
        self.network.inflict(node, fault);
    }

    /// Does each fault of a script at its time, counted from now.
    pub fn play(&self, script: &[ScriptedFault]) {
        for ScriptedFault { after, node, fault } in script.iter().copied() {
            let due = self.network.core.now() + after;
            self.network.at(due, move |network| network.inflict(node, fault));
        }
    }

    /// The node's time for its work, in percent of the normal time: 100 unless it was
    /// [slowed](NodeFault::Slow). For models of its host.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn slow_percent(&self, node: NodeId) -> u32 {
        self.network.state.borrow().nodes[node.index()].link.slow_percent
    }

    /// Starts a new management node in place of a killed one. The other living nodes are not in its
    /// cluster until they [join again](Self::join_again).
    pub fn restart_manager(&self) -> SimPrimitives {
        self.network.restart_manager_with(|_| {});
        self.node(NodeId::MM)
    }

    /// Starts a new management node that renumbers the nodes: node `n(i+1)` becomes `numbers[i]`
    /// and keeps its tasks, its link and its speed.
    ///
    /// # Panics
    /// If `numbers` does not name each compute node once.
    pub fn restart_manager_numbering(&self, numbers: &[NodeId]) -> SimPrimitives {
        self.network.restart_manager_with(|network| network.renumber(numbers));
        self.node(NodeId::MM)
    }

    /// Makes a node leave. Its tasks continue, and it can [join again](Self::join_again). The
    /// management node is notified that the node's process has ended, unless the node's link is
    /// cut.
    pub fn leave(&self, node: NodeId) {
        self.network.leave(node, End::OfProcess);
    }

    /// Makes a node leave as if its host had closed the link with unread bytes. The management node
    /// is notified that the link was closed, but not that the process ended.
    pub fn reset(&self, node: NodeId) {
        self.network.leave(node, End::OfLink);
    }

    /// Whether a node is frozen.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn is_frozen(&self, node: NodeId) -> bool {
        self.network.state.borrow().nodes[node.index()].frozen
    }

    /// Makes a living node that was cut off, or lost its management node, join as a new incarnation
    /// with fresh memory. Its tasks continue, unlike those of a dead node that is [brought
    /// back](Self::rejoin). `None` while the node cannot join.
    pub fn join_again(&self, node: NodeId) -> Option<SimPrimitives> {
        self.network.join_again(node).then(|| self.node(node))
    }

    /// Brings a dead node back with fresh memory, as a new incarnation.
    pub fn rejoin(&self, node: NodeId) -> SimPrimitives {
        self.network.end_life(node);
        self.network.join(node);
        self.network.announce_join(node);
        self.node(node)
    }
}
