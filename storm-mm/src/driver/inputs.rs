//! Standard input on its way to the ranks of jobs. Input leaves while no node is more than a window
//! behind (`storm_rm::input_flow`). The client receives `ok` when all of its request has left. If a
//! job does not read, its client waits, and nothing is lost.
//!
//! After a restart of the manager, the nodes report how much they have taken of the input that the
//! former manager sent. The client then resends the input that may not have arrived.

use super::{Contents, Shared};
use crate::api::{ApiError, ErrorCode, Reply, ReplySink};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storm_primitives::{NodeId, NodeSet, Primitives};
use storm_rm::input_flow::{PIECE_BYTES, WINDOW_BYTES};
use storm_rm::message::Command;
use storm_rm::{JobId, JobIncarnation, StepRef};

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
    /// The data were sent before: where they begin in the input of the run.
    pub(super) resent_from: Option<u64>,
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
    flows: RefCell<BTreeMap<StepRef, Flow>>,
}

/// The input of one run of a job.
struct Flow {
    incarnation: JobIncarnation,
    origin: Origin,
    sent_bytes: u64,
    /// Bytes that all ranks of each living node have taken.
    taken_bytes: BTreeMap<NodeId, u64>,
    waiting: VecDeque<InputRequest>,
    /// Pieces that were sent and may not have been taken, each with its offset.
    sent: VecDeque<(u64, Bytes)>,
    /// The end was sent.
    ended: bool,
    /// Nodes whose Node Managers have ended, and that have not reported yet how much they have
    /// taken.
    returning: BTreeSet<NodeId>,
    /// Nodes that have reported how much they have taken.
    reported: BTreeSet<NodeId>,
}

/// The manager that sent the beginning of a run's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// This manager.
    Here,
    /// A former manager. It is not known yet where the input continues.
    Former,
    /// A former manager. Nodes may already have received a part of the input, so each command
    /// carries its place.
    Continued,
}

/// The next step for a job's input.
enum Next {
    /// Send this command.
    Say(NodeSet, Command),
    /// Answer a request.
    Answer(ReplySink, Reply),
}

impl Flow {
    fn new(incarnation: JobIncarnation, origin: Origin) -> Flow {
        Flow {
            incarnation,
            origin,
            sent_bytes: 0,
            taken_bytes: BTreeMap::new(),
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            ended: false,
            returning: BTreeSet::new(),
            reported: BTreeSet::new(),
        }
    }

    /// These nodes have ranks that read the input.
    fn has_readers(&mut self, nodes: &NodeSet) {
        if self.taken_bytes.is_empty() || self.origin == Origin::Former {
            for node in nodes.iter() {
                self.taken_bytes.entry(node).or_insert(0);
            }
        }
    }

    /// The number of bytes that all nodes have taken. Without a node left, nothing counts as under
    /// way.
    fn least_taken(&self) -> u64 {
        self.taken_bytes.values().min().copied().unwrap_or(self.sent_bytes)
    }

    fn has_room(&self) -> bool {
        self.sent_bytes.saturating_sub(self.least_taken()) < WINDOW_BYTES
    }

    /// Finds the place of the first waiting request, and drops those of its bytes that this manager
    /// has sent.
    fn place(&mut self) {
        let least = self.least_taken();
        let Some(request) = self.waiting.front_mut() else { return };
        let resent_from = request.resent_from.take();
        match (self.origin, resent_from) {
            (Origin::Former, Some(from)) => {
                (self.origin, self.sent_bytes) = (Origin::Continued, from);
            }
            // The client has sent nothing before, or has no record of the bytes that arrived.
            (Origin::Former, None) => (self.origin, self.sent_bytes) = (Origin::Here, least),
            (Origin::Here | Origin::Continued, Some(from)) => {
                let known = self.sent_bytes.saturating_sub(from);
                let known = usize::try_from(known).unwrap_or(usize::MAX).min(request.data.len());
                drop(request.data.split_to(known));
            }
            (Origin::Here | Origin::Continued, None) => {}
        }
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.waiting.iter().map(|request| request.data.len()).sum();
        bytes >= WAITING_BYTES_MAX || self.waiting.len() >= WAITING_MAX
    }

    fn next(&mut self, step: StepRef) -> Option<Next> {
        if !self.returning.is_empty() {
            return None;
        }
        self.place();
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
        let offset = self.sent_bytes;
        if !piece.is_empty() {
            self.sent.push_back((offset, piece.clone()));
        }
        self.sent_bytes += piece.len() as u64;
        let nodes = self.taken_bytes.keys().copied().collect();
        let command = match self.origin {
            Origin::Here => Command::Input { step, data: piece, eof: last },
            Origin::Former | Origin::Continued => {
                Command::InputAgain { step, offset, data: piece, eof: last }
            }
        };
        Some(Next::Say(nodes, command))
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
    fn again(&self, step: StepRef, taken_bytes: u64) -> Vec<Command> {
        let lacks = |(at, piece): &&(u64, Bytes)| at + piece.len() as u64 > taken_bytes;
        let piece = |(offset, data): &(u64, Bytes)| {
            let (offset, data) = (*offset, data.clone());
            Command::InputAgain { step, offset, data, eof: false }
        };
        let end =
            Command::InputAgain { step, offset: self.sent_bytes, data: Bytes::new(), eof: true };
        let pieces = self.sent.iter().filter(lacks).map(piece);
        pieces.chain(self.ended.then_some(end)).collect()
    }
}

impl Inputs {
    /// Takes input for the ranks of a run of a job on `nodes`. Answers if there is no room for it.
    fn take(
        &self,
        step: StepRef,
        (incarnation, origin): (JobIncarnation, Origin),
        nodes: &NodeSet,
        request: InputRequest,
    ) -> Option<Next> {
        let mut flows = self.flows.borrow_mut();
        let flow = flows.entry(step).or_insert_with(|| Flow::new(incarnation, origin));
        flow.has_readers(nodes);
        if !flow.is_full() {
            flow.waiting.push_back(request);
            return None;
        }
        let limit_mib = WAITING_BYTES_MAX >> 20;
        let message = format!("job {} has not read {limit_mib} MiB of its input yet", step.job);
        let error = ApiError::new(ErrorCode::TooLarge, message)
            .hint("send more once the previous input is answered");
        Some(Next::Answer(request.replies, Reply::Error { error }))
    }

    /// The ranks of a node have taken input of a run. Returns what the node lacks, if it has
    /// rejoined.
    fn taken(
        &self,
        node: NodeId,
        step: StepRef,
        incarnation: JobIncarnation,
        taken_bytes: u64,
    ) -> Vec<Next> {
        let mut flows = self.flows.borrow_mut();
        let flow = flows.get_mut(&step).filter(|flow| flow.incarnation == incarnation);
        let Some(flow) = flow else { return Vec::new() };
        flow.reported.insert(node);
        if flow.origin == Origin::Former {
            flow.taken_bytes.entry(node).or_insert(0);
        }
        let Some(known) = flow.taken_bytes.get_mut(&node) else { return Vec::new() };
        let again = match flow.returning.remove(&node) {
            true => {
                *known = taken_bytes;
                flow.again(step, taken_bytes)
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

    /// A former manager began the input of this run, and a node reports of it.
    fn begun_by_former(&self, step: StepRef, incarnation: JobIncarnation) {
        let mut flows = self.flows.borrow_mut();
        flows.entry(step).or_insert_with(|| Flow::new(incarnation, Origin::Former));
    }

    /// For a run that a former manager began: sends nothing before the nodes that `inherited` gives
    /// have reported how much they have taken.
    fn await_reports(
        &self,
        step: StepRef,
        inherited: impl FnOnce(JobIncarnation) -> Option<NodeSet>,
    ) {
        let mut flows = self.flows.borrow_mut();
        let flow = flows.get_mut(&step).filter(|flow| flow.origin == Origin::Former);
        let Some(flow) = flow else { return };
        let Some(nodes) = inherited(flow.incarnation) else { return };
        let silent = |node: &NodeId| nodes.contains(*node) && !flow.reported.contains(node);
        let silent: Vec<NodeId> = flow.taken_bytes.keys().copied().filter(silent).collect();
        flow.returning.extend(silent);
    }

    /// A node died. Flows no longer wait for it, except flows of jobs that wait for the node
    /// themselves. Returns the jobs whose flows may continue.
    fn node_died(&self, node: NodeId, awaits: impl Fn(StepRef) -> bool) -> Vec<StepRef> {
        let mut go_on = Vec::new();
        for (step, flow) in self.flows.borrow_mut().iter_mut() {
            if !awaits(*step) {
                flow.returning.remove(&node);
                go_on.extend(flow.taken_bytes.remove(&node).map(|_| *step));
            } else if flow.taken_bytes.contains_key(&node) {
                flow.reported.remove(&node);
                flow.returning.insert(node);
            }
        }
        go_on
    }

    /// The run of a job is over: the rest of its steps' input has no reader.
    fn forget(&self, job: JobId) -> Vec<Next> {
        let mut flows = self.flows.borrow_mut();
        let over: Vec<StepRef> = flows.keys().filter(|step| step.job == job).copied().collect();
        let over = over.into_iter().filter_map(|step| flows.remove(&step));
        over.flat_map(|flow| flow.waiting).map(InputRequest::answered).collect()
    }

    /// A step is over: the rest of its input has no reader.
    fn forget_step(&self, step: StepRef) -> Vec<Next> {
        let flow = self.flows.borrow_mut().remove(&step);
        let waiting = flow.into_iter().flat_map(|flow| flow.waiting);
        waiting.map(InputRequest::answered).collect()
    }

    /// The next step for a job's input; `None` if there is no room or nothing waits.
    fn next(&self, step: StepRef) -> Option<Next> {
        self.flows.borrow_mut().get_mut(&step).and_then(|flow| flow.next(step))
    }

    /// The jobs that have input.
    fn jobs(&self) -> Vec<StepRef> {
        self.flows.borrow().keys().copied().collect()
    }
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Takes input for the ranks of a run of a job on `nodes`; answers when all of it is on its
    /// way.
    pub(super) fn take_input(
        &self,
        step: StepRef,
        incarnation: JobIncarnation,
        nodes: &NodeSet,
        request: InputRequest,
    ) {
        // Nodes that are on their way back are there before anything is sent.
        let alive = if self.core().is_recovering(step.job) {
            nodes.clone()
        } else {
            nodes.intersection(&self.primitives.membership().alive())
        };
        let is_inherited = self.core().inherited_parts(step.job, incarnation).is_some();
        let origin = if is_inherited { Origin::Former } else { Origin::Here };
        let refused = self.clients.inputs().take(step, (incarnation, origin), &alive, request);
        refused.into_iter().for_each(|next| self.do_next(next));
        self.pass_input(step);
    }

    /// The ranks of a node have taken more input.
    pub(super) fn input_taken(
        &self,
        node: NodeId,
        step: StepRef,
        incarnation: JobIncarnation,
        taken_bytes: u64,
    ) {
        let is_inherited = {
            let core = self.core();
            let is_known = core.has_step(step, incarnation);
            is_known && core.inherited_parts(step.job, incarnation).is_some()
        };
        if is_inherited {
            self.clients.inputs().begun_by_former(step, incarnation);
        }
        let lacks = self.clients.inputs().taken(node, step, incarnation, taken_bytes);
        lacks.into_iter().for_each(|next| self.do_next(next));
        self.pass_input(step);
    }

    /// A node that died takes no input.
    pub(super) fn input_of_dead(&self, node: NodeId) {
        let awaits = |step: StepRef| self.core().is_recovering(step.job);
        let go_on = self.clients.inputs().node_died(node, awaits);
        go_on.into_iter().for_each(|step| self.pass_input(step));
    }

    /// The run of a job is over: the rest of its input has no reader.
    pub(super) fn forget_input(&self, job: JobId) {
        let answers = self.clients.inputs().forget(job);
        answers.into_iter().for_each(|next| self.do_next(next));
    }

    /// A step is over: the rest of its input has no reader.
    pub(super) fn forget_input_of(&self, step: StepRef) {
        let answers = self.clients.inputs().forget_step(step);
        answers.into_iter().for_each(|next| self.do_next(next));
    }

    /// Nodes have rejoined: sends the input that waited for them.
    pub(super) fn resume_inputs(&self) {
        self.clients.inputs().jobs().into_iter().for_each(|step| self.pass_input(step));
    }

    /// Sends as much input as there is room for.
    fn pass_input(&self, step: StepRef) {
        if self.core().is_recovering(step.job) {
            return;
        }
        self.clients
            .inputs()
            .await_reports(step, |run| self.core().inherited_parts(step.job, run).cloned());
        while let Some(next) = self.clients.inputs().next(step) {
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
