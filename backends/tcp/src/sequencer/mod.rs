//! The root's part, without sockets or clock. It gives every operation its place in one order,
//! keeps the operation until all nodes have carried it out, and repairs the tree.
//!
//! The root's own [`Engine`](crate::engine::Engine) works below it. It sends the output of
//! [`Sequencer::take_output`] down the tree and brings back the combined replies.
//!
//! A COMPARE-AND-WRITE that writes has two places in the order: its comparison and its write.
//! Between the two, some operations wait (module `conflict`): operations that would change the
//! compared variable, and COMPARE-AND-WRITEs that write and compare the variable to be written. All
//! other operations continue.

mod admission;
mod answers;
mod conflict;
mod membership;
mod queue;
mod stage;

use crate::names::NameTable;
use crate::shared_memory::HostId;
use crate::topology::Topology;
use crate::wire::{Chunk, Down, Operation, Request, RequestId, Seq, StageId, View};
use answers::Answers;
use bytes::Bytes;
use conflict::OpenCompare;
use queue::Queues;
use stage::Stage;
use std::collections::{BTreeMap, VecDeque};
use storm_primitives::{
    CompareAndWrite, Epoch, Incarnation, Instant, Layout, NodeId, NodeSet, PrimitiveError,
};
use thiserror::Error;

pub(crate) use admission::check;
pub use membership::Joined;

/// The bounds of the sequencer.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Transfers up to this many bytes travel with their operation.
    pub inline_limit_bytes: u32,
    /// Longer transfers travel in chunks of this many bytes.
    pub chunk_bytes: u32,
    /// Bytes of large transfers in flight at a time. A longer transfer travels alone.
    pub stage_window_bytes: u64,
    /// The most operations that are placed and not complete; others queue.
    pub operation_window: u32,
    /// Requests of one node that are unanswered at a time.
    pub request_window: u32,
}

/// An effect for the driver to carry out.
#[derive(Debug)]
pub enum Output {
    /// A view for every node, and for the root's own engine. It comes before all other output.
    View(View),
    /// An operation for the tree.
    Down(Down, Bytes),
    /// A chunk for the bulk lanes of the tree.
    Chunk(Chunk, Bytes),
    /// An outcome for the initiator.
    Done {
        /// The initiator.
        to: NodeId,
        /// Its number for the operation.
        request: RequestId,
        /// The outcome.
        outcome: Result<bool, PrimitiveError>,
    },
    /// Leave for the initiator to send the data.
    Grant {
        /// The initiator.
        to: NodeId,
        /// Its number for the operation.
        request: RequestId,
    },
}

/// An initiator does something that no correct initiator does. The driver cuts that node off.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// A request number was used before.
    #[error("request {request:?} is out of order")]
    OutOfOrder {
        /// The number.
        request: RequestId,
    },
    /// More requests than the window allows.
    #[error("more requests are waiting than allowed")]
    WindowExceeded,
    /// The data does not have the announced length.
    #[error("request {request:?} came with {len} bytes, but announced another number")]
    WrongLength {
        /// The request.
        request: RequestId,
        /// The length received.
        len: u64,
    },
}

/// The root's order of operations.
#[derive(Debug)]
pub struct Sequencer {
    limits: Limits,
    layout: Layout,
    names: NameTable,
    topology: Topology,
    alive: NodeSet,
    /// The root's host, if its members can open the root's memory.
    host: Option<HostId>,
    /// The members on other hosts, or without references.
    elsewhere: NodeSet,
    /// The members that take no references at present.
    refusing: NodeSet,
    lives: BTreeMap<NodeId, Incarnation>,
    epoch: Epoch,
    now: Instant,
    next_seq: Seq,
    next_stage: StageId,
    queues: Queues,
    pending: BTreeMap<Seq, Pending>,
    open: BTreeMap<Seq, OpenCompare>,
    answers: Answers,
    stages: BTreeMap<StageId, Stage>,
    stage_queue: VecDeque<(NodeId, RequestId)>,
    /// Bytes of large transfers that go by reference, have room to be placed and are not complete.
    lent_bytes: u64,
    /// A transfer was dropped, so others that wait for room may continue.
    room_made: bool,
    output: VecDeque<Output>,
}

/// An operation that is placed and not complete everywhere.
#[derive(Debug)]
struct Pending {
    dest: NodeSet,
    operation: Operation,
    payload: Bytes,
    /// The initiator that gets the outcome; `None` if it has died.
    origin: Option<(NodeId, RequestId)>,
    since: Instant,
}

impl Sequencer {
    /// A cluster with only the root in it.
    pub fn new(
        limits: Limits,
        layout: Layout,
        names: NameTable,
        fanout: u32,
        root: crate::wire::Member,
    ) -> Sequencer {
        let mut sequencer = Sequencer {
            limits,
            layout,
            names,
            topology: Topology::new(fanout),
            alive: NodeSet::new(),
            host: None,
            elsewhere: NodeSet::new(),
            refusing: NodeSet::new(),
            lives: BTreeMap::new(),
            epoch: Epoch(0),
            now: Instant::ORIGIN,
            next_seq: Seq(1),
            next_stage: StageId(1),
            queues: Queues::new(),
            pending: BTreeMap::new(),
            open: BTreeMap::new(),
            answers: Answers::default(),
            stages: BTreeMap::new(),
            stage_queue: VecDeque::new(),
            lent_bytes: 0,
            room_made: false,
            output: VecDeque::new(),
        };
        sequencer.admit_member(root);
        sequencer
    }

    /// Sets the root's host. Members on the same host can open its memory. The root sends by
    /// reference while all members are on its host.
    #[must_use]
    pub fn at_host(mut self, host: Option<HostId>) -> Sequencer {
        self.host = host;
        self
    }

    /// The next effect to carry out.
    pub fn take_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Sets the current time.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The nodes that are alive and joined.
    pub fn alive(&self) -> &NodeSet {
        &self.alive
    }

    /// The version of the tree.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Every operation up to this place is complete on all nodes.
    pub fn low_water(&self) -> Seq {
        self.pending.keys().next().copied().unwrap_or(self.next_seq)
    }

    /// Operations that were placed before `limit`, and transfers that began before it, as far as
    /// they are not complete.
    pub fn older_than(&self, limit: Instant) -> (Vec<Seq>, Vec<StageId>) {
        let old = self.pending.iter().filter(|(_, pending)| pending.since < limit);
        let stages = self.stages.iter().filter(|(_, stage)| stage.is_waiting_since(limit));
        (old.map(|(seq, _)| *seq).collect(), stages.map(|(id, _)| *id).collect())
    }

    /// Takes an operation of the member `from`. `data` is its whole data if it is inline or `from`
    /// is the root.
    ///
    /// # Errors
    /// [`RequestError`]: `from` is at fault and must be cut off.
    pub fn request(
        &mut self,
        from: NodeId,
        request: Request,
        data: Bytes,
    ) -> Result<(), RequestError> {
        self.enqueue(from, request, data)?;
        self.start_stages();
        self.advance();
        Ok(())
    }

    /// The requests that nodes had issued when they compared, as the nodes' replies report them.
    /// Call this before [`complete`](Self::complete) for the same replies.
    pub fn issued(&mut self, issued: Vec<(NodeId, RequestId)>) {
        let alive = &self.alive;
        self.answers.note(issued.into_iter().filter(|(node, _)| alive.contains(*node)), self.now);
    }

    /// `node` has answered a ping sent at `asked`, on the link of its requests. If an earlier
    /// [report](Self::issued) claimed requests that have not arrived, the report is false, and no
    /// answer waits for them any longer. Returns whether there was such a report.
    pub fn answered(&mut self, node: NodeId, asked: Instant) -> bool {
        let was_false = self.answers.answered(node, asked, &self.queues);
        if was_false {
            self.advance();
        }
        was_false
    }

    /// The nodes whose requests have held up answers since before `limit`.
    pub fn awaited_since(&self, limit: Instant) -> NodeSet {
        self.answers.awaited_since(limit)
    }

    /// All nodes have carried out `seq`. `verdict` tells whether its comparison holds.
    pub fn complete(&mut self, seq: Seq, verdict: bool) {
        let Some(pending) = self.pending.remove(&seq) else { return };
        let open = self.open.remove(&seq);
        match (&pending.operation, open) {
            (Operation::Compare { .. }, Some(open)) => {
                if let Some((node, _)) = pending.origin {
                    self.queues.pop(node);
                }
                if verdict {
                    let (var, value) = open.write;
                    let store = Operation::Store { var, value };
                    self.sequence(open.set, store, Bytes::new(), pending.origin);
                } else {
                    self.finish(pending.origin, Ok(false));
                }
            }
            (Operation::Compare { .. }, None) => self.answer(&pending, verdict),
            (Operation::Commit { stage, .. }, _) => {
                self.stages.remove(stage);
                self.finish(pending.origin, Ok(true));
                self.start_stages();
            }
            (Operation::Put { .. }, _) => {
                let len = pending.payload.len() as u64;
                self.finish(pending.origin, Ok(true));
                if len > u64::from(self.limits.inline_limit_bytes) {
                    self.lent_bytes -= len;
                    self.start_stages();
                }
            }
            (Operation::Store { .. }, _) => self.finish(pending.origin, Ok(true)),
        }
        self.advance();
    }

    /// Reports the outcome of a comparison that writes nothing; holds it if it must wait.
    fn answer(&mut self, asked: &Pending, verdict: bool) {
        let Some(to) = asked.origin else { return };
        if !verdict || !self.answers.holds(to, &asked.dest, &self.queues, self.now) {
            self.finish(asked.origin, Ok(verdict));
        }
    }

    /// Gives an operation the next place and sends it.
    fn sequence(
        &mut self,
        dest: NodeSet,
        operation: Operation,
        payload: Bytes,
        origin: Option<(NodeId, RequestId)>,
    ) -> Seq {
        let seq = self.next_seq;
        self.next_seq = Seq(seq.0 + 1);
        let pending = Pending { dest, operation, payload, origin, since: self.now };
        self.pending.insert(seq, pending);
        self.send(seq);
        seq
    }

    /// Sends a pending operation under the current view.
    fn send(&mut self, seq: Seq) {
        let done = self.low_water();
        let Some(pending) = self.pending.get(&seq) else { return };
        let (dest, operation) = (pending.dest.clone(), pending.operation.clone());
        let down = Down { epoch: self.epoch, seq, done, dest, operation, shared: None };
        self.output.push_back(Output::Down(down, pending.payload.clone()));
    }

    fn finish(
        &mut self,
        origin: Option<(NodeId, RequestId)>,
        outcome: Result<bool, PrimitiveError>,
    ) {
        if let Some((to, request)) = origin {
            self.output.push_back(Output::Done { to, request, outcome });
        }
    }

    /// The nodes of `set` that are not in the cluster, if there are any.
    fn dead_of(&self, set: &NodeSet) -> Option<PrimitiveError> {
        let nodes = set.difference(&self.alive);
        (!nodes.is_empty()).then_some(PrimitiveError::NodesDead { nodes })
    }

    /// The comparison of `caw` as an operation of one node.
    fn compare_of(caw: &CompareAndWrite) -> Operation {
        Operation::Compare { var: caw.var, relation: caw.relation, value: caw.value }
    }
}
