//! The places in the global arrays of flags, and the placed jobs that wait for such a place.

use crate::manager::partitions::Partition;
use std::collections::BTreeSet;
use storm_primitives::NodeId;
use storm_rm::{FirstStep, JobId, JobSlot, PartitionId, Row, RowSet};
use storm_sched::Placement;

/// A job that its policy has placed, and that waits for a free place in the global arrays of flags.
#[derive(Clone, Debug)]
pub(in crate::manager) struct Awaiting {
    job: JobId,
    partition: PartitionId,
    placement: Placement,
    row: Row,
    /// The rows that it is to run in.
    rows: RowSet,
    /// The job for which it is already suspended.
    suspended_for: Option<JobId>,
    /// The places that it needs in the arrays of flags.
    slots: usize,
}

/// The first job that can be placed now, or the reason for none.
pub(in crate::manager) enum Taken {
    Nothing,
    /// A job could be placed, and all places are taken.
    NoSlot,
    /// The job, its place, and one for its further steps if it needs that.
    Job(Awaiting, JobSlot, Option<JobSlot>),
}

impl Awaiting {
    pub(in crate::manager) fn new(
        job: JobId,
        partition: PartitionId,
        (placement, row): (Placement, Row),
        rows: RowSet,
        first: FirstStep,
    ) -> Awaiting {
        // Scripts that held all places would wait for each other's steps.
        let slots = match first {
            FirstStep::Program => 1,
            FirstStep::Script => 2,
        };
        Awaiting { job, partition, placement, row, rows, suspended_for: None, slots }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(in crate::manager) fn job(&self) -> JobId {
        self.job
    }

    pub(in crate::manager) fn partition(&self) -> PartitionId {
        self.partition
    }

    pub(in crate::manager) fn placement(&self) -> &Placement {
        &self.placement
    }

    pub(in crate::manager) fn into_placement(self) -> Placement {
        self.placement
    }

    /// The job's home row.
    pub(in crate::manager) fn row(&self) -> Row {
        self.row
    }

    pub(in crate::manager) fn rows(&self) -> RowSet {
        self.rows
    }

    pub(in crate::manager) fn suspended_for(&self) -> Option<JobId> {
        self.suspended_for
    }

    /// The job's nodes, in the partition of its placement.
    pub(in crate::manager) fn nodes(&self, partition: &Partition) -> Vec<NodeId> {
        let members = partition.members();
        let shares = self.placement.shares().iter();
        shares.map(|share| members[share.node.0 as usize]).collect()
    }

    /// The job gets another home row and other rows.
    pub(super) fn set_rows(&mut self, row: Row, rows: RowSet) {
        (self.row, self.rows) = (row, rows);
    }

    /// Another policy replaces the job's policy, and the job has another home row. A suspended job
    /// stays suspended.
    pub(super) fn taken_over(&mut self, row: Row, rows: RowSet) {
        let rows = if self.suspended_for.is_some() { RowSet::NONE } else { rows };
        self.set_rows(row, rows);
    }

    /// The job will be suspended when it starts.
    pub(super) fn suspend(&mut self, by: JobId) {
        (self.rows, self.suspended_for) = (RowSet::NONE, Some(by));
    }

    /// The job will not be suspended.
    pub(super) fn go_on(&mut self, rows: RowSet) {
        (self.rows, self.suspended_for) = (rows, None);
    }
}

/// Which places in the global arrays of flags are free.
#[derive(Debug)]
pub(super) struct SlotPool {
    free: BTreeSet<u32>,
    /// The number of all places.
    all: usize,
}

impl SlotPool {
    pub(super) fn new(slots: u32) -> SlotPool {
        SlotPool { free: (0..slots).collect(), all: slots as usize }
    }

    /// Whether a job that needs so many places can have them. A cluster that has fewer gives what
    /// it has.
    pub(super) fn can_give(&self, slots: usize) -> bool {
        self.free.len() >= slots.min(self.all)
    }

    pub(super) fn take(&mut self) -> Option<JobSlot> {
        self.free.pop_first().map(JobSlot)
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> &BTreeSet<u32> {
        &self.free
    }

    pub(super) fn len(&self) -> usize {
        self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn put_back(&mut self, slot: JobSlot) {
        self.free.insert(slot.0);
    }
}
