//! The Collective Helper: the next collective of each communicator, barriers and broadcasts.
//!
//! A collective begins when all members have posted the same collective and name the same members.
//! When all members on a node have posted, the node notifies the communicator's first node,
//! together with its other descriptors. When the first node has the same notice from all nodes, it
//! acts in the message scheduling microphase. It searches for a slot of global memory that is free
//! on all nodes. The COMPARE-AND-WRITE that finds the slot free also writes to it, on all nodes,
//! the communicator of the new collective.
//!
//! The slot is held until the collective is over. A communicator with missing members holds no
//! slot. A node never waits inside a microphase for a node whose members called a different
//! collective.

use crate::block::{self, HEAD_BYTES, NextCall, Notice, Unreadable};
use crate::group::{GroupKey, Placed};
use crate::microphase::{Microphase, Step};
use crate::open::{Call, DISAGREE, Open, Running, SavedOpen, Work};
use crate::question::{Candidates, Question, Slot};
use crate::saved::Unsaved;
use crate::{
    BcsConfig, BcsError, Collective, Group, GroupId, JobKey, Member, Outcome, Plan, RequestId,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use storm_mpi::Rank;
use storm_primitives::{CompareAndWrite, GlobalMemory, NodeId, NodeSet, Relation, Xfer};

/// Bytes of the total length, in front of each part of a broadcast.
const TOTAL_BYTES: u64 = 8;

/// All communicators with members on this node.
#[derive(Debug, Default)]
pub(crate) struct CollectiveHelper {
    pub(crate) open: BTreeMap<GroupKey, Open>,
    /// At first nodes, for the next collective: the nodes whose members have all posted it, and
    /// their calls. A node reports once for each collective, so the entries are no more than the
    /// job has ranks.
    ready: BTreeMap<GroupKey, BTreeMap<NodeId, NextCall>>,
}

impl CollectiveHelper {
    /// Takes a member's next collective. The first in a communicator opens it here.
    pub(crate) fn post(
        &mut self,
        (member, request): (Member, RequestId),
        group: &Group,
        call: Collective,
        (here, placement): (NodeId, &[NodeId]),
        config: &BcsConfig,
    ) -> Result<(), BcsError> {
        let key = GroupKey { job: member.job, id: group.id };
        let root = match &call {
            Collective::Barrier | Collective::Reduce { root: None, .. } => None,
            Collective::Broadcast { root, .. } | Collective::Reduce { root: Some(root), .. } => {
                Some(*root)
            }
        };
        if let Some(root) = root.filter(|root| *root >= group.members.len()) {
            return Err(BcsError::NoSuchRank { job: key.job, rank: Rank::from_index(root) });
        }
        let index = group.members.iter().position(|rank| *rank == member.rank);
        let index = index.ok_or(BcsError::NotAMember)? as u32;
        let known = self.open.get(&key);
        if known.is_none_or(|open| open.placed.members != group.members) {
            // A communicator with the name of another is used only when the other is over.
            if known.is_some_and(Open::is_busy) {
                return Err(BcsError::CollectiveMismatch);
            }
            let members = group.members.clone();
            let refused = |why| BcsError::GroupRefused { members: group.members.len(), why };
            let placed = Placed::new(key.job, members, placement, config).map_err(refused)?;
            self.open.insert(key, Open::new(key, placed, here));
        }
        let open = self.open.get_mut(&key).ok_or(BcsError::NotAMember)?;
        open.users.insert(member.rank);
        let queue = open.posted.get_mut(&index).ok_or(BcsError::NotAMember)?;
        queue.push_back(Call { index, member, request, call });
        Ok(())
    }

    /// Records that a member will not use a communicator any more. When no member here uses it, its
    /// state is dropped.
    pub(crate) fn leave(&mut self, member: Member, id: GroupId) {
        let key = GroupKey { job: member.job, id };
        let Some(open) = self.open.get_mut(&key) else { return };
        open.users.remove(&member.rank);
        if open.users.is_empty() && !open.is_busy() {
            self.open.remove(&key);
        }
    }

    /// The present notices for the first nodes of communicators.
    pub(crate) fn tell_ready(&mut self, here: NodeId) -> Vec<(NodeId, Notice)> {
        let mut notices = Vec::new();
        for (key, open) in &mut self.open {
            if open.told || open.placed.is_local() || !open.all_posted() {
                continue;
            }
            open.told = true;
            let next = NextCall { members: open.placed.digest, call: open.signature() };
            let owner = open.placed.owner();
            if owner == here {
                self.ready.entry(*key).or_default().insert(here, next);
            } else {
                notices.push((owner, Notice::Ready { job: key.job, group: key.id, next }));
            }
        }
        notices
    }

    /// Records that all members on a node have posted their next collective.
    pub(crate) fn is_ready(&mut self, job: JobKey, id: GroupId, node: NodeId, next: NextCall) {
        self.ready.entry(GroupKey { job, id }).or_default().insert(node, next);
    }

    /// For communicators of this first node: queries whether the next collective may begin, and
    /// where.
    pub(crate) fn ask(&self, plan: &Plan, memory: &GlobalMemory, here: NodeId, step: &mut Step) {
        let slots = (0..plan.config().collective_slots).map(Slot);
        let mut free: VecDeque<Slot> =
            slots.filter(|slot| memory.load(plan.claimed.get(slot.0)) == 0).collect();
        for (key, ready) in &self.ready {
            let Some(open) = self.open.get(key) else { continue };
            if open.placed.owner() != here || open.running.is_some() {
                continue;
            }
            if disagree(ready, here) {
                step.failed.push((key.job, BcsError::CollectiveMismatch));
                continue;
            }
            if !self.all_ready(key, open) {
                continue;
            }
            let candidates = Candidates { key: *key, slots: free.clone() };
            // The next collective begins in another slot.
            free.rotate_left(free.len().min(1));
            self.try_next(candidates, plan, step);
        }
    }

    /// Handles an answer.
    pub(crate) fn answered(
        &mut self,
        mut candidates: Candidates,
        answer: bool,
        plan: &Plan,
        step: &mut Step,
    ) {
        if answer {
            self.ready.remove(&candidates.key);
        } else {
            candidates.slots.pop_front();
            self.try_next(candidates, plan, step);
        }
    }

    /// Asks for the first of the candidates. Without any, the next slice brings others.
    fn try_next(&self, candidates: Candidates, plan: &Plan, step: &mut Step) {
        let Candidates { key, slots } = &candidates;
        let (Some(open), Some(slot)) = (self.open.get(key), slots.front()) else { return };
        let claimed = plan.claimed.get(slot.0);
        let ask = CompareAndWrite::new(open.placed.set.clone(), claimed, Relation::Equal, 0)
            .then_write(claimed, key.to_word());
        step.asks.push(Question { candidates, ask });
    }

    /// Begins the scheduled collectives, ends barriers, and sends the next part of each broadcast.
    pub(crate) fn broadcast_and_barrier(&mut self, now: &mut Microphase<'_>) {
        self.begin(now);
        for open in self.open.values_mut() {
            let Some(Running { slot, calls, work }) = &mut open.running else { continue };
            match work {
                Work::Barrier => open.end(now, |_| Outcome::Done),
                Work::Reduce(_) => {}
                Work::Broadcast { root, data } => {
                    if open.placed.node_of(*root) != Some(now.here) {
                        continue;
                    }
                    let Some(all) = root_data(calls, *root) else { continue };
                    let most = now.plan.config().collective_bytes - HEAD_BYTES - TOTAL_BYTES;
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
                        open.end(now, |_| Outcome::Data(data.clone()));
                    }
                }
            }
        }
    }

    /// Begins the collectives that are named in slots, and those that need no slot.
    fn begin(&mut self, now: &mut Microphase<'_>) {
        for slot in (0..now.plan.config().collective_slots).map(Slot) {
            let claimed = now.plan.claimed.get(slot.0);
            let word = now.memory.load(claimed);
            if word == 0 {
                continue;
            }
            match self.open.values_mut().find(|open| open.key.to_word() == word) {
                Some(open) if open.running.is_some() => {}
                Some(open) if open.all_posted() => open.begin(slot),
                // The job is over here.
                Some(_) | None => now.memory.store(claimed, 0),
            }
        }
        for open in self.open.values_mut() {
            if !open.placed.is_local() || open.running.is_some() || !open.all_posted() {
                continue;
            }
            // If another node reports that it is ready, its ranks have named other members.
            if open.signature() == DISAGREE || self.ready.contains_key(&open.key) {
                now.step.failed.push((open.key.job, BcsError::CollectiveMismatch));
            } else {
                open.begin(Slot(0));
            }
        }
    }

    /// Takes the arrived parts of broadcasts out of the network's buffers.
    pub(crate) fn drain(&mut self, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
        for open in self.open.values_mut() {
            let Some(Running { slot, work: Work::Broadcast { root, data }, .. }) =
                &mut open.running
            else {
                continue;
            };
            if open.placed.node_of(*root) == Some(now.here) {
                continue;
            }
            let most = now.plan.config().collective_bytes;
            let Some(body) = block::body(now.memory, now.plan.broadcast(slot.0), most, now.slice)?
            else {
                continue;
            };
            now.step.received_bytes += HEAD_BYTES + body.len() as u64;
            let (total, part) = body.split_first_chunk().ok_or(Unreadable)?;
            data.extend_from_slice(part);
            if data.len() as u64 >= u64::from_ne_bytes(*total) {
                let data = std::mem::take(data);
                open.end(now, |_| Outcome::Data(data.clone()));
            }
        }
        Ok(())
    }

    /// Whether no collective begins because of this node in this slice, and none continues here. A
    /// node that has only reported that it is ready waits for others.
    pub(crate) fn is_idle(&self, here: NodeId) -> bool {
        self.open.iter().all(|(key, open)| {
            let begins = match open.placed.is_local() {
                true => open.all_posted(),
                false => open.placed.owner() == here && self.is_decided(key, open, here),
            };
            open.running.is_none() && !begins
        })
    }

    /// Whether there are no notices of collectives to send either.
    pub(crate) fn has_told_all(&self) -> bool {
        self.open.values().all(|open| open.told || open.placed.is_local() || !open.all_posted())
    }

    /// Whether a collective has begun here and is not over.
    pub(crate) fn is_moving(&self) -> bool {
        self.open.values().any(|open| open.running.is_some())
    }

    /// Whether it is known that a communicator's next collective may begin, or cannot.
    fn is_decided(&self, key: &GroupKey, open: &Open, here: NodeId) -> bool {
        let disagree = self.ready.get(key).is_some_and(|ready| disagree(ready, here));
        disagree || self.all_ready(key, open)
    }

    fn all_ready(&self, key: &GroupKey, open: &Open) -> bool {
        let ready = self.ready.get(key);
        ready.is_some_and(|ready| open.placed.nodes.iter().all(|node| ready.contains_key(node)))
    }

    /// Whether a rank of a job waits in a collective here.
    pub(crate) fn is_busy(&self, job: JobKey) -> bool {
        self.open.iter().any(|(key, open)| key.job == job && open.is_busy())
    }

    /// The communicators of a job between two slices. Returns `None` inside a slice.
    pub(crate) fn save(&self, job: JobKey) -> Option<SavedCollectives> {
        let open = self.open.values().filter(|open| open.key.job == job).map(Open::save);
        let ready = self.ready.iter().filter(|(key, _)| key.job == job);
        let ready =
            ready.map(|(key, nodes)| (key.id, nodes.iter().map(|(n, c)| (*n, *c)).collect()));
        Some(SavedCollectives { open: open.collect::<Option<_>>()?, ready: ready.collect() })
    }

    /// Continues the communicators of a job, and claims in this node's memory the slots that they
    /// hold.
    pub(crate) fn restore(
        &mut self,
        job: JobKey,
        saved: SavedCollectives,
        (here, placement): (NodeId, &[NodeId]),
        (plan, memory): (&Plan, &GlobalMemory),
    ) -> Result<(), Unsaved> {
        let mut opened = Vec::with_capacity(saved.open.len());
        for one in saved.open {
            let key = GroupKey { job, id: one.id };
            let members = one.members.iter().copied().map(Rank).collect();
            let placed =
                Placed::new(job, members, placement, plan.config()).map_err(|_| Unsaved)?;
            let mut open = Open::new(key, placed, here);
            open.restore(job, one)?;
            let running = open.running.as_ref().filter(|_| !open.placed.is_local());
            let claimed = running.map(|Running { slot, .. }| slot.0);
            if claimed.is_some_and(|slot| slot >= plan.config().collective_slots) {
                return Err(Unsaved);
            }
            opened.push((key, open, claimed));
        }
        // From here on nothing fails: a job that cannot be restored leaves no word behind.
        for (key, open, claimed) in opened {
            if let Some(slot) = claimed {
                memory.store(plan.claimed.get(slot), key.to_word());
            }
            self.open.insert(key, open);
        }
        for (id, nodes) in saved.ready {
            self.ready.insert(GroupKey { job, id }, nodes.into_iter().collect());
        }
        Ok(())
    }

    /// Closes the communicators of a job, and returns the members that waited in them. Slots that
    /// they hold are released when the next slice would have used them.
    pub(crate) fn forget(&mut self, job: JobKey) -> Vec<(Member, RequestId)> {
        self.ready.retain(|key, _| key.job != job);
        let mut all = Vec::new();
        for (_, open) in self.open.extract_if(.., |key, _| key.job == job) {
            let running = open.running.into_iter().flat_map(|running| running.calls);
            let calls = open.posted.into_values().flatten().chain(running);
            all.extend(calls.map(|call| (call.member, call.request)));
        }
        all
    }
}

/// The communicators of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedCollectives {
    open: Vec<SavedOpen>,
    ready: Vec<(GroupId, Vec<(NodeId, NextCall)>)>,
}

fn root_data(calls: &[Call], root: usize) -> Option<&[u8]> {
    let call = calls.iter().find(|call| call.index as usize == root)?;
    match &call.call {
        Collective::Broadcast { data, .. } => Some(data),
        Collective::Barrier | Collective::Reduce { .. } => None,
    }
}

/// Whether nodes report other members, or another next collective, than the communicator's first
/// node. The check does not wait for all reports, because nodes with other lists wait for other
/// nodes. It needs the calls of the first node's own members: before them, other nodes may already
/// be at a later communicator with the same name.
fn disagree(ready: &BTreeMap<NodeId, NextCall>, here: NodeId) -> bool {
    let own = ready.get(&here);
    own.is_some_and(|own| own.call == DISAGREE || ready.values().any(|next| next != own))
}
