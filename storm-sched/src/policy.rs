//! The policy: a pure state machine that answers events.
//!
//! The same events lead to the same actions: no policy has a clock or a random number.

use std::time::Duration;

use crate::{
    Action, Capability, ColumnSet, Coscheduling, Event, InvariantViolation, JobId, Machine, Matrix,
    PendingReason, PriorityUse, Row, SchedTime,
};

/// A scheduling policy of one partition.
pub trait Policy: Send {
    /// The policy's name in the registry.
    fn name(&self) -> &'static str;

    /// The abilities that the policy needs of its driver, beyond starting jobs and switching rows.
    /// See [`Capability::check`].
    fn requires(&self) -> &'static [Capability] {
        &[]
    }

    /// Takes an event and decides. `now` never goes back.
    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action>;

    /// Takes all events of an instant and decides once after them. The default decides after each
    /// event.
    fn handle_together(&mut self, now: SchedTime, events: Vec<Event>) -> Vec<Action> {
        events.into_iter().flat_map(|event| self.handle(now, event)).collect()
    }

    /// When a waiting job will start by the users' estimates. `None` if the policy does not know,
    /// or the job does not wait.
    fn estimate(&self, now: SchedTime, job: JobId) -> Option<SchedTime> {
        let _ = (now, job);
        None
    }

    /// [`Policy::estimate`] for all waiting jobs with a known start, in any order, at a cost linear
    /// in the queue.
    fn estimate_all(&self, now: SchedTime) -> Vec<(JobId, SchedTime)> {
        let estimate = |job| Some((job, self.estimate(now, job)?));
        self.pending().into_iter().filter_map(estimate).collect()
    }

    /// How the policy uses priorities.
    fn priority_use(&self) -> PriorityUse {
        PriorityUse::default()
    }

    /// The waiting jobs, in queue order.
    fn pending(&self) -> Vec<JobId>;

    /// The number of waiting jobs.
    fn pending_count(&self) -> usize {
        self.pending().len()
    }

    /// The jobs that hold PEs, by id.
    fn running(&self) -> Vec<JobId>;

    /// The reason why a job waits; `None` if it does not wait.
    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason>;

    /// The reason why a suspended job does not continue; `None` if the job is not suspended.
    fn explain_suspended(&self, _now: SchedTime, _job: JobId) -> Option<PendingReason> {
        None
    }

    /// The reason of each waiting job, in queue order, at a cost linear in the queue.
    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)>;

    /// The row that runs now; `None` when no job holds PEs.
    fn active_row(&self) -> Option<Row>;

    /// The live rows by number, for display.
    fn rows(&self) -> Vec<RowView>;

    /// The jobs that run now, in any rows and any order.
    fn running_now(&self) -> Vec<JobId> {
        let active = self.rows().into_iter().filter(|row| row.active);
        let jobs = |row: RowView| row.guests.into_iter().chain(row.jobs.into_iter().map(|v| v.job));
        active.flat_map(jobs).collect()
    }

    /// The place of the running row in its rotation. While only slice edges happen, the rows run in
    /// a fixed cyclic order, and the place determines which jobs run in a row the next time. `None`
    /// if the policy does not know, or does not share time.
    fn rotation(&self) -> Option<Vec<u64>> {
        None
    }

    /// The rows of the next `slices` slices, in order, if only slice edges happen and each changes
    /// only the active row. Empty if the policy does not know, or does not share time. If an edge
    /// is answered by [`Action::Activate`] alone, the reported order still holds, so drivers need
    /// not ask again.
    fn upcoming(&self, slices: usize) -> Vec<Row> {
        let _ = slices;
        Vec::new()
    }

    /// Tells the policy of slice edges up to `now` that were not reported as events. All rows ran
    /// in turn, equally often, nothing else happened, and the running row is the same as before. A
    /// policy that implements [`Policy::rotation`] must count these turns.
    fn turns_passed(&mut self, now: SchedTime, rows: &[RowTurns]) {
        let _ = (now, rows);
    }

    /// Whether slices must end: whether the next edge can change the active row.
    fn next_edge_needed(&self) -> bool;

    /// Whether the policy suspends jobs for others. Such a policy takes [`Event::Suspended`] and
    /// obeys precedences.
    fn preempts(&self) -> bool {
        false
    }

    /// Whether [`crate::Precedence`] lets jobs get the PEs of others.
    fn heeds_precedence(&self) -> bool {
        self.preempts()
    }

    /// The next time at which the policy decides again although nothing happens. The driver then
    /// sends [`Event::Wake`]. `None` when there is no such time.
    fn wake_at(&self) -> Option<SchedTime> {
        None
    }

    /// The mechanism that runs the processes of a job together.
    fn coscheduling(&self) -> Coscheduling {
        Coscheduling::default()
    }

    /// The length of a slice; `None` when the policy does not switch between jobs.
    fn quantum(&self) -> Option<Duration>;

    /// The length of the slices in which all nodes together do the communication of the jobs.
    /// `None` when jobs communicate by themselves.
    fn communication_slice(&self) -> Option<Duration> {
        None
    }

    /// The machine, with the node states that the policy knows.
    fn machine(&self) -> &Machine;

    /// Checks the policy's own invariants; slow, for tests.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self) -> Result<(), InvariantViolation>;
}

/// The turns of a row during slice edges that were not reported to the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTurns {
    /// The row.
    pub row: Row,
    /// How long the row ran.
    pub ran: Duration,
    /// The turns by which the row's place ([`Policy::rotation`]) has moved. Whole cycles that
    /// return to the same place are left out.
    pub places_on: u64,
}

/// A row, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowView {
    /// The number of the row.
    pub number: Row,
    /// Whether the row runs now.
    pub active: bool,
    /// The columns of this row that a job could get.
    pub free_pes: u32,
    /// The jobs in the row, by id.
    pub jobs: Vec<JobView>,
    /// The jobs of other rows that also run in this row, by id.
    pub guests: Vec<JobId>,
}

/// A job in a row, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// The job.
    pub job: JobId,
    /// The columns that the job holds, including those left idle by rounding up.
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
                number: row.number(),
                active: self.active() == Some(row.number()),
                free_pes: row.free_pes(),
                jobs: row.jobs().iter().filter_map(job_view).collect(),
                guests: row.guests.jobs().iter().copied().collect(),
            })
            .collect()
    }
}
