//! A node's part in the tree, without sockets or clock: carries out operations in order, passes
//! them on, combines the replies.
//!
//! The root has an engine too, below its [`Sequencer`](crate::sequencer::Sequencer). Methods take
//! incoming frames; [`Engine::take_output`] returns the frames to send. The driver opens
//! connections.
//!
//! Order: in one epoch, every operation for a node travels along one path of FIFO links. The
//! operations that a node has carried out are therefore a prefix of the operations meant for it.
//! After a change of the tree, the root sends every incomplete operation again. A node skips those
//! it has carried out, and repeats its answer.

mod child;
mod combine;
mod issued;
mod lending;
mod staging;

use crate::shared_memory::Piece;
use crate::topology::Topology;
use crate::wire::{Attach, Chunk, Down, Operation, RequestId, Seq, StageId, Up, View};
use bytes::Bytes;
use child::Child;
use combine::Combine;
use issued::Issued;
use lending::Data;
pub use lending::Passed;
use staging::Staging;
use std::collections::{BTreeMap, VecDeque};
use storm_primitives::{
    Epoch, EventId, EventTable, GlobalAddr, GlobalMemory, NodeId, NodeSet, Signal,
};
use thiserror::Error;

/// The bound on messages from children that know a newer view than this node: an attach message
/// and some reports each.
const MAX_EARLY: usize = 4096;

/// A message for the driver to send.
#[derive(Debug)]
pub enum Output {
    /// A message to the parent; at the root, to the sequencer.
    Parent(Up),
    /// An operation for a child.
    Child(NodeId, Passed),
    /// [`Engine::next_chunk`] has something for this child.
    BulkReady(NodeId),
}

/// A peer does something that no correct peer does.
#[derive(Debug, Error)]
pub enum ProtocolError {
    /// A piece of a transfer is missing.
    #[error("a chunk of {stage:?} at {offset}, but {expected} was next")]
    Gap {
        /// The transfer.
        stage: StageId,
        /// Where the chunk begins.
        offset: u64,
        /// Where it should have begun.
        expected: u64,
    },
    /// A transfer is longer than memory, or a chunk exceeds its transfer.
    #[error("{stage:?} of {total} bytes does not fit")]
    Oversized {
        /// The transfer.
        stage: StageId,
        /// Its length.
        total: u64,
    },
    /// A view leaves out or invents a position.
    #[error("the view of {epoch:?} makes no tree")]
    NoTree {
        /// Its version.
        epoch: Epoch,
    },
}

/// One node of the tree.
#[derive(Debug)]
pub struct Engine {
    node: NodeId,
    topology: Topology,
    epoch: Epoch,
    children: BTreeMap<NodeId, Child>,
    /// Messages from children that know a newer view than this node.
    early: Vec<(NodeId, Up)>,
    memory: GlobalMemory,
    events: EventTable,
    /// The last operation carried out here.
    applied: Seq,
    /// This node's verdicts on comparisons that may be asked again.
    verdicts: BTreeMap<Seq, bool>,
    inflight: BTreeMap<Seq, Combine>,
    /// Replies to send up in one frame.
    acks: Vec<(Seq, bool)>,
    issued: Issued,
    stagings: BTreeMap<StageId, Staging>,
    /// Data lent to children, until they have it.
    lent: BTreeMap<Seq, Piece>,
    live_stages: Vec<StageId>,
    next_stage: StageId,
    output: VecDeque<Output>,
}

impl Engine {
    /// A node that has seen no view yet.
    pub fn new(node: NodeId, fanout: u32, memory: GlobalMemory, events: EventTable) -> Engine {
        Engine {
            node,
            topology: Topology::new(fanout),
            epoch: Epoch(0),
            children: BTreeMap::new(),
            early: Vec::new(),
            memory,
            events,
            applied: Seq(0),
            verdicts: BTreeMap::new(),
            inflight: BTreeMap::new(),
            acks: Vec::new(),
            issued: Issued::default(),
            stagings: BTreeMap::new(),
            lent: BTreeMap::new(),
            live_stages: Vec::new(),
            next_stage: StageId(0),
            output: VecDeque::new(),
        }
    }

    /// The tree as this node knows it.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The version of the tree.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether `node` is a child of this node now.
    pub fn is_child(&self, node: NodeId) -> bool {
        self.children.contains_key(&node)
    }

    /// The next message to send. Replies are returned last, so that many share a frame.
    pub fn take_output(&mut self) -> Option<Output> {
        self.take_passed().or_else(|| {
            if self.acks.is_empty() {
                return None;
            }
            let (epoch, acks) = (self.epoch, std::mem::take(&mut self.acks));
            let issued = self.issued.take(self.node);
            Some(Output::Parent(Up::Acks { epoch, acks, issued }))
        })
    }

    /// Like [`take_output`](Self::take_output), without replies.
    pub fn take_passed(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Sets this node's last prompt request that the root may not have yet. A reply to a comparison
    /// may show a store that this node made after the request. The reply therefore names the
    /// request, and the root holds its answer until the request has its place.
    pub fn set_own(&mut self, request: Option<RequestId>) {
        self.issued.set_own(request);
    }

    /// The children whose replies to `seq` are missing, with all nodes below them.
    pub fn missing(&self, seq: Seq) -> NodeSet {
        let waiting = self.inflight.get(&seq).map(Combine::waiting).unwrap_or_default();
        let below = waiting.iter().filter_map(|child| self.children.get(child));
        below.fold(NodeSet::new(), |all, child| all.union(&child.below))
    }

    /// The children that have not reported `stage` as held, with all nodes below them.
    pub fn missing_stage(&self, stage: StageId) -> NodeSet {
        let Some(staging) = self.stagings.get(&stage) else { return NodeSet::new() };
        let waiting = self
            .children
            .values()
            .filter(|child| staging.goes_below(&child.below) && !child.holds.contains(&stage));
        waiting.fold(NodeSet::new(), |all, child| all.union(&child.below))
    }

    /// The tree has changed. Forgets the replies, because the root will ask for them again, and
    /// waits for the children to attach.
    ///
    /// # Errors
    /// [`ProtocolError::NoTree`].
    pub fn on_view(&mut self, view: &View) -> Result<(), ProtocolError> {
        if view.epoch <= self.epoch {
            return Ok(());
        }
        if !self.topology.apply(view) {
            return Err(ProtocolError::NoTree { epoch: view.epoch });
        }
        self.epoch = view.epoch;
        self.inflight.clear();
        self.acks.clear();
        self.issued.clear();
        self.output.retain(|output| matches!(output, Output::BulkReady(_)));
        let children = self.topology.children(self.node);
        self.children = children.into_iter().map(|(id, below)| (id, Child::new(below))).collect();
        self.keep_stages(view);
        let early = std::mem::take(&mut self.early);
        for (child, up) in early {
            self.on_up(child, up);
        }
        let complete: Vec<StageId> = self.stagings.keys().copied().collect();
        for stage in complete {
            self.report_if_held(stage);
        }
        Ok(())
    }

    /// The first message to the parent after a view, once there is a link to it.
    pub fn attach_message(&self) -> Up {
        let held = self.stagings.iter().map(|(id, staging)| (*id, staging.received())).collect();
        Up::Attach(Attach { epoch: self.epoch, held })
    }

    /// Reports the large transfers that were held before the link to the parent existed. Replies
    /// need no repetition: operations come only after the parent has read the attach message.
    pub fn report_stages(&mut self) {
        let all: Vec<StageId> = self.stagings.keys().copied().collect();
        for stage in all {
            if let Some(staging) = self.stagings.get_mut(&stage) {
                staging.forget_report();
            }
            self.report_if_held(stage);
        }
    }

    /// Takes a message of a child.
    pub fn on_up(&mut self, from: NodeId, up: Up) {
        if up.epoch() > self.epoch && self.early.len() < MAX_EARLY {
            self.early.push((from, up));
            return;
        }
        if up.epoch() != self.epoch {
            // The message belongs to an old tree.
            return;
        }
        match up {
            Up::Attach(attach) => self.on_attach(from, attach),
            Up::Acks { acks, issued, .. } => {
                if let Some(child) = self.children.get(&from) {
                    self.issued.add(&child.below, issued);
                }
                acks.into_iter().for_each(|(seq, verdict)| self.on_ack(from, seq, verdict));
            }
            Up::Staged { stage, .. } => {
                if let Some(child) = self.children.get_mut(&from) {
                    child.holds.insert(stage);
                    self.report_if_held(stage);
                }
            }
        }
    }

    /// Takes an operation from the parent, with the frame that it came in.
    pub fn on_down(&mut self, down: &Down, payload: &Bytes, raw: &Bytes) {
        if down.epoch == self.epoch {
            self.take_down(down, Data::Copied(payload), &Passed::Frame(raw.clone()));
        }
    }

    fn take_down(&mut self, down: &Down, data: Data<'_>, passed: &Passed) {
        self.verdicts = self.verdicts.split_off(&down.done);
        self.lent = self.lent.split_off(&down.done);
        let verdict = if down.dest.contains(self.node) {
            self.carry_out(down.seq, &down.operation, data)
        } else {
            if let Operation::Commit { stage, .. } = down.operation {
                self.stagings.remove(&stage);
            }
            true
        };
        if let Operation::Commit { stage, .. } = down.operation {
            self.children.values_mut().for_each(|child| child.forget(stage));
        }
        let mut waiting = Vec::new();
        for (id, child) in &mut self.children {
            if !child.below.intersects(&down.dest) {
                continue;
            }
            waiting.push(*id);
            if child.attached {
                self.output.push_back(Output::Child(*id, passed.clone()));
            } else {
                child.held.push(passed.detached());
            }
        }
        if waiting.is_empty() {
            self.acks.push((down.seq, verdict));
        } else {
            self.lend(down.seq, passed);
            self.inflight.insert(down.seq, Combine::new(waiting, verdict));
        }
    }

    fn on_ack(&mut self, from: NodeId, seq: Seq, verdict: bool) {
        let Some(combine) = self.inflight.get_mut(&seq) else { return };
        if let Some(all) = combine.reply(from, verdict) {
            self.inflight.remove(&seq);
            self.lent.remove(&seq);
            self.acks.push((seq, all));
        }
    }

    fn on_attach(&mut self, from: NodeId, attach: Attach) {
        let Some(child) = self.children.get_mut(&from) else { return };
        child.attached = true;
        child.cursors = attach.held.into_iter().collect();
        let held = child.held.drain(..).map(|passed| Output::Child(from, passed));
        self.output.extend(held);
        self.output.push_back(Output::BulkReady(from));
    }

    /// Carries out `operation` unless it was carried out before. Returns whether its comparison
    /// holds.
    fn carry_out(&mut self, seq: Seq, operation: &Operation, data: Data<'_>) -> bool {
        if seq <= self.applied {
            self.issued.has_compared();
            return self.verdicts.get(&seq).copied().unwrap_or(true);
        }
        self.applied = seq;
        // The root has checked every range against the layout that this node proved to have. A
        // failure here is a bug of this crate.
        let result = match *operation {
            Operation::Put { addr, event } => {
                let result = data.write(&self.memory, addr);
                self.signal(event);
                result
            }
            Operation::Commit { stage, addr, event } => self.commit(stage, addr, event),
            Operation::Compare { var, relation, value } => {
                self.issued.has_compared();
                let verdict = self.memory.load_word(var).map(|left| relation.holds(left, value));
                self.verdicts.insert(seq, verdict == Ok(true));
                verdict.map(|_| ())
            }
            Operation::Store { var, value } => self.memory.store_word(var, value),
        };
        if let Err(error) = result {
            tracing::error!(?seq, %error, "an operation lies outside global memory");
        }
        self.verdicts.get(&seq).copied().unwrap_or(true)
    }

    fn commit(
        &mut self,
        stage: StageId,
        addr: GlobalAddr,
        event: Option<EventId>,
    ) -> Result<(), storm_primitives::OutOfBounds> {
        let Some(staging) = self.stagings.remove(&stage) else {
            tracing::error!(?stage, "a transfer is committed that has not arrived");
            return Ok(());
        };
        for (offset, piece) in staging.chunks() {
            self.memory.write_shared(addr.offset(*offset), piece.bytes())?;
        }
        self.signal(event);
        Ok(())
    }

    fn signal(&self, event: Option<EventId>) {
        if let Some(event) = event {
            let success: Signal = Ok(());
            self.events.signal(event, success);
        }
    }
}

/// The large transfers.
impl Engine {
    /// Takes a piece of a large transfer, from the parent or, at the root, from the initiator.
    ///
    /// # Errors
    /// [`ProtocolError`] if the piece does not continue the data held here.
    pub fn on_chunk(
        &mut self,
        chunk: &Chunk,
        piece: impl Into<Piece>,
    ) -> Result<(), ProtocolError> {
        let Chunk { epoch, stage, total, offset, .. } = *chunk;
        let piece = piece.into();
        // The piece belongs to an older view. The parent sends it again, starting where this node's
        // data ended according to its attach message.
        if epoch != self.epoch {
            return Ok(());
        }
        if stage < self.next_stage && !self.live_stages.contains(&stage) {
            return Ok(());
        }
        if total > self.memory.size() || piece.bytes().is_empty() {
            return Err(ProtocolError::Oversized { stage, total });
        }
        let fresh = || Staging::new(chunk.dest.clone(), total);
        let staging = self.stagings.entry(stage).or_insert_with(fresh);
        let expected = staging.received();
        if offset > expected {
            return Err(ProtocolError::Gap { stage, offset, expected });
        }
        if offset < expected {
            return Ok(());
        }
        if !staging.push(piece) {
            return Err(ProtocolError::Oversized { stage, total });
        }
        for (id, child) in &self.children {
            if child.attached && staging.goes_below(&child.below) {
                self.output.push_back(Output::BulkReady(*id));
            }
        }
        self.report_if_held(stage);
        Ok(())
    }

    /// The next piece for the bulk lane of `child`, of the oldest transfer first.
    pub fn next_chunk(&mut self, child: NodeId) -> Option<(Chunk, Piece)> {
        let child = self.children.get_mut(&child)?;
        if !child.attached {
            return None;
        }
        for (id, staging) in &self.stagings {
            let given_out = *id < self.next_stage && !self.live_stages.contains(id);
            if given_out || !staging.goes_below(&child.below) {
                continue;
            }
            let cursor = child.cursors.entry(*id).or_default();
            if let Some(piece) = staging.from(*cursor) {
                let offset = std::mem::replace(cursor, *cursor + piece.bytes().len() as u64);
                let (epoch, stage) = (self.epoch, *id);
                let (dest, total) = (staging.dest().clone(), staging.total());
                return Some((Chunk { epoch, stage, dest, total, offset, shared: None }, piece));
            }
        }
        None
    }

    /// Bytes of large transfers held here.
    pub fn staged_bytes(&self) -> u64 {
        self.stagings.values().map(Staging::received).sum()
    }

    fn keep_stages(&mut self, view: &View) {
        self.live_stages.clone_from(&view.stages);
        self.next_stage = view.next_stage;
        let (node, children) = (self.node, &self.children);
        self.stagings.retain(|id, staging| {
            staging.forget_report();
            let mine = staging.dest().contains(node);
            let below = children.values().any(|child| staging.goes_below(&child.below));
            let on_its_way = *id >= view.next_stage || view.stages.contains(id);
            let source = node == NodeId::MM;
            (on_its_way && (mine || below || source)) || (mine && view.committed.contains(id))
        });
    }

    fn report_if_held(&mut self, stage: StageId) {
        if stage < self.next_stage && !self.live_stages.contains(&stage) {
            return;
        }
        let Some(staging) = self.stagings.get_mut(&stage) else { return };
        let mut concerned = self.children.values().filter(|child| staging.goes_below(&child.below));
        if staging.is_complete()
            && concerned.all(|child| child.holds.contains(&stage))
            && staging.set_reported()
        {
            self.output.push_back(Output::Parent(Up::Staged { epoch: self.epoch, stage }));
        }
    }
}
