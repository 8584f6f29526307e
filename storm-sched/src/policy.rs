//! The policy: a pure state machine over events.
//!
//! Same events, same actions: no policy has a clock or a random number.

use std::time::Duration;

use crate::{
    Action, Capability, ColumnSet, Coscheduling, Event, InvariantViolation, JobId, Machine, Matrix,
    PendingReason, PriorityUse, SchedTime, Slot,
};

/// A scheduling policy of one partition.
pub trait Policy: Send {
    /// The name that the registry knows it by.
    fn name(&self) -> &'static str;

    /// What the driver must be able to do beyond starting jobs and switching
    /// rows; see [`Capability::check`].
    fn requires(&self) -> &'static [Capability] {
        &[]
    }

    /// Takes an event and decides. `now` never goes back.
    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action>;

    /// Takes all events of one instant and decides once they are in. Unless a
    /// policy does so, it decides after each of them.
    fn handle_together(&mut self, now: SchedTime, events: Vec<Event>) -> Vec<Action> {
        events.into_iter().flat_map(|event| self.handle(now, event)).collect()
    }

    /// When a job that waits is to start by the users' estimates, where the
    /// policy can know it; `None` when it cannot, or the job does not wait.
    fn estimate(&self, now: SchedTime, job: JobId) -> Option<SchedTime> {
        let _ = (now, job);
        None
    }

    /// As [`Policy::estimate`], of all jobs that wait and of which it can be
    /// known, in any order, at a cost linear in the queue.
    fn estimate_all(&self, now: SchedTime) -> Vec<(JobId, SchedTime)> {
        let estimate = |job| Some((job, self.estimate(now, job)?));
        self.pending().into_iter().filter_map(estimate).collect()
    }

    /// What priorities count for.
    fn priority_use(&self) -> PriorityUse {
        PriorityUse::default()
    }

    /// The jobs that wait, in queue order.
    fn pending(&self) -> Vec<JobId>;

    /// How many jobs wait.
    fn pending_count(&self) -> usize {
        self.pending().len()
    }

    /// The jobs that hold PEs, by id.
    fn running(&self) -> Vec<JobId>;

    /// Why a job waits; `None` when it does not wait.
    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason>;

    /// Why a suspended job does not go on; `None` when it is not suspended.
    fn explain_suspended(&self, _now: SchedTime, _job: JobId) -> Option<PendingReason> {
        None
    }

    /// Why each job waits, in queue order, at a cost linear in the queue.
    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)>;

    /// The row that runs now; `None` when no job holds PEs.
    fn active_slot(&self) -> Option<Slot>;

    /// The live rows by number, for display.
    fn rows(&self) -> Vec<RowView>;

    /// The jobs that run now, in whatever rows they live, in any order.
    fn running_now(&self) -> Vec<JobId> {
        let active = self.rows().into_iter().filter(|row| row.active);
        let jobs = |row: RowView| row.guests.into_iter().chain(row.jobs.into_iter().map(|v| v.job));
        active.flat_map(jobs).collect()
    }

    /// The place in its rotation of the row that runs: while nothing but slice
    /// edges happens, the rows run in turn, in one order, and who runs in a row
    /// the next time follows from its place. `None` when the policy does not know,
    /// or does not share time.
    fn rotation(&self) -> Option<Vec<u64>> {
        None
    }

    /// The rows of the next `slices` slices, in order, if nothing but slice edges happens
    /// and those change nothing but the active row; empty when the policy does not know
    /// so, or does not share time. An edge that is answered by [`Action::Activate`] alone leaves
    /// the order behind it as it was told: drivers do not ask again then.
    fn upcoming(&self, slices: usize) -> Vec<Slot> {
        let _ = slices;
        Vec::new()
    }

    /// All rows have run in turn up to `now`, each as often, and nothing but slice
    /// edges happened, of which the policy was not told. The row that runs is the
    /// same as before. A policy that tells its place in the rotation has to know.
    fn turns_passed(&mut self, now: SchedTime, rows: &[RowTurns]) {
        let _ = (now, rows);
    }

    /// Whether slices must be cut: whether the next edge can change the active
    /// row as things stand.
    fn next_edge_needed(&self) -> bool;

    /// Whether it suspends jobs for others; such a policy takes [`Event::Suspended`], and
    /// heeds precedences.
    fn preempts(&self) -> bool {
        false
    }

    /// Whether jobs get the PEs of others by their [`crate::Precedence`].
    fn heeds_precedence(&self) -> bool {
        self.preempts()
    }

    /// The next time at which the policy decides anew although nothing happens:
    /// the driver says [`Event::Wake`] then. `None` when there is no such time.
    fn wake_at(&self) -> Option<SchedTime> {
        None
    }

    /// Who sees to it that the processes of a job run together.
    fn coscheduling(&self) -> Coscheduling {
        Coscheduling::default()
    }

    /// The length of a slice; `None` when the policy does not switch between jobs.
    fn quantum(&self) -> Option<Duration>;

    /// The length of the slices in which the communication of its jobs is done, by the nodes and all at
    /// once; `None` when jobs communicate by themselves.
    fn communication_slice(&self) -> Option<Duration> {
        None
    }

    /// The machine, with the node states that the policy believes in.
    fn machine(&self) -> &Machine;

    /// Checks the policy's own invariants; slow, for tests.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self) -> Result<(), InvariantViolation>;
}

/// What a row did while its policy was not told of slice edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTurns {
    /// The row.
    pub slot: Slot,
    /// How long it ran.
    pub ran: Duration,
    /// So many turns on is its place ([`Policy::rotation`]): those that it had
    /// without the ones after which it comes to the same place.
    pub places_on: u64,
}

/// A row, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowView {
    /// The slot.
    pub slot: Slot,
    /// Whether it runs now.
    pub active: bool,
    /// Columns that a job could get here.
    pub free_pes: u32,
    /// The jobs in the row, by id.
    pub jobs: Vec<JobView>,
    /// Jobs of other rows that run in this one too, by id.
    pub guests: Vec<JobId>,
}

/// A job in a row, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// The job.
    pub job: JobId,
    /// The columns that it holds, those that rounding up left idle included.
    pub columns: ColumnSet,
}

impl Matrix {
    /// The live rows by number, for display.
    #[must_use]
    pub fn view(&self) -> Vec<RowView> {
        let job_view = |&job: &JobId| {
            self.columns(job).map(|columns| JobView { job, columns: columns.clone() })
        };
        self.rows()
            .map(|row| RowView {
                slot: row.slot(),
                active: self.active() == Some(row.slot()),
                free_pes: row.free_pes(),
                jobs: row.jobs().iter().filter_map(job_view).collect(),
                guests: row.guests.jobs().iter().copied().collect(),
            })
            .collect()
    }
}
