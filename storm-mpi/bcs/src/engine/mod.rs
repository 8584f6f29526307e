//! The engine of one node: the threads of the paper's network interface, as a single state machine.
//!
//! The engine is pure, except for the node's own copy of global memory. Its inputs are posts,
//! strobes, outcomes and deaths. Its outputs are operations to issue. It neither waits nor reads a
//! clock.

mod ending;
mod handover;
mod phases;

use crate::block::{Grant, Unreadable};
use crate::buffer_receiver::BufferReceiver;
use crate::buffer_sender::BufferSender;
use crate::collective_helper::CollectiveHelper;
use crate::microphase::{Microphase, Step};
use crate::question::{Candidates, Question};
use crate::{
    BcsError, Completion, GroupId, JobKey, Member, Phase, Plan, Post, RequestId, Strobe,
    reduce_helper,
};
use ending::Doom;
pub(crate) use handover::JobState;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use storm_mpi::{Pattern, Status};
use storm_primitives::{
    CompareAndWrite, GlobalMemory, NodeId, NodeSet, PrimitiveError, Signal, Xfer,
};

/// Names an operation that the engine has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

/// An operation to issue now. Its outcome must be passed to [`Engine::outcome`].
#[derive(Clone, Debug)]
pub enum Action {
    /// XFER-AND-SIGNAL.
    Put(ActionId, Xfer),
    /// COMPARE-AND-WRITE.
    Ask(ActionId, CompareAndWrite),
}

/// The outcome of an [`Action`].
#[derive(Clone, Debug)]
pub enum Reply {
    /// The transfer's local event.
    Put(Signal),
    /// The answer to the question.
    Ask(Result<bool, PrimitiveError>),
}

/// The traffic over links so far, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent, heads and descriptors included, counted once for each destination.
    pub sent_bytes: u64,
    /// Bytes taken out of the network's buffers.
    pub received_bytes: u64,
    /// The bytes of messages among the bytes sent.
    pub payload_bytes: u64,
}

#[derive(Debug)]
struct Job {
    placement: Rc<[NodeId]>,
    /// The reason why the job's communication is over, if it is over.
    over: Option<BcsError>,
}

/// The work that the node has begun in a slice and that other nodes continue. Microphases in which
/// no node has begun anything are left out.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    /// The node has sent notices.
    told: bool,
    /// The node has granted bytes.
    granted: bool,
    /// Whether the node has asked for slots of collectives.
    asked: bool,
}

/// An operation that was issued and has no outcome yet.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    bytes: u64,
    is_question: bool,
    /// The microphase in which the transfer was issued, if the transfer precedes all effects of
    /// this node's later stores.
    precedes: Option<Strobe>,
}

/// The engine of one node.
#[derive(Debug)]
pub struct Engine {
    here: NodeId,
    plan: Plan,
    now: Option<Strobe>,
    jobs: BTreeMap<JobKey, Job>,
    /// Nodes that shared a job with this node. No other node writes into its blocks.
    partners: NodeSet,
    doomed: VecDeque<(JobKey, Doom)>,
    posted: Vec<(Member, RequestId, Post)>,
    next_request: u64,
    next_action: u64,
    /// Operations that were issued and have no outcome yet.
    outstanding: BTreeMap<ActionId, Outstanding>,
    /// The questions about collectives among them.
    asked: BTreeMap<ActionId, Candidates>,
    sender: BufferSender,
    receiver: BufferReceiver,
    collectives: CollectiveHelper,
    here_grants: Vec<Grant>,
    /// This node's beginnings in this slice.
    begun: Begun,
    /// Completions of this slice. Ranks get them when the next slice begins.
    finished: Vec<Completion>,
    completions: Vec<Completion>,
    traffic: Traffic,
}

impl Engine {
    /// The engine of node `here`.
    pub fn new(here: NodeId, plan: Plan) -> Engine {
        Engine {
            here,
            plan,
            now: None,
            jobs: BTreeMap::new(),
            partners: NodeSet::new(),
            doomed: VecDeque::new(),
            posted: Vec::new(),
            next_request: 0,
            next_action: 0,
            outstanding: BTreeMap::new(),
            asked: BTreeMap::new(),
            sender: BufferSender::default(),
            receiver: BufferReceiver::default(),
            collectives: CollectiveHelper::default(),
            here_grants: Vec::new(),
            begun: Begun::default(),
            finished: Vec::new(),
            completions: Vec::new(),
            traffic: Traffic::default(),
        }
    }

    /// Opens a job with the nodes of its ranks. All nodes of a job must have opened it before any
    /// rank posts.
    pub fn open_job(&mut self, job: JobKey, placement: Rc<[NodeId]>) {
        let nodes = placement.iter().copied().collect();
        self.partners = self.partners.union(&nodes);
        self.jobs.insert(job, Job { placement, over: None });
    }

    /// Forgets a job when the next slice begins. Ranks that still wait get the error that the job's
    /// ranks are gone.
    pub fn close_job(&mut self, job: JobKey) {
        self.doomed.push_back((job, Doom::Closed));
    }

    /// Records that a rank will not use a communicator any more, and drops the rank's state in it.
    pub fn leave_group(&mut self, member: Member, group: GroupId) {
        self.collectives.leave(member, group);
    }

    /// Number of communicators with state here.
    pub fn open_groups(&self) -> usize {
        self.collectives.open.len()
    }

    /// Takes a descriptor of a local rank. It takes part in the next slice.
    ///
    /// # Errors
    /// The rank is not here, its job is over, or the addressed rank does not exist.
    pub fn post(&mut self, member: Member, post: Post) -> Result<RequestId, BcsError> {
        let job = self.jobs.get(&member.job).ok_or(BcsError::NoSuchJob(member.job))?;
        if let Some(error) = &job.over {
            return Err(error.clone());
        }
        let no_rank = |rank| BcsError::NoSuchRank { job: member.job, rank };
        if job.placement.get(member.rank.index()) != Some(&self.here) {
            return Err(no_rank(member.rank));
        }
        if let Post::Send { address, .. } = &post
            && address.to.index() >= job.placement.len()
        {
            return Err(no_rank(address.to));
        }
        self.next_request += 1;
        let request = RequestId(self.next_request);
        self.posted.push((member, request, post));
        Ok(request)
    }

    /// The first announced message that a rank would accept and that no receive has taken, as of
    /// the last slice.
    pub fn probe(&self, member: Member, pattern: &Pattern) -> Option<Status> {
        self.receiver.probe(member, pattern)
    }

    /// Begins a microphase. A strobe that was seen before has no effect.
    pub fn strobe(&mut self, strobe: Strobe, memory: &GlobalMemory) -> Vec<Action> {
        if self.now.is_some_and(|now| strobe <= now) {
            return Vec::new();
        }
        self.now = Some(strobe);
        let mut now = self.microphase(strobe.slice, memory);
        let read = match strobe.phase {
            Phase::DescriptorExchange => {
                self.exchange_descriptors(&mut now);
                Ok(())
            }
            Phase::MessageScheduling => self.schedule_messages(&mut now),
            Phase::PointToPoint => self.move_messages(&mut now),
            Phase::BroadcastAndBarrier => self.begin_collectives(&mut now),
            Phase::Reduce => self.begin_reductions(&mut now),
            Phase::SliceEnd => self.end_slice(&mut now),
        };
        if let Err(Unreadable) = read {
            self.doom_all(&BcsError::Corrupt);
        }
        self.carry_out(now.step)
    }

    /// Handles the arrival of a partial result, or the end of the need for one.
    pub fn arrived(&mut self, memory: &GlobalMemory) -> Vec<Action> {
        let Some(Strobe { slice, phase: Phase::Reduce }) = self.now else { return Vec::new() };
        let mut now = self.microphase(slice, memory);
        let ending = self.doomed_jobs();
        reduce_helper::advance(&mut self.collectives.open, &mut now, &ending);
        self.carry_out(now.step)
    }

    fn microphase<'a>(&self, slice: u64, memory: &'a GlobalMemory) -> Microphase<'a> {
        Microphase { slice, here: self.here, plan: self.plan, memory, step: Step::default() }
    }

    /// Handles the outcome of an operation.
    pub fn outcome(&mut self, action: ActionId, reply: Reply) -> Vec<Action> {
        self.outstanding.remove(&action);
        let asked = self.asked.remove(&action);
        let mut step = Step::default();
        match reply {
            Reply::Put(Ok(())) => {}
            Reply::Ask(Ok(answer)) => {
                if let Some(candidates) = asked {
                    self.collectives.answered(candidates, answer, &self.plan, &mut step);
                }
            }
            Reply::Put(Err(error)) | Reply::Ask(Err(error)) => self.failed(error),
        }
        self.carry_out(step)
    }

    /// Records that all transfers so far take effect on all nodes before all effects of this node's
    /// later publications.
    pub fn precede(&mut self) {
        let now = self.now;
        let transfers = self.outstanding.values_mut().filter(|one| !one.is_question);
        transfers.for_each(|one| one.precedes = one.precedes.or(now));
    }

    fn failed(&mut self, error: PrimitiveError) {
        match error {
            PrimitiveError::NodesDead { nodes } => self.nodes_lost(&nodes),
            PrimitiveError::TimedOut { .. }
            | PrimitiveError::Disconnected
            | PrimitiveError::OutOfBounds(_)
            | PrimitiveError::Misaligned { .. }
            | PrimitiveError::UnknownEvent { .. } => self.doom_all(&BcsError::NodeGone),
        }
    }

    /// Records that nodes are dead: jobs with ranks there are over.
    pub fn nodes_lost(&mut self, nodes: &NodeSet) {
        let hit = |job: &Job| job.placement.iter().any(|node| nodes.contains(*node));
        let jobs: Vec<JobKey> =
            self.jobs.iter().filter(|(_, job)| hit(job)).map(|(key, _)| *key).collect();
        for job in jobs {
            self.fail(job, &BcsError::NodeGone);
        }
    }

    /// Records that a local rank died or left. Its job is over from the next slice on, on all
    /// nodes.
    pub fn rank_gone(&mut self, member: Member) {
        self.doomed.push_back((member.job, Doom::Over(BcsError::RankGone)));
    }

    /// The word of the present microphase, if this node is done with it. The caller publishes the
    /// word.
    pub fn phase_done(&self) -> Option<u64> {
        let now = self.now?;
        let waits = now.phase == Phase::Reduce && !reduce_helper::is_idle(&self.collectives.open);
        let done = self.outstanding.values().all(|one| one.precedes.is_some());
        (done && !waits).then(|| now.to_word())
    }

    /// Whether this node, which has finished the present microphase, has nothing to do next.
    ///
    /// - After MSM, "next" is P2P.
    /// - After P2P, "next" is BBM and RM.
    /// - After the last microphase of the slice, "next" means the next slice. Reporting this
    ///   slice's completions to ranks does not count.
    ///
    /// Other nodes report their own work there.
    pub fn may_skip(&self) -> bool {
        match self.now.map(|now| now.phase) {
            Some(Phase::MessageScheduling) => !self.begun.granted,
            Some(Phase::PointToPoint) => !self.begun.asked && self.collectives.is_idle(self.here),
            Some(Phase::BroadcastAndBarrier | Phase::SliceEnd) => {
                let told = self.sender.has_told_all() && self.collectives.has_told_all();
                let idle = self.receiver.is_idle() && self.collectives.is_idle(self.here);
                self.is_empty() && told && idle && !self.wants_slice()
            }
            Some(Phase::DescriptorExchange | Phase::Reduce) | None => false,
        }
    }

    /// Whether anything here waits for the next slice: a post, or the end of a job.
    pub fn wants_slice(&self) -> bool {
        !self.posted.is_empty() || !self.doomed.is_empty()
    }

    /// Whether there are outcomes that ranks have not received.
    pub fn has_outcomes(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Marks the time at which the next slice would begin if any node needed one. Ranks now receive
    /// outcomes, through [`completions`](Self::completions).
    pub fn edge(&mut self) {
        self.completions.append(&mut self.finished);
    }

    /// Whether this node, which has finished the present microphase, has nothing to do in the rest
    /// of the slice, and no bytes on the way. When all nodes report so, the slice is over.
    pub fn is_empty(&self) -> bool {
        let idle = match self.now.map(|now| now.phase) {
            Some(Phase::DescriptorExchange) => {
                !self.begun.told && self.receiver.is_idle() && self.collectives.is_idle(self.here)
            }
            Some(Phase::BroadcastAndBarrier) => !self.collectives.is_moving(),
            Some(Phase::SliceEnd) => true,
            Some(Phase::MessageScheduling | Phase::PointToPoint | Phase::Reduce) | None => false,
        };
        idle && self.in_flight_bytes() == 0
    }

    /// Bytes of this node that are on the way or in the network's buffers here.
    pub fn in_flight_bytes(&self) -> u64 {
        let landed = if self.receiver.expects() { 1 } else { 0 };
        let moving = self
            .outstanding
            .values()
            .filter(|one| one.precedes.is_none_or(|at| self.now <= Some(at)));
        moving.map(|one| one.bytes).sum::<u64>() + landed
    }

    /// The completions for ranks, in the order in which they ended: at the beginning of a slice,
    /// those of the previous slice.
    pub fn completions(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completions)
    }

    /// The traffic over links so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn carry_out(&mut self, step: Step) -> Vec<Action> {
        self.traffic.received_bytes += step.received_bytes;
        self.finished.extend(step.done);
        for (job, error) in step.failed {
            self.doom(job, &error);
        }
        let mut actions = Vec::with_capacity(step.puts.len() + step.asks.len());
        for xfer in step.puts {
            let bytes = (xfer.data.len() * xfer.dest.len()) as u64;
            self.traffic.sent_bytes += bytes;
            actions.push(Action::Put(self.issued(bytes, false), xfer));
        }
        for Question { candidates, ask } in step.asks {
            let id = self.issued(0, true);
            self.asked.insert(id, candidates);
            actions.push(Action::Ask(id, ask));
        }
        actions
    }

    fn issued(&mut self, bytes: u64, is_question: bool) -> ActionId {
        self.next_action += 1;
        let id = ActionId(self.next_action);
        self.outstanding.insert(id, Outstanding { bytes, is_question, precedes: None });
        id
    }
}
