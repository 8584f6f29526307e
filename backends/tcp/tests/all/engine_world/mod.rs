//! A sequencer and engines in memory, without a socket or a clock. Every link is a queue. The seed
//! decides which queue is next, which node dies when, and when the root learns of the death.

use bytes::Bytes;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use storm_backend_tcp::NameTable;
use storm_backend_tcp::engine::{Engine, Output, Passed};
use storm_backend_tcp::sequencer::{self, Limits, Sequencer};
use storm_backend_tcp::shared_memory::HostId;
use storm_backend_tcp::wire::{
    Chunk, Down, FromRoot, Join, Member, PROTOCOL_VERSION, Primitive, Request, RequestId, Up,
    decode, encode,
};
use storm_primitives::{
    EventTable, GlobalMemory, Incarnation, Layout, NodeId, NodeSet, PrimitiveError,
};

const LIMITS: Limits = Limits {
    inline_limit_bytes: 16,
    chunk_bytes: 8,
    stage_window_bytes: 200,
    operation_window: 8,
    request_window: 1000,
};
const FANOUT: u32 = 2;
/// A world that is not at rest after this many steps never will be.
const MAX_STEPS: u64 = 400_000;

/// The outcome of an operation.
pub(crate) type Outcome = Result<bool, PrimitiveError>;

/// One living node.
struct Node {
    engine: Engine,
    memory: GlobalMemory,
    parent: Option<NodeId>,
}

/// A queue and its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Control(NodeId),
    Request(NodeId),
    Data(NodeId),
    Down(NodeId, NodeId),
    Up(NodeId, NodeId),
    Bulk(NodeId, NodeId),
}

enum Message {
    Control(FromRoot),
    Request(Request, Bytes),
    Data(RequestId, u64, Bytes),
    Down(Passed),
    Up(Up),
    Chunk(Chunk, Bytes),
}

/// The whole cluster.
pub(crate) struct World {
    rng: ChaCha12Rng,
    /// The host of the members that can open the root's memory, if there are any.
    host: Option<HostId>,
    layout: Layout,
    sequencer: Sequencer,
    nodes: BTreeMap<NodeId, Node>,
    lanes: BTreeMap<Lane, VecDeque<Message>>,
    undetected: NodeSet,
    /// How many times data was passed by reference, or would have been if the child took
    /// references.
    pub(crate) lent: u64,
    source: BTreeMap<(NodeId, RequestId), Bytes>,
    next_request: BTreeMap<NodeId, u64>,
    /// Mutant: the root ignores the requests that nodes had issued. The suite must catch it.
    pub(crate) forgets_issued: bool,
    /// The outcomes, by initiator and number.
    pub(crate) outcomes: BTreeMap<(NodeId, RequestId), Outcome>,
}

impl World {
    /// All members are on one host, and the root sends data by reference if it fits `lent_bytes`.
    /// With 0, no host is known.
    pub(crate) fn new(seed: u64, layout: Layout, nodes: u32, lent_bytes: u32) -> World {
        let names = NameTable::open(1000);
        let root = Member { node: NodeId::MM, incarnation: Incarnation(1), listen: nowhere() };
        let host = (lent_bytes > 0).then(HostId::own).flatten();
        let chunk_bytes = if host.is_some() { lent_bytes } else { LIMITS.chunk_bytes };
        let limits = Limits { chunk_bytes, ..LIMITS };
        let sequencer = Sequencer::new(limits, layout.clone(), names, FANOUT, root);
        let sequencer = sequencer.at_host(host.clone());
        let mut world = World {
            rng: ChaCha12Rng::seed_from_u64(seed),
            host,
            layout,
            sequencer,
            nodes: BTreeMap::new(),
            lanes: BTreeMap::new(),
            undetected: NodeSet::new(),
            lent: 0,
            source: BTreeMap::new(),
            next_request: BTreeMap::new(),
            forgets_issued: false,
            outcomes: BTreeMap::new(),
        };
        world.add(NodeId::MM);
        world.settle();
        (0..nodes).for_each(|_| world.join());
        world
    }

    pub(crate) fn rng(&mut self) -> &mut ChaCha12Rng {
        &mut self.rng
    }

    pub(crate) fn alive(&self) -> NodeSet {
        self.nodes.keys().copied().collect()
    }

    /// Bytes of large transfers that some node still holds.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.nodes.values().map(|node| node.engine.staged_bytes()).sum()
    }

    pub(crate) fn memory(&self, node: NodeId) -> &GlobalMemory {
        &self.nodes[&node].memory
    }

    /// Another node joins.
    pub(crate) fn join(&mut self) {
        let name = format!("host{}", self.next_request.len());
        // Now and then a member is on another host.
        let host = self.host.clone().filter(|_| self.rng.random_ratio(15, 16));
        let join = Join {
            version: PROTOCOL_VERSION,
            cluster: String::new(),
            name,
            layout: self.layout.hash(),
            listen: nowhere(),
            fabric: String::new(),
            host,
        };
        let joined = self.sequencer.join(&join, "").expect("it fits");
        self.settle();
        self.add(joined.node);
        let view = self.sequencer.snapshot();
        self.push(Lane::Control(joined.node), Message::Control(FromRoot::View(view)));
    }

    /// Sets whether `node` takes references.
    pub(crate) fn references(&mut self, node: NodeId, taken: bool) {
        self.sequencer.references(node, taken);
    }

    /// A node stops at once. The root learns of it later.
    pub(crate) fn kill(&mut self, node: NodeId) {
        if self.nodes.remove(&node).is_some() {
            self.lanes.retain(|lane, _| !lane.touches(node));
            self.undetected.insert(node);
        }
    }

    /// `node` issues an operation. Returns its number.
    pub(crate) fn issue(&mut self, node: NodeId, primitive: Primitive, data: Bytes) -> RequestId {
        let number = self.next_request.entry(node).or_default();
        *number += 1;
        let id = RequestId(*number);
        let inline = data.len() <= LIMITS.inline_limit_bytes as usize;
        self.source.insert((node, id), data.clone());
        let request = Request { id, primitive };
        if node == NodeId::MM {
            self.sequencer.request(node, request, data).expect("in order");
            self.settle();
        } else {
            let data = if inline { data } else { Bytes::new() };
            if inline {
                self.engine(node).set_own(Some(id));
            }
            self.push(Lane::Request(node), Message::Request(request, data));
        }
        id
    }

    /// Delivers one message, or lets the root learn of a death. Returns false at rest.
    pub(crate) fn step(&mut self) -> bool {
        let mut choices: Vec<Lane> = Vec::new();
        choices.extend(self.lanes.iter().filter(|(_, queue)| !queue.is_empty()).map(|(at, _)| *at));
        let detections = usize::from(!self.undetected.is_empty());
        if choices.len() + detections == 0 {
            return false;
        }
        let choice = self.rng.random_range(0..choices.len() + detections);
        match choices.get(choice) {
            Some(lane) => self.deliver(*lane),
            None => {
                let dead = std::mem::take(&mut self.undetected);
                self.sequencer.lost(&dead);
                self.settle();
            }
        }
        true
    }

    /// Continues until nothing is under way.
    pub(crate) fn run_to_rest(&mut self) {
        for _ in 0..MAX_STEPS {
            if !self.step() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn deliver(&mut self, lane: Lane) {
        let Some(message) = self.lanes.get_mut(&lane).and_then(VecDeque::pop_front) else { return };
        match (lane, message) {
            (Lane::Control(node), Message::Control(message)) => self.control(node, message),
            (Lane::Request(node), Message::Request(request, data)) => {
                self.sequencer.request(node, request, data).expect("in order");
            }
            (Lane::Data(node), Message::Data(request, offset, data)) => {
                self.sequencer.data(node, request, offset, &data).expect("in order");
            }
            (Lane::Down(_, to), Message::Down(Passed::Lent(down, piece))) => {
                self.engine(to).on_lent(&down, piece);
                self.drain(to);
            }
            (Lane::Down(_, to), Message::Down(Passed::Frame(raw))) => {
                let (down, payload) = decode::<Down>(&raw).expect("a frame").expect("whole");
                self.engine(to).on_down(&down, &payload, &raw);
                self.drain(to);
            }
            (Lane::Up(from, to), Message::Up(up)) => {
                self.engine(to).on_up(from, up);
                self.drain(to);
            }
            (Lane::Bulk(from, to), Message::Chunk(chunk, data)) => {
                self.engine(to).on_chunk(&chunk, data).expect("no gap");
                self.drain(to);
                self.pull(from, to);
            }
            _ => unreachable!("each lane has its messages"),
        }
        self.settle();
    }

    fn control(&mut self, node: NodeId, message: FromRoot) {
        match message {
            FromRoot::View(view) => {
                self.engine(node).on_view(&view).expect("a tree");
                let parent = self.nodes[&node].engine.topology().parent(node).map(|m| m.node);
                if parent != self.nodes[&node].parent {
                    // The old link is closed, the new one is empty.
                    self.lanes.retain(|lane, _| !lane.is_tree_link_of(node));
                    self.nodes.get_mut(&node).expect("alive").parent = parent;
                }
                let attach = self.engine(node).attach_message();
                self.send_up(node, attach);
                self.engine(node).report_stages();
                self.drain(node);
            }
            FromRoot::Done { request, outcome } => self.finish(node, request, outcome),
            FromRoot::Grant { request } => {
                let data = self.source[&(node, request)].clone();
                for (index, piece) in data.chunks(LIMITS.chunk_bytes as usize).enumerate() {
                    let offset = index as u64 * u64::from(LIMITS.chunk_bytes);
                    let message = Message::Data(request, offset, Bytes::copy_from_slice(piece));
                    self.push(Lane::Data(node), message);
                }
            }
            FromRoot::Ping { .. } => {}
        }
    }

    /// Carries out all outputs of the sequencer.
    fn settle(&mut self) {
        while let Some(output) = self.sequencer.take_output() {
            match output {
                sequencer::Output::View(view) => {
                    if let Some(root) = self.nodes.get_mut(&NodeId::MM) {
                        root.engine.on_view(&view).expect("a tree");
                    }
                    for node in self.alive().iter().filter(|node| *node != NodeId::MM) {
                        let message = Message::Control(FromRoot::View(view.clone()));
                        self.push(Lane::Control(node), message);
                    }
                }
                sequencer::Output::Down(down, payload) => {
                    if payload.len() > LIMITS.inline_limit_bytes as usize {
                        self.lent += 1;
                        self.engine(NodeId::MM).on_lent(&down, payload.into());
                    } else {
                        let raw = encode(&down, &payload);
                        self.engine(NodeId::MM).on_down(&down, &payload, &raw);
                    }
                }
                sequencer::Output::Chunk(chunk, payload) => {
                    self.engine(NodeId::MM).on_chunk(&chunk, payload).expect("no gap");
                }
                sequencer::Output::Done { to: NodeId::MM, request, outcome } => {
                    self.finish(NodeId::MM, request, outcome);
                }
                sequencer::Output::Done { to, request, outcome } => {
                    let message = FromRoot::Done { request, outcome };
                    self.push(Lane::Control(to), Message::Control(message));
                }
                sequencer::Output::Grant { to, request } => {
                    let message = Message::Control(FromRoot::Grant { request });
                    self.push(Lane::Control(to), message);
                }
            }
            self.drain(NodeId::MM);
        }
    }

    /// Sends all outputs of the engine of `node`.
    fn drain(&mut self, node: NodeId) {
        loop {
            let Some(alive) = self.nodes.get_mut(&node) else { return };
            let Some(output) = alive.engine.take_output() else { return };
            match output {
                Output::Child(child, passed) => {
                    let passed = self.as_sent(passed);
                    self.push(Lane::Down(node, child), Message::Down(passed));
                }
                Output::BulkReady(child) => self.pull(node, child),
                Output::Parent(up) if node == NodeId::MM => match up {
                    Up::Acks { acks, issued, .. } => {
                        if !self.forgets_issued {
                            self.sequencer.issued(issued);
                        }
                        for (seq, verdict) in acks {
                            self.sequencer.complete(seq, verdict);
                        }
                    }
                    Up::Staged { stage, .. } => self.sequencer.staged(stage),
                    Up::Attach(_) => unreachable!("the root has no parent"),
                },
                Output::Parent(up) => self.send_up(node, up),
            }
        }
    }

    /// A child that takes no references is sent the data.
    fn as_sent(&mut self, passed: Passed) -> Passed {
        match passed {
            Passed::Lent(down, piece) if self.rng.random_ratio(1, 4) => {
                Passed::Frame(encode(&*down, piece.bytes()))
            }
            other => other,
        }
    }

    fn send_up(&mut self, node: NodeId, up: Up) {
        if let Some(parent) = self.nodes[&node].parent {
            self.push(Lane::Up(node, parent), Message::Up(up));
        }
    }

    /// Fills the bulk lane as far as a socket would accept bytes.
    fn pull(&mut self, from: NodeId, to: NodeId) {
        let is_linked = self.nodes.get(&to).is_some_and(|node| node.parent == Some(from));
        while is_linked && self.lanes.get(&Lane::Bulk(from, to)).is_none_or(|lane| lane.len() < 2) {
            let Some(sender) = self.nodes.get_mut(&from) else { return };
            let Some((chunk, data)) = sender.engine.next_chunk(to) else { return };
            self.push(Lane::Bulk(from, to), Message::Chunk(chunk, data.bytes().clone()));
        }
    }

    fn push(&mut self, lane: Lane, message: Message) {
        // Messages to or over a closed link are lost.
        let open = match lane {
            Lane::Control(node) | Lane::Request(node) | Lane::Data(node) => {
                self.nodes.contains_key(&node)
            }
            Lane::Down(parent, child) | Lane::Bulk(parent, child) | Lane::Up(child, parent) => {
                let linked = self.nodes.get(&child).is_some_and(|n| n.parent == Some(parent));
                linked && self.nodes.contains_key(&parent)
            }
        };
        if open {
            self.lanes.entry(lane).or_default().push_back(message);
        }
    }

    fn finish(&mut self, node: NodeId, request: RequestId, outcome: Outcome) {
        let before = self.outcomes.insert((node, request), outcome);
        assert_eq!(before, None, "{node} {request:?} has one outcome");
    }

    fn engine(&mut self, node: NodeId) -> &mut Engine {
        &mut self.nodes.get_mut(&node).expect("alive").engine
    }

    fn add(&mut self, node: NodeId) {
        let memory = GlobalMemory::new(&self.layout);
        let engine = Engine::new(node, FANOUT, memory.clone(), EventTable::new(&self.layout));
        self.nodes.insert(node, Node { engine, memory, parent: None });
        self.next_request.entry(node).or_default();
    }
}

impl Lane {
    fn touches(self, node: NodeId) -> bool {
        match self {
            Lane::Control(to) => to == node,
            // In reality, data that a node has sent still arrives after its death, and the root
            // reads it before the end of the stream. Here the data is lost at once, which is harder
            // for the root's bookkeeping.
            Lane::Request(from) | Lane::Data(from) => from == node,
            Lane::Down(a, b) | Lane::Up(a, b) | Lane::Bulk(a, b) => a == node || b == node,
        }
    }

    fn is_tree_link_of(self, child: NodeId) -> bool {
        match self {
            Lane::Down(_, to) | Lane::Bulk(_, to) => to == child,
            Lane::Up(from, _) => from == child,
            Lane::Control(_) | Lane::Request(_) | Lane::Data(_) => false,
        }
    }
}

fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}
