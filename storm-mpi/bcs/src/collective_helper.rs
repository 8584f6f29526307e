//! The Collective Helper: which collective of each communicator is next, barriers and broadcasts.
//!
//! A collective begins when all members have posted it, and the same. Each node publishes how many its
//! own members have posted, and what the next is; in the message scheduling microphase the
//! communicator's first node asks all whether they are ready, and then whether they agree. That second
//! COMPARE-AND-WRITE also writes, everywhere, that it begins. No node ever waits inside a microphase for
//! one whose members called something else.

use crate::block::{self, HEAD_BYTES, Unreadable};
use crate::group::Placed;
use crate::microphase::{Microphase, Step};
use crate::reduce_helper::Reducing;
use crate::{BcsError, Collective, Completion, JobKey, Member, Outcome, Plan, RequestId, Slot};
use std::collections::{BTreeMap, VecDeque};
use storm_mpi::Rank;
use storm_primitives::{CompareAndWrite, GlobalMemory, NodeId, NodeSet, Relation, Xfer};

/// The length of all, in front of each part of a broadcast.
const TOTAL_BYTES: u64 = 8;

/// One member's part in a collective.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) index: u32,
    pub(crate) member: Member,
    pub(crate) request: RequestId,
    pub(crate) call: Collective,
}

/// A communicator with members on this node.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) placed: Placed,
    /// By local member, what it has posted and what has not begun.
    posted: BTreeMap<u32, VecDeque<Call>>,
    /// Collectives that have begun.
    begun: u64,
    pub(crate) running: Option<Running>,
}

/// A collective that has begun.
#[derive(Debug)]
pub(crate) struct Running {
    /// The local members' parts, in their order.
    pub(crate) calls: Vec<Call>,
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    Barrier,
    /// What has come so far. At the root's node: what has left.
    Broadcast {
        root: usize,
        data: Vec<u8>,
    },
    Reduce(Reducing),
}

/// What a communicator's first node asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Whether all have posted the next collective.
    Ready,
    /// Whether it is the same.
    Agreed,
}

/// A question about the next collective of a communicator.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) slot: Slot,
    pub(crate) stage: Stage,
    pub(crate) ask: CompareAndWrite,
}

/// All communicators with members on this node.
#[derive(Debug, Default)]
pub(crate) struct CollectiveHelper {
    pub(crate) open: BTreeMap<Slot, Open>,
}

impl CollectiveHelper {
    /// Opens a communicator; its earlier uses count as over.
    pub(crate) fn open(&mut self, placed: Placed, here: NodeId) -> Result<(), &'static str> {
        let slot = placed.group.slot;
        if self.open.contains_key(&slot) {
            return Err("another communicator has it");
        }
        let mine = placed.local.get(&here).cloned().unwrap_or_default();
        let posted = mine.into_iter().map(|member| (member, VecDeque::new())).collect();
        self.open.insert(slot, Open { placed, posted, begun: 0, running: None });
        Ok(())
    }

    /// Takes a member's next collective.
    pub(crate) fn post(
        &mut self,
        slot: Slot,
        member: Member,
        request: RequestId,
        call: Collective,
    ) -> Result<(), BcsError> {
        let none = BcsError::NoSuchGroup(slot);
        let Some(open) = self.open.get_mut(&slot) else { return Err(none) };
        let group = &open.placed.group;
        let root = match &call {
            Collective::Barrier | Collective::Reduce { root: None, .. } => None,
            Collective::Broadcast { root, .. } | Collective::Reduce { root: Some(root), .. } => {
                Some(*root)
            }
        };
        if let Some(root) = root.filter(|root| *root >= group.members.len()) {
            return Err(BcsError::NoSuchRank { job: group.job, rank: Rank::from_index(root) });
        }
        let at = group.members.iter().position(|rank| *rank == member.rank);
        let index = at.filter(|_| group.job == member.job).map(|at| at as u32);
        match index.and_then(|index| Some((index, open.posted.get_mut(&index)?))) {
            None => Err(none),
            Some((index, queue)) => {
                queue.push_back(Call { index, member, request, call });
                Ok(())
            }
        }
    }

    /// Publishes what all local members have posted.
    pub(crate) fn publish(&self, plan: &Plan, memory: &GlobalMemory) {
        for (slot, open) in &self.open {
            let waiting = open.posted.values().map(|queue| queue.len() as u64).min().unwrap_or(0);
            memory.store(plan.signature.get(slot.0), open.signature());
            memory.store(plan.ready.get(slot.0), open.count(open.begun + waiting));
        }
    }

    /// What the first nodes of communicators ask: may the next collective begin?
    pub(crate) fn questions(&self, plan: &Plan, here: NodeId) -> Vec<Question> {
        let mine = self.open.iter().filter(|(_, open)| {
            let all_posted = open.posted.values().all(|queue| !queue.is_empty());
            open.placed.owner() == here && open.running.is_none() && all_posted
        });
        let question = |(slot, open): (&Slot, &Open)| {
            let (ready, next) = (plan.ready.get(slot.0), open.count(open.begun + 1));
            let set = open.placed.set.clone();
            let ask = CompareAndWrite::new(set, ready, Relation::GreaterOrEqual, next);
            Question { slot: *slot, stage: Stage::Ready, ask }
        };
        mine.map(question).collect()
    }

    /// What an answer comes to.
    pub(crate) fn answered(
        &self,
        slot: Slot,
        stage: Stage,
        answer: bool,
        plan: &Plan,
        step: &mut Step,
    ) {
        let Some(open) = self.open.get(&slot) else { return };
        match (stage, answer) {
            (Stage::Ready, false) | (Stage::Agreed, true) => {}
            (Stage::Ready, true) if open.signature() == DISAGREE => {
                step.failed.push((open.placed.group.job, BcsError::CollectiveMismatch));
            }
            (Stage::Ready, true) => {
                let (signature, scheduled) =
                    (plan.signature.get(slot.0), plan.scheduled.get(slot.0));
                let (set, ours) = (open.placed.set.clone(), open.signature());
                let ask = CompareAndWrite::new(set, signature, Relation::Equal, ours)
                    .then_write(scheduled, open.count(open.begun + 1));
                step.asks.push(Question { slot, stage: Stage::Agreed, ask });
            }
            (Stage::Agreed, false) => {
                step.failed.push((open.placed.group.job, BcsError::CollectiveMismatch));
            }
        }
    }

    /// Begins what was scheduled, ends barriers, and sends the next part of each broadcast.
    pub(crate) fn broadcast_and_barrier(&mut self, now: &mut Microphase<'_>) {
        for (slot, open) in &mut self.open {
            open.begin(now.memory.load(now.plan.scheduled.get(slot.0)));
            let Some(running) = &mut open.running else { continue };
            match &mut running.work {
                Work::Barrier => now.step.done.extend(open.end(|_| Outcome::Done)),
                Work::Reduce(_) => {}
                Work::Broadcast { root, data } => {
                    if open.placed.node_of(*root) != Some(now.here) {
                        continue;
                    }
                    let Some(all) = root_data(&running.calls, *root) else { continue };
                    let most = now.plan.config.collective_bytes - HEAD_BYTES - TOTAL_BYTES;
                    let part = &all[data.len()..all.len().min(data.len() + most as usize)];
                    let dest = open.placed.set.difference(&NodeSet::single(now.here));
                    if !dest.is_empty() {
                        let total = (all.len() as u64).to_ne_bytes();
                        let block = block::raw(now.slice, &[&total, part]);
                        now.step.puts.push(Xfer::new(dest, now.plan.broadcast(slot.0), block));
                    }
                    let over = data.len() + part.len() == all.len();
                    data.extend_from_slice(part);
                    if over {
                        let data = std::mem::take(data);
                        now.step.done.extend(open.end(|_| Outcome::Data(data.clone())));
                    }
                }
            }
        }
    }

    /// Takes the parts of broadcasts that have come out of the network's buffers.
    pub(crate) fn drain(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        for (slot, open) in &mut self.open {
            let Some(Running { work: Work::Broadcast { root, data }, .. }) = &mut open.running
            else {
                continue;
            };
            if open.placed.node_of(*root) == Some(now.here) {
                continue;
            }
            let most = now.plan.config.collective_bytes;
            let Some(body) = block::body(now.memory, now.plan.broadcast(slot.0), most, now.slice)?
            else {
                continue;
            };
            now.step.received_bytes += HEAD_BYTES + body.len() as u64;
            let (total, part) = body.split_first_chunk().ok_or(Unreadable)?;
            data.extend_from_slice(part);
            if data.len() as u64 >= u64::from_ne_bytes(*total) {
                let data = std::mem::take(data);
                now.step.done.extend(open.end(|_| Outcome::Data(data.clone())));
            }
        }
        Ok(())
    }

    /// Closes the communicators of a job and gives back who waited in them.
    pub(crate) fn forget(&mut self, job: JobKey) -> Vec<(Member, RequestId)> {
        let mut all = Vec::new();
        for (_, open) in self.open.extract_if(.., |_, open| open.placed.group.job == job) {
            let running = open.running.into_iter().flat_map(|running| running.calls);
            let calls = open.posted.into_values().flatten().chain(running);
            all.extend(calls.map(|call| (call.member, call.request)));
        }
        all
    }
}

impl Open {
    /// The number of a collective as a word that an earlier use of the slot never had.
    fn count(&self, number: u64) -> u64 {
        u64::from(self.placed.group.life) << 32 | number
    }

    /// The next collective as a word, which members that call the same have alike; one that nobody
    /// asks for when the members of this node disagree.
    fn signature(&self) -> u64 {
        let mut calls = self.posted.values().filter_map(|queue| queue.front());
        let Some(first) = calls.next().map(|call| signature(&call.call)) else { return DISAGREE };
        if calls.all(|call| signature(&call.call) == first) { first } else { DISAGREE }
    }

    /// Begins the next collective when it is scheduled and no other is running.
    fn begin(&mut self, scheduled: u64) {
        if self.running.is_some() || scheduled != self.count(self.begun + 1) {
            return;
        }
        let calls: Vec<Call> = self.posted.values_mut().filter_map(VecDeque::pop_front).collect();
        let Some(first) = calls.first() else { return };
        let work = match &first.call {
            Collective::Barrier => Work::Barrier,
            Collective::Broadcast { root, .. } => Work::Broadcast { root: *root, data: Vec::new() },
            Collective::Reduce { data, reduction, root } => {
                Work::Reduce(Reducing::new(data.len(), *reduction, *root))
            }
        };
        self.begun += 1;
        self.running = Some(Running { calls, work });
    }

    /// Ends the running collective, with an outcome for each member.
    pub(crate) fn end(&mut self, outcome: impl Fn(u32) -> Outcome) -> Vec<Completion> {
        let calls = self.running.take().map_or_else(Vec::new, |running| running.calls);
        let done = |call: Call| Completion {
            member: call.member,
            request: call.request,
            outcome: Ok(outcome(call.index)),
        };
        calls.into_iter().map(done).collect()
    }
}

fn root_data(calls: &[Call], root: usize) -> Option<&[u8]> {
    let call = calls.iter().find(|call| call.index as usize == root)?;
    match &call.call {
        Collective::Broadcast { data, .. } => Some(data),
        Collective::Barrier | Collective::Reduce { .. } => None,
    }
}

/// The signature of a node whose members disagree.
const DISAGREE: u64 = u64::MAX;

/// What members must agree on: the kind, the root, the operation, and the length of what is reduced.
fn signature(call: &Collective) -> u64 {
    // Roots are members of a group, lengths those of buffers: what is cut off of either is more than
    // any machine has.
    let root = |root: Option<usize>| root.map_or(0, |root| (root as u64 + 1) & 0xff_ffff) << 8;
    match call {
        Collective::Barrier => 1,
        Collective::Broadcast { root: from, .. } => 2 | root(Some(*from)),
        Collective::Reduce { data, reduction, root: to } => {
            3 | reduction.code() << 2 | root(*to) | (data.len() as u64) << 32
        }
    }
}
