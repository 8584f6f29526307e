//! The jobs that hold processing elements, or have a placement and wait for a place in the global
//! arrays of flags. Only this module changes them; it decides nothing and has no effects.
//!
//! No method gives a `&mut` to a job: each change is a [transition](transitions) with a name.

mod flags;
mod layout;
mod output;
mod parts;
mod place;
mod place_ledger;
mod place_nodes;
mod place_steps;
mod progress;
mod slices;
mod step;
mod time;
mod told_class;
mod transitions;

pub(super) use flags::{Awaiting, Taken};
pub(super) use layout::Layout;
pub(super) use output::Piece;
pub(super) use place::{LivePlace, Placed, Restored};
pub(super) use place_ledger::{PlaceLedger, Room};
pub(super) use place_nodes::{Left, Lost};
pub(super) use place_steps::{Granted, RestoredStep, StepObstacle};
pub(super) use progress::Launch;
pub(super) use told_class::ToldClass;

use flags::SlotPool;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storm_primitives::{NodeId, NodeSet};
use storm_rm::{FirstStep, JobId, JobIncarnation, JobSlot, PartitionId, RowSet};

/// The live jobs.
pub(super) struct LiveJobs {
    jobs: BTreeMap<JobId, LivePlace>,
    /// The jobs that run outside the matrix.
    outside_matrix: BTreeSet<JobId>,
    /// The jobs of which steps may wait for a place in the arrays of flags; of the others none
    /// does.
    step_waiters: BTreeSet<JobId>,
    /// The places in the global arrays of flags.
    slots: SlotPool,
    /// Placed jobs that wait for a place, in order.
    awaiting: VecDeque<Awaiting>,
    /// The number of the next run, over all jobs. Flags that an earlier job left in a slot must not
    /// be taken for those of a later run (`docs/decisions/0003-termination.md`).
    next_run: u64,
    launches: Launches,
}

/// Counts since this manager started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Launches {
    /// Launches that were issued.
    pub(super) issued: u64,
    /// Launches that failed.
    pub(super) failed: u64,
}

impl LiveJobs {
    pub(super) fn new(job_slots: u32) -> LiveJobs {
        LiveJobs {
            jobs: BTreeMap::new(),
            outside_matrix: BTreeSet::new(),
            step_waiters: BTreeSet::new(),
            slots: SlotPool::new(job_slots),
            awaiting: VecDeque::new(),
            next_run: 1,
            launches: Launches::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn contains(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    pub(super) fn get(&self, job: JobId) -> Option<&LivePlace> {
        self.jobs.get(&job)
    }

    /// The job, if `run` is its present run.
    pub(super) fn run(&self, job: JobId, run: JobIncarnation) -> Option<&LivePlace> {
        self.get(job).filter(|live| live.incarnation() == run)
    }

    /// All live jobs, by their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &LivePlace)> {
        self.jobs.iter().map(|(job, live)| (*job, live))
    }

    /// The live jobs of a partition.
    pub(super) fn of(&self, partition: PartitionId) -> impl Iterator<Item = (JobId, &LivePlace)> {
        self.iter().filter(move |(_, live)| live.partition() == partition)
    }

    /// The live jobs whose places have a node that is not lost to them, or that wait for the node.
    pub(super) fn placed_on(&self, node: NodeId) -> Vec<JobId> {
        self.iter().filter(|(_, live)| live.is_placed_on(node)).map(|(job, _)| job).collect()
    }

    /// The nodes of the places of a partition's live jobs.
    pub(super) fn nodes_of(&self, partition: PartitionId) -> NodeSet {
        self.of(partition).fold(NodeSet::new(), |nodes, (_, live)| nodes.union(live.place_nodes()))
    }

    /// A job leaves the machine. Its place in the arrays of flags stays taken until
    /// [`free_slots_of`](Self::free_slots_of).
    pub(super) fn remove(&mut self, job: JobId) -> Option<LivePlace> {
        self.jobs.remove(&job)
    }

    /// The number of a run that begins now.
    pub(super) fn begin_run(&mut self) -> JobIncarnation {
        let run = JobIncarnation(self.next_run);
        self.next_run += 1;
        run
    }

    /// A former manager has begun this run.
    pub(super) fn has_begun(&mut self, run: JobIncarnation) {
        self.next_run = self.next_run.max(run.0.saturating_add(1));
    }

    /// The latest run that has begun, over all jobs.
    pub(super) fn latest_run(&self) -> JobIncarnation {
        JobIncarnation(self.next_run - 1)
    }

    /// The next run, over all jobs.
    pub(super) fn next_run(&self) -> JobIncarnation {
        JobIncarnation(self.next_run)
    }

    /// Takes so many places in the arrays of flags, all or none. The first is for the job's first
    /// step.
    pub(super) fn take_slots(&mut self, count: usize) -> Option<(JobSlot, Vec<JobSlot>)> {
        if self.slots.len() < count {
            return None;
        }
        let mut slots = std::iter::from_fn(|| self.slots.take()).take(count);
        Some((slots.next()?, slots.collect()))
    }

    /// A job has left the machine: its places in the arrays of flags are free.
    pub(super) fn free_slots_of(&mut self, place: &LivePlace) {
        self.slots.put_back(place.slot());
        place.spare.into_iter().for_each(|spare| self.slots.put_back(spare));
    }

    /// Scripts of a former manager without a step get a place for one, as far as places are free.
    pub(super) fn take_spares(&mut self) {
        for place in self.jobs.values_mut().filter(|place| place.lacks_spare()) {
            place.spare = self.slots.take();
        }
    }

    /// Whether a job that begins with such a step can have its places in the arrays of flags.
    pub(super) fn has_slots_for(&self, first: FirstStep) -> bool {
        self.slots.can_give(flags::needed_by(first))
    }

    #[cfg(test)]
    pub(super) fn slots_are_taken(&self) -> bool {
        self.slots.is_empty()
    }

    #[cfg(test)]
    pub(super) fn free_slots(&self) -> &BTreeSet<u32> {
        self.slots.free()
    }

    /// Adds a placed job that waits for a place.
    pub(super) fn await_slot(&mut self, placed: Awaiting) {
        self.awaiting.push_back(placed);
    }

    /// The placed jobs that wait for a place, in order.
    pub(super) fn awaiting(&self) -> impl DoubleEndedIterator<Item = &Awaiting> {
        self.awaiting.iter()
    }

    /// A job that waits for a place.
    pub(super) fn awaiting_job(&self, job: JobId) -> Option<&Awaiting> {
        self.awaiting.iter().find(|placed| placed.job() == job)
    }

    /// A job waits for a place no longer.
    pub(super) fn stop_awaiting(&mut self, job: JobId) -> Option<Awaiting> {
        let index = self.awaiting.iter().position(|placed| placed.job() == job)?;
        self.awaiting.remove(index)
    }

    /// Takes the first waiting job that can be placed, and a place for that job.
    pub(super) fn take_awaiting(&mut self, can: impl FnMut(&Awaiting) -> bool) -> Taken {
        let Some(index) = self.awaiting.iter().position(can) else { return Taken::Nothing };
        let needed = self.awaiting.get(index).map_or(1, Awaiting::slots);
        if !self.slots.can_give(needed) {
            return Taken::NoSlot;
        }
        let Some(placed) = self.awaiting.remove(index) else { return Taken::Nothing };
        let Some(slot) = self.slots.take() else { return Taken::NoSlot };
        let spare = (needed > 1).then(|| self.slots.take()).flatten();
        Taken::Job(placed, slot, spare)
    }

    /// The last waiting job, if suspended jobs hold the places that a waiting job lacks: none of
    /// them can end by itself. The last one gives way even if it lacks nothing, because it waits
    /// behind the one that does.
    pub(super) fn to_give_way(&self) -> Option<JobId> {
        let stopped = self.jobs.values().all(|live| live.rows() == RowSet::NONE);
        let lacks = |placed: &Awaiting| !self.slots.can_give(placed.slots());
        let blocked = stopped && self.awaiting.iter().any(lacks);
        self.awaiting.back().filter(|_| blocked).map(Awaiting::job)
    }

    /// A job is over. Returns whether it was outside the matrix.
    pub(super) fn over_outside_matrix(&mut self, job: JobId) -> bool {
        self.outside_matrix.remove(&job)
    }

    pub(super) fn is_outside_matrix(&self, job: JobId) -> bool {
        self.outside_matrix.contains(&job)
    }

    /// The first job outside the matrix on a node.
    pub(super) fn outside_matrix_on(&self, node: NodeId) -> Option<JobId> {
        let is_there =
            |job: &&JobId| self.jobs.get(job).is_some_and(|live| live.place_nodes().contains(node));
        self.outside_matrix.iter().find(is_there).copied()
    }

    pub(super) fn launches(&self) -> Launches {
        self.launches
    }

    /// Counts an issued launch.
    pub(super) fn count_launch(&mut self) {
        self.launches.issued += 1;
    }

    /// Counts a failed launch.
    pub(super) fn count_failure(&mut self) {
        self.launches.failed += 1;
    }
}
