//! A communicator with members on this node, and the collective that runs in it.

use crate::group::{GroupKey, Placed};
use crate::microphase::Microphase;
use crate::question::Slot;
use crate::reducing::Reducing;
use crate::saved::{SavedCollective, SavedRequest, Unsaved};
use crate::{Collective, Completion, GroupId, JobKey, Member, Outcome, RequestId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storm_mpi::Rank;
use storm_primitives::NodeId;

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
    pub(crate) key: GroupKey,
    pub(crate) placed: Placed,
    /// By local member: calls that it has posted and that have not begun.
    pub(crate) posted: BTreeMap<u32, VecDeque<Call>>,
    /// Local members that have posted anything in the communicator and have not left it.
    pub(crate) users: BTreeSet<Rank>,
    /// Whether the first node knows that all members here have posted the next collective.
    pub(crate) told: bool,
    pub(crate) running: Option<Running>,
}

/// A collective that has begun.
#[derive(Debug)]
pub(crate) struct Running {
    /// Not used by communicators of one node.
    pub(crate) slot: Slot,
    /// The local members' parts, in their order.
    pub(crate) calls: Vec<Call>,
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    Barrier,
    /// `data` holds the bytes that have arrived; at the root's node, the bytes that have been sent.
    Broadcast {
        root: usize,
        data: Vec<u8>,
    },
    Reduce(Reducing),
}

/// One member's part, for the next Node Manager.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedCall {
    index: u32,
    request: SavedRequest,
    call: SavedCollective,
}

impl Call {
    fn save(&self) -> SavedCall {
        let request = SavedRequest::of(self.member, self.request);
        SavedCall { index: self.index, request, call: (&self.call).into() }
    }

    fn restore(job: JobKey, saved: SavedCall) -> Result<Call, Unsaved> {
        let (member, request) = saved.request.in_job(job);
        Ok(Call { index: saved.index, member, request, call: saved.call.try_into()? })
    }
}

/// The state of a communicator, for the next Node Manager.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedOpen {
    pub(crate) id: GroupId,
    pub(crate) members: Vec<u32>,
    posted: Vec<(u32, Vec<SavedCall>)>,
    users: Vec<u32>,
    told: bool,
    /// The slot and the calls of the collective that has begun, and the bytes of its result so far.
    running: Option<(u32, Vec<SavedCall>, Vec<u8>)>,
}

impl Open {
    /// The state between two slices. Returns `None` inside a slice.
    pub(crate) fn save(&self) -> Option<SavedOpen> {
        let saved = |calls: &VecDeque<Call>| calls.iter().map(Call::save).collect();
        let posted = self.posted.iter().map(|(index, calls)| (*index, saved(calls))).collect();
        let running = match &self.running {
            None => None,
            Some(Running { slot, calls, work }) => {
                let so_far = match work {
                    Work::Barrier => Vec::new(),
                    Work::Broadcast { data, .. } => data.clone(),
                    Work::Reduce(Reducing { part: Some(_), .. }) => return None,
                    Work::Reduce(reducing) => reducing.result.clone(),
                };
                Some((slot.0, calls.iter().map(Call::save).collect(), so_far))
            }
        };
        Some(SavedOpen {
            id: self.key.id,
            members: self.placed.members.iter().map(|rank| rank.0).collect(),
            posted,
            users: self.users.iter().map(|rank| rank.0).collect(),
            told: self.told,
            running,
        })
    }

    /// Continues with a saved state.
    pub(crate) fn restore(&mut self, job: JobKey, saved: SavedOpen) -> Result<(), Unsaved> {
        let call = |saved| Call::restore(job, saved);
        if let Some((slot, calls, so_far)) = saved.running {
            for saved in calls {
                let queue = self.posted.get_mut(&saved.index).ok_or(Unsaved)?;
                queue.push_back(call(saved)?);
            }
            self.begin(Slot(slot));
            match &mut self.running.as_mut().ok_or(Unsaved)?.work {
                Work::Barrier => {}
                Work::Broadcast { data, .. } => *data = so_far,
                Work::Reduce(reducing) => reducing.result = so_far,
            }
        }
        for (index, calls) in saved.posted {
            let queue = self.posted.get_mut(&index).ok_or(Unsaved)?;
            queue.extend(calls.into_iter().map(call).collect::<Result<Vec<_>, _>>()?);
        }
        self.users = saved.users.into_iter().map(Rank).collect();
        self.told = saved.told;
        Ok(())
    }

    pub(crate) fn new(key: GroupKey, placed: Placed, here: NodeId) -> Open {
        let mine = placed.local.get(&here).cloned().unwrap_or_default();
        let posted = mine.into_iter().map(|member| (member, VecDeque::new())).collect();
        Open { key, placed, posted, users: BTreeSet::new(), told: false, running: None }
    }

    /// Whether a member waits in the communicator.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.is_some() || self.posted.values().any(|queue| !queue.is_empty())
    }

    pub(crate) fn all_posted(&self) -> bool {
        self.posted.values().all(|queue| !queue.is_empty())
    }

    /// The next collective as a word. Equal calls have equal words. If the members of this node
    /// disagree, it is a word that matches no question.
    pub(crate) fn signature(&self) -> u64 {
        let mut calls = self.posted.values().filter_map(|queue| queue.front());
        let Some(first) = calls.next().map(|call| signature(&call.call)) else { return DISAGREE };
        if calls.all(|call| signature(&call.call) == first) { first } else { DISAGREE }
    }

    /// Begins the next collective.
    pub(crate) fn begin(&mut self, slot: Slot) {
        let calls: Vec<Call> = self.posted.values_mut().filter_map(VecDeque::pop_front).collect();
        let Some(first) = calls.first() else { return };
        let work = match &first.call {
            Collective::Barrier => Work::Barrier,
            Collective::Broadcast { root, .. } => Work::Broadcast { root: *root, data: Vec::new() },
            Collective::Reduce { data, reduction, root } => {
                Work::Reduce(Reducing::new(data.len(), *reduction, *root))
            }
        };
        self.told = false;
        self.running = Some(Running { slot, calls, work });
    }

    /// Ends the running collective with an outcome for each member, and gives up its slot.
    pub(crate) fn end(&mut self, now: &mut Microphase<'_>, outcome: impl Fn(u32) -> Outcome) {
        let Some(Running { slot, calls, .. }) = self.running.take() else { return };
        if !self.placed.is_local() {
            now.memory.store(now.plan.claimed.get(slot.0), 0);
        }
        now.step.done.extend(calls.into_iter().map(|call| Completion {
            member: call.member,
            request: call.request,
            outcome: Ok(outcome(call.index)),
        }));
    }
}

/// The signature of a node whose members disagree.
pub(crate) const DISAGREE: u64 = u64::MAX;

/// The facts that members must agree on: the kind, the root, the operation, and the length of
/// reduced data.
fn signature(call: &Collective) -> u64 {
    // Roots are members of a group, and lengths are those of buffers, so the bits that are cut off
    // are always zero.
    let root = |root: Option<usize>| root.map_or(0, |root| (root as u64 + 1) & 0x3f_ffff) << 9;
    match call {
        Collective::Barrier => 1,
        Collective::Broadcast { root: from, .. } => 2 | root(Some(*from)),
        Collective::Reduce { data, reduction, root: to } => {
            3 | u64::from(reduction.code()) << 2 | root(*to) | (data.len() as u64) << 32
        }
    }
}
