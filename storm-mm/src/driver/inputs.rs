//! Standard input on its way to the ranks of jobs. Input leaves while no node is more than a window
//! behind (`storm_rm::input_flow`). The client hears `ok` when all of its request has left, so a
//! job that does not read makes its client wait, and nothing is lost.

use super::{Contents, Shared};
use crate::api::{ApiError, ErrorCode, Reply, ReplySink};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storm_primitives::{NodeId, NodeSet, Primitives};
use storm_rm::input_flow::{PIECE_BYTES, WINDOW_BYTES};
use storm_rm::message::Command;
use storm_rm::{JobId, JobIncarnation};

/// Largest input of one job that waits for its ranks, over all clients: two of the longest
/// requests. A client that waits for its `ok` has one request under way.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// Largest number of requests that wait, whatever their size.
const WAITING_MAX: usize = 64;

/// A client's request.
pub(super) struct InputRequest {
    pub(super) data: Bytes,
    /// Nothing follows.
    pub(super) eof: bool,
    pub(super) replies: ReplySink,
}

impl InputRequest {
    /// All of it is on its way, or has no reader.
    fn answered(self) -> Next {
        Next::Answer(self.replies, Reply::Ok)
    }
}

/// The input of all jobs.
#[derive(Default)]
pub(super) struct Inputs {
    flows: RefCell<BTreeMap<JobId, Flow>>,
}

/// The input of one run of a job.
struct Flow {
    incarnation: JobIncarnation,
    sent_bytes: u64,
    /// Bytes that all ranks of each living node have taken.
    taken_bytes: BTreeMap<NodeId, u64>,
    waiting: VecDeque<InputRequest>,
    /// Pieces that were sent and may not have been taken, each with its offset.
    sent: VecDeque<(u64, Bytes)>,
    /// The end was sent.
    ended: bool,
    /// Nodes whose Node Managers have ended, and that have not said yet how much they have taken.
    returning: BTreeSet<NodeId>,
}

/// The next step for a job's input.
enum Next {
    /// Send this command.
    Say(NodeSet, Command),
    /// Answer a request.
    Answer(ReplySink, Reply),
}

impl Flow {
    fn new(incarnation: JobIncarnation, nodes: &NodeSet) -> Flow {
        let taken_bytes = nodes.iter().map(|node| (node, 0)).collect();
        let (waiting, sent) = (VecDeque::new(), VecDeque::new());
        let returning = BTreeSet::new();
        Flow { incarnation, sent_bytes: 0, taken_bytes, waiting, sent, ended: false, returning }
    }

    /// Without a node left, nothing counts as under way.
    fn has_room(&self) -> bool {
        let least = self.taken_bytes.values().min().copied().unwrap_or(self.sent_bytes);
        self.sent_bytes.saturating_sub(least) < WINDOW_BYTES
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.waiting.iter().map(|request| request.data.len()).sum();
        bytes >= WAITING_BYTES_MAX || self.waiting.len() >= WAITING_MAX
    }

    fn next(&mut self, job: JobId) -> Option<Next> {
        if !self.returning.is_empty() {
            return None;
        }
        let room = self.has_room();
        let request = self.waiting.front_mut()?;
        let (piece, last) = match (request.data.is_empty(), request.eof) {
            (true, false) => {
                return self.waiting.pop_front().map(|request| request.answered());
            }
            (true, true) => (Bytes::new(), true),
            (false, _) if !room => return None,
            (false, _) => {
                let len = request.data.len().min(PIECE_BYTES);
                (request.data.split_to(len), false)
            }
        };
        request.eof &= !last;
        self.ended |= last;
        if !piece.is_empty() {
            self.sent.push_back((self.sent_bytes, piece.clone()));
        }
        self.sent_bytes += piece.len() as u64;
        let nodes = self.taken_bytes.keys().copied().collect();
        Some(Next::Say(nodes, Command::Input { job, data: piece, eof: last }))
    }
}

impl Flow {
    /// Forgets the pieces that all nodes have taken.
    fn forget_taken(&mut self) {
        let least = self.taken_bytes.values().min().copied().unwrap_or(self.sent_bytes);
        while self.sent.front().is_some_and(|(at, piece)| at + piece.len() as u64 <= least) {
            self.sent.pop_front();
        }
    }

    /// The pieces that a returned node lacks, which has taken `taken_bytes`.
    fn again(&self, job: JobId, taken_bytes: u64) -> Vec<Command> {
        let lacks = |(at, piece): &&(u64, Bytes)| at + piece.len() as u64 > taken_bytes;
        let piece = |(offset, data): &(u64, Bytes)| {
            let (offset, data) = (*offset, data.clone());
            Command::InputAgain { job, offset, data, eof: false }
        };
        let end =
            Command::InputAgain { job, offset: self.sent_bytes, data: Bytes::new(), eof: true };
        let pieces = self.sent.iter().filter(lacks).map(piece);
        pieces.chain(self.ended.then_some(end)).collect()
    }
}

impl Inputs {
    /// Takes input for the ranks of a run of a job on `nodes`. Answers if there is no room for it.
    fn take(
        &self,
        job: JobId,
        incarnation: JobIncarnation,
        nodes: &NodeSet,
        request: InputRequest,
    ) -> Option<Next> {
        let mut flows = self.flows.borrow_mut();
        let flow = flows.entry(job).or_insert_with(|| Flow::new(incarnation, nodes));
        if !flow.is_full() {
            flow.waiting.push_back(request);
            return None;
        }
        let limit_mib = WAITING_BYTES_MAX >> 20;
        let message = format!("job {job} has not read {limit_mib} MiB of its input yet");
        let error = ApiError::new(ErrorCode::TooLarge, message)
            .hint("send more once the previous input is answered");
        Some(Next::Answer(request.replies, Reply::Error { error }))
    }

    /// The ranks of a node have taken input of a run. Returns what the node lacks, if it has come
    /// back.
    fn taken(
        &self,
        node: NodeId,
        job: JobId,
        incarnation: JobIncarnation,
        taken_bytes: u64,
    ) -> Vec<Next> {
        let mut flows = self.flows.borrow_mut();
        let flow = flows.get_mut(&job).filter(|flow| flow.incarnation == incarnation);
        let Some(flow) = flow else { return Vec::new() };
        let Some(known) = flow.taken_bytes.get_mut(&node) else { return Vec::new() };
        let again = match flow.returning.remove(&node) {
            true => {
                *known = taken_bytes;
                flow.again(job, taken_bytes)
            }
            false => {
                *known = taken_bytes.max(*known);
                Vec::new()
            }
        };
        flow.forget_taken();
        let node = NodeSet::single(node);
        again.into_iter().map(|command| Next::Say(node.clone(), command)).collect()
    }

    /// A node died. Flows no longer wait for it, except those of jobs that wait for the node
    /// themselves. Returns the jobs whose flows may go on.
    fn node_died(&self, node: NodeId, awaits: impl Fn(JobId) -> bool) -> Vec<JobId> {
        let mut go_on = Vec::new();
        for (job, flow) in self.flows.borrow_mut().iter_mut() {
            if !awaits(*job) {
                go_on.extend(flow.taken_bytes.remove(&node).map(|_| *job));
            } else if flow.taken_bytes.contains_key(&node) {
                flow.returning.insert(node);
            }
        }
        go_on
    }

    /// The run of a job is over: the rest of its input has no reader.
    fn forget(&self, job: JobId) -> Vec<Next> {
        let flow = self.flows.borrow_mut().remove(&job);
        let waiting = flow.into_iter().flat_map(|flow| flow.waiting);
        waiting.map(InputRequest::answered).collect()
    }

    /// The next step for a job's input; `None` if there is no room or nothing waits.
    fn next(&self, job: JobId) -> Option<Next> {
        self.flows.borrow_mut().get_mut(&job).and_then(|flow| flow.next(job))
    }

    /// The jobs that have input.
    fn jobs(&self) -> Vec<JobId> {
        self.flows.borrow().keys().copied().collect()
    }
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Takes input for the ranks of a run of a job on `nodes`; answers when all of it is on its
    /// way.
    pub(super) fn take_input(
        &self,
        job: JobId,
        incarnation: JobIncarnation,
        nodes: &NodeSet,
        request: InputRequest,
    ) {
        // Nodes that are on their way back are there before anything is sent.
        let alive = if self.core().is_recovering(job) {
            nodes.clone()
        } else {
            nodes.intersection(&self.primitives.membership().alive())
        };
        let refused = self.clients.inputs().take(job, incarnation, &alive, request);
        refused.into_iter().for_each(|next| self.do_next(next));
        self.pass_input(job);
    }

    /// The ranks of a node have taken more input.
    pub(super) fn input_taken(
        &self,
        node: NodeId,
        job: JobId,
        incarnation: JobIncarnation,
        taken_bytes: u64,
    ) {
        let lacks = self.clients.inputs().taken(node, job, incarnation, taken_bytes);
        lacks.into_iter().for_each(|next| self.do_next(next));
        self.pass_input(job);
    }

    /// A node that died takes no input.
    pub(super) fn input_of_dead(&self, node: NodeId) {
        let awaits = |job| self.core().is_recovering(job);
        let go_on = self.clients.inputs().node_died(node, awaits);
        go_on.into_iter().for_each(|job| self.pass_input(job));
    }

    /// The run of a job is over: the rest of its input has no reader.
    pub(super) fn forget_input(&self, job: JobId) {
        let answers = self.clients.inputs().forget(job);
        answers.into_iter().for_each(|next| self.do_next(next));
    }

    /// Nodes have come back: sends the input that waited for them.
    pub(super) fn resume_inputs(&self) {
        self.clients.inputs().jobs().into_iter().for_each(|job| self.pass_input(job));
    }

    /// Sends as much input as there is room for.
    fn pass_input(&self, job: JobId) {
        if self.core().is_recovering(job) {
            return;
        }
        while let Some(next) = self.clients.inputs().next(job) {
            self.do_next(next);
        }
    }

    fn do_next(&self, next: Next) {
        match next {
            Next::Say(nodes, command) => self.say_in_turn(nodes, command),
            Next::Answer(replies, reply) => self.answer(replies, reply),
        }
    }
}
