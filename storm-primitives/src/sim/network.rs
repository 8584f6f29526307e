//! The in-memory network: a sequencer at the management node that gives every
//! operation its place in the total order, and links with random delays that
//! deliver to each node in that order.
//!
//! Nodes can be killed, frozen, cut off and brought back, also at the n-th step
//! that they take part in, so that a test can try every point of an operation.

mod faults;

use crate::sim::executor::{Core, Simulation};
use crate::sim::node::SimPrimitives;
use crate::sim::operation::{Message, OpId, Pending, Phase, Request};
use crate::{GlobalAddr, Instant, Layout, NodeId, NodeSet, OutOfBounds, PrimitiveError};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Delays of the simulated network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Shortest time a message takes.
    pub min_delay: Duration,
    /// Longest time a message takes.
    pub max_delay: Duration,
    /// Time for the data of a transfer, per byte.
    pub per_byte: Duration,
    /// Time after which a dead or frozen node is known to be dead.
    pub detection: Duration,
}

impl Default for NetworkConfig {
    /// Delays of a local network; deaths are noticed after 5 ms.
    fn default() -> NetworkConfig {
        NetworkConfig {
            min_delay: Duration::from_micros(5),
            max_delay: Duration::from_micros(50),
            per_byte: Duration::from_nanos(1),
            detection: Duration::from_millis(5),
        }
    }
}

/// A cluster in memory: the management node and `n` compute nodes.
#[derive(Clone)]
pub struct SimNetwork {
    network: Rc<Network>,
}

pub(super) struct Network {
    core: Rc<Core>,
    config: NetworkConfig,
    layout: Layout,
    state: RefCell<State>,
}

struct State {
    nodes: Vec<Node>,
    next_op: u64,
    pending: BTreeMap<OpId, Pending>,
    /// Operations that reached the sequencer and have not started.
    queue: VecDeque<(NodeId, u64, Request)>,
}

/// One node as the network sees it.
struct Node {
    life: u64,
    up: bool,
    frozen: bool,
    /// The sequencer knows that it is dead.
    known_dead: bool,
    handle: Option<SimPrimitives>,
    /// When its last operation reaches the sequencer, so that order is kept.
    last_issue: Instant,
    /// When the last message reaches it.
    last_arrival: Instant,
    inbox: VecDeque<(OpId, Message)>,
    /// It dies when this many more steps have been taken.
    steps_left: Option<u64>,
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
        let network = Rc::new(Network {
            core: simulation.core.clone(),
            config,
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
        }
        network.everyone_knows_everyone();
        SimNetwork { network }
    }

    /// The primitives as the present life of `node` sees them.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node(&self, node: NodeId) -> SimPrimitives {
        let handle = self.network.state.borrow().nodes[node.index()].handle.clone();
        handle.expect("every node has a handle from its first join on")
    }

    /// All nodes, the management node included.
    pub fn nodes(&self) -> NodeSet {
        let count = self.network.state.borrow().nodes.len() as u32;
        (0..count).map(NodeId).collect()
    }

    /// Stops a node for ever, in the middle of whatever it does.
    pub fn kill(&self, node: NodeId) {
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

    /// Lets a frozen node go on.
    pub fn thaw(&self, node: NodeId) {
        self.network.thaw(node);
    }

    /// Brings a dead node back with fresh memory, as a new incarnation.
    pub fn rejoin(&self, node: NodeId) -> SimPrimitives {
        self.network.kill_tasks(node);
        self.network.join(node);
        self.network.announce_join(node);
        self.node(node)
    }
}

impl Node {
    fn absent() -> Node {
        Node {
            life: 0,
            up: false,
            frozen: false,
            known_dead: true,
            handle: None,
            last_issue: Instant::ORIGIN,
            last_arrival: Instant::ORIGIN,
            inbox: VecDeque::new(),
            steps_left: None,
        }
    }
}

// Operations.
impl Network {
    /// Takes an operation from a node; it reaches the sequencer after those that
    /// the node issued before.
    pub(super) fn issue(
        self: &Rc<Self>,
        initiator: NodeId,
        life: u64,
        request: Request,
    ) -> Result<(), PrimitiveError> {
        self.check(&request)?;
        if !self.is_connected(initiator, life) {
            return Err(PrimitiveError::Disconnected);
        }
        if !self.step(initiator, life) {
            return Ok(());
        }
        let bytes = match &request {
            Request::Put(xfer) => xfer.data.len() as u32,
            Request::Compare(..) => 0,
        };
        let due = self.core.now() + self.delay() + self.config.per_byte * bytes;
        let arrival = {
            let node = &mut self.state.borrow_mut().nodes[initiator.index()];
            node.last_issue = due.max(node.last_issue + Duration::from_nanos(1));
            node.last_issue
        };
        self.at(arrival, move |network| {
            if network.is_connected(initiator, life) {
                network.state.borrow_mut().queue.push_back((initiator, life, request));
                network.start_queued();
            }
        });
        Ok(())
    }

    fn check(&self, request: &Request) -> Result<(), PrimitiveError> {
        let word = |addr: GlobalAddr| {
            if !addr.0.is_multiple_of(8) {
                return Err(PrimitiveError::Misaligned { addr });
            }
            self.in_bounds(addr, 8)
        };
        match request {
            Request::Put(xfer) => {
                self.in_bounds(xfer.addr, xfer.data.len() as u64)?;
                match xfer.remote_event {
                    Some(event) if event.0 >= self.layout.events() => {
                        Err(PrimitiveError::UnknownEvent { event })
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Request::Compare(caw, _) => {
                word(caw.var)?;
                caw.write.map_or(Ok(()), |(addr, _)| word(addr))
            }
        }
    }

    fn in_bounds(&self, addr: GlobalAddr, len: u64) -> Result<(), PrimitiveError> {
        let size = self.layout.size();
        match addr.0.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(OutOfBounds { addr, len, size }.into()),
        }
    }

    /// Starts operations in order until one must wait for a COMPARE-AND-WRITE.
    fn start_queued(self: &Rc<Self>) {
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                let Some((_, _, request)) = state.queue.front() else { return };
                if state.pending.values().any(|earlier| earlier.request.blocks(request)) {
                    return;
                }
                state.queue.pop_front()
            };
            if let Some((initiator, life, request)) = next {
                self.start(initiator, life, request);
            }
        }
    }

    fn start(self: &Rc<Self>, initiator: NodeId, life: u64, request: Request) {
        let set = request.set().clone();
        let message = request.first_message();
        let phase = match request {
            Request::Put(_) => Phase::Put,
            Request::Compare(..) => Phase::Compare,
        };
        let op = {
            let mut state = self.state.borrow_mut();
            let op = OpId(state.next_op);
            state.next_op += 1;
            let dead = set.iter().filter(|node| state.is_known_dead(*node)).collect::<NodeSet>();
            let waiting = if dead.is_empty() { set.clone() } else { NodeSet::new() };
            let pending = Pending { initiator, life, request, phase, waiting, verdict: true, dead };
            state.pending.insert(op, pending);
            op
        };
        let refused = !self.state.borrow().pending[&op].dead.is_empty();
        if !refused {
            self.tell_all(op, &set, &message);
        }
        self.finish_phase_if_complete(op);
    }

    fn tell_all(self: &Rc<Self>, op: OpId, set: &NodeSet, message: &Message) {
        for node in set.iter() {
            let message = message.clone();
            let due = self.core.now() + self.delay();
            let (arrival, life) = {
                let node = &mut self.state.borrow_mut().nodes[node.index()];
                node.last_arrival = due.max(node.last_arrival + Duration::from_nanos(1));
                (node.last_arrival, node.life)
            };
            self.at(arrival, move |network| network.arrive(node, life, op, message));
        }
    }

    fn arrive(self: &Rc<Self>, node: NodeId, life: u64, op: OpId, message: Message) {
        if !self.step(node, life) {
            return;
        }
        self.state.borrow_mut().nodes[node.index()].inbox.push_back((op, message));
        self.work_off_inbox(node);
    }

    fn work_off_inbox(self: &Rc<Self>, node: NodeId) {
        loop {
            let (op, message, handle) = {
                let mut state = self.state.borrow_mut();
                let node = &mut state.nodes[node.index()];
                if node.frozen || !node.up {
                    return;
                }
                let Some((op, message)) = node.inbox.pop_front() else { return };
                let Some(handle) = node.handle.clone() else { return };
                (op, message, handle)
            };
            let verdict = self.apply(&handle, op, message);
            self.answer(node, handle.life, op, verdict);
        }
    }

    /// Carries out a message on a node; the answer of a compare.
    fn apply(&self, handle: &SimPrimitives, op: OpId, message: Message) -> bool {
        let what = match &message {
            Message::Put { addr, data, .. } => format!("op {} put {} at {addr}", op.0, data.len()),
            Message::Compare { var, relation, value } => {
                format!("op {} compare {var} {relation:?} {value}", op.0)
            }
            Message::Write { addr, value } => format!("op {} write {value} at {addr}", op.0),
        };
        self.core.trace().record(self.core.now(), handle.node, what);
        // Bounds were checked when the operation was issued.
        match message {
            Message::Put { addr, data, event } => {
                let _ = handle.memory.write(addr, &data);
                if let Some(event) = event {
                    handle.events.signal(event, Ok(()));
                }
                true
            }
            Message::Compare { var, relation, value } => {
                handle.memory.load_word(var).is_ok_and(|word| relation.holds(word, value))
            }
            Message::Write { addr, value } => handle.memory.store_word(addr, value).is_ok(),
        }
    }

    fn answer(self: &Rc<Self>, node: NodeId, life: u64, op: OpId, verdict: bool) {
        if !self.step(node, life) {
            return;
        }
        self.at(self.core.now() + self.delay(), move |network| {
            if !network.is_known(node, life) {
                return;
            }
            if let Some(pending) = network.state.borrow_mut().pending.get_mut(&op) {
                pending.waiting.remove(node);
                pending.verdict &= verdict;
            }
            network.finish_phase_if_complete(op);
        });
    }

    fn finish_phase_if_complete(self: &Rc<Self>, op: OpId) {
        let write = {
            let mut state = self.state.borrow_mut();
            let Some(pending) = state.pending.get_mut(&op) else { return };
            if !pending.waiting.is_empty() {
                return;
            }
            match (&pending.request, pending.phase) {
                (Request::Compare(caw, _), Phase::Compare)
                    if pending.verdict && pending.dead.is_empty() && !caw.set.is_empty() =>
                {
                    let set = caw.set.clone();
                    let write = caw.write.map(|write| (set.clone(), write));
                    if write.is_some() {
                        pending.phase = Phase::Write;
                        pending.waiting = set;
                    }
                    write
                }
                (_, Phase::Put | Phase::Compare | Phase::Write) => None,
            }
        };
        match write {
            Some((set, (addr, value))) => {
                self.tell_all(op, &set, &Message::Write { addr, value });
                self.forget_dead_of(op);
            }
            None => self.complete(op),
        }
    }

    /// Nodes may have died between compare and write: the survivors suffice.
    fn forget_dead_of(self: &Rc<Self>, op: OpId) {
        let state = &mut *self.state.borrow_mut();
        if let Some(pending) = state.pending.get_mut(&op) {
            let nodes = &state.nodes;
            pending.waiting =
                pending.waiting.iter().filter(|node| !nodes[node.index()].known_dead).collect();
        }
    }

    fn complete(self: &Rc<Self>, op: OpId) {
        let Some(pending) = self.state.borrow_mut().pending.remove(&op) else { return };
        let answer = match pending.phase {
            Phase::Put | Phase::Compare if !pending.dead.is_empty() => {
                Err(PrimitiveError::NodesDead { nodes: pending.dead })
            }
            Phase::Put | Phase::Compare | Phase::Write => Ok(pending.verdict),
        };
        let (initiator, life, request) = (pending.initiator, pending.life, pending.request);
        self.at(self.core.now() + self.delay(), move |network| {
            network.tell_initiator(initiator, life, &request, answer);
        });
        self.start_queued();
    }

    fn tell_initiator(
        &self,
        initiator: NodeId,
        life: u64,
        request: &Request,
        answer: Result<bool, PrimitiveError>,
    ) {
        if !self.is_known(initiator, life) {
            return;
        }
        match request {
            Request::Compare(_, slot) => slot.put(answer),
            Request::Put(xfer) => {
                let handle = self.state.borrow().nodes[initiator.index()].handle.clone();
                if let (Some(handle), Some(event)) = (handle, xfer.local_event) {
                    handle.events.signal(event, answer.map(|_| ()));
                }
            }
        }
    }
}

impl State {
    fn is_known_dead(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).is_none_or(|node| node.known_dead)
    }
}
