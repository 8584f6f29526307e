//! The run time of each job: the time in which its home row was active. Time as a guest in other
//! rows does not count, so no job is expected to end too early.
//!
//! A strobe costs nothing per job. Each row counts the time in which it was active, and a job
//! remembers its row's count at its start.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{JobId, Row, SchedTime};

/// The time that the jobs of a matrix have run.
#[derive(Debug, Clone, Default)]
pub(super) struct RunTime {
    now: SchedTime,
    /// Whether all rows are always active.
    at_once: bool,
    /// The time in which each row was active.
    active: BTreeMap<Row, Duration>,
    jobs: BTreeMap<JobId, Spent>,
    /// The largest number given to a started job.
    started: i64,
    taken_over: i64,
}

#[derive(Debug, Clone, Copy)]
struct Spent {
    /// The run time in earlier rows.
    before: Duration,
    /// The present row.
    row: Row,
    /// The row's count when the job came.
    then: Duration,
    /// The job's place in the order in which jobs began. The place of a job taken over is negative.
    began: i64,
}

impl RunTime {
    /// Returns run times for rows that are all active always.
    pub(super) fn at_once() -> Self {
        Self { at_once: true, ..Self::default() }
    }

    /// The time up to which run times are counted.
    pub(super) fn now(&self) -> SchedTime {
        self.now
    }

    /// Counts the time up to `now` for the row that was active.
    pub(super) fn advance(&mut self, now: SchedTime, active: Option<Row>) {
        let since = now.since(self.now);
        self.now = self.now.max(now);
        if let Some(row) = active {
            *self.active.entry(row).or_default() += since;
        }
    }

    /// Counts `ran` for this row, which was active that long up to `now`.
    pub(super) fn pass(&mut self, now: SchedTime, row: Row, ran: Duration) {
        self.now = self.now.max(now);
        *self.active.entry(row).or_default() += ran;
    }

    /// Notes that a job is in this row from now on; the job may be new.
    pub(super) fn set_row(&mut self, job: JobId, row: Row) {
        let (before, then) = (self.of(job), self.counted(row));
        let began = self.jobs.get(&job).map_or(self.started + 1, |spent| spent.began);
        self.started = self.started.max(began);
        self.jobs.insert(job, Spent { before, row, then, began });
    }

    /// Notes that a job was taken over that had run for `ran`. The job counts as begun before all
    /// jobs noted so far.
    pub(super) fn add(&mut self, job: JobId, ran: Duration) {
        if let Some(spent) = self.jobs.get_mut(&job) {
            spent.before += ran;
            self.taken_over += 1;
            spent.began = -self.taken_over;
        }
    }

    /// The place of a job in the order in which jobs began.
    pub(super) fn began(&self, job: JobId) -> i64 {
        self.jobs.get(&job).map_or(0, |spent| spent.began)
    }

    /// Notes that a job has ended.
    pub(super) fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// The least time that a job has run.
    pub(super) fn of(&self, job: JobId) -> Duration {
        let Some(spent) = self.jobs.get(&job) else { return Duration::ZERO };
        spent.before + self.counted(spent.row).saturating_sub(spent.then)
    }

    fn counted(&self, row: Row) -> Duration {
        if self.at_once {
            return self.now.since(SchedTime::ZERO);
        }
        self.active.get(&row).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_while_the_row_of_a_job_is_active() {
        let mut times = RunTime::default();
        let (job, at) = (JobId(1), SchedTime::from_secs);
        times.advance(at(5), Some(Row(0)));
        times.set_row(job, Row(0));
        times.advance(at(7), Some(Row(0)));
        times.advance(at(9), Some(Row(1)));
        assert_eq!(times.of(job), Duration::from_secs(2));
        times.set_row(job, Row(1));
        times.advance(at(10), Some(Row(1)));
        times.advance(at(11), Some(Row(0)));
        assert_eq!(times.of(job), Duration::from_secs(3));
        times.pass(at(31), Row(0), Duration::from_secs(12));
        times.pass(at(31), Row(1), Duration::from_secs(8));
        times.advance(at(32), Some(Row(1)));
        assert_eq!(times.of(job), Duration::from_secs(12));
        times.forget(job);
        assert_eq!(times.of(job), Duration::ZERO);
    }

    #[test]
    fn time_counts_for_all_where_all_rows_run_at_once() {
        let mut times = RunTime::at_once();
        let (job, at) = (JobId(1), SchedTime::from_secs);
        times.advance(at(5), None);
        times.set_row(job, Row(1));
        times.advance(at(7), Some(Row(0)));
        times.set_row(job, Row(0));
        times.advance(at(9), Some(Row(1)));
        assert_eq!(times.of(job), Duration::from_secs(4));
    }
}
