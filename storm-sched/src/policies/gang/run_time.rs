//! How long each job has run: the time in which one of its rows was active.
//!
//! A strobe costs nothing per job: each row counts the time in which it was
//! active, and a job remembers what its rows had counted when it came.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{JobId, SchedTime, Slot};

/// The time that the jobs of a matrix have run.
#[derive(Debug, Clone, Default)]
pub(super) struct RunTime {
    now: SchedTime,
    /// The time in which each row was active.
    active: BTreeMap<Slot, Duration>,
    jobs: BTreeMap<JobId, Spent>,
}

#[derive(Debug, Clone, Default)]
struct Spent {
    /// In rows that it had.
    before: Duration,
    /// The rows that it has, with what they had counted when it came.
    rows: Vec<(Slot, Duration)>,
}

impl RunTime {
    /// Up to now, this row was active.
    pub(super) fn advance(&mut self, now: SchedTime, active: Option<Slot>) {
        let since = now.since(self.now);
        self.now = self.now.max(now);
        if let Some(slot) = active {
            *self.active.entry(slot).or_default() += since;
        }
    }

    /// Up to now, each of these rows was active for so long.
    pub(super) fn turns_passed(&mut self, now: SchedTime, ran: &[(Slot, Duration)]) {
        self.now = self.now.max(now);
        for (slot, time) in ran {
            *self.active.entry(*slot).or_default() += *time;
        }
    }

    /// From now on a job runs in these rows; it may be a new one.
    pub(super) fn set_rows(&mut self, job: JobId, slots: impl Iterator<Item = Slot>) {
        let before = self.of(job);
        let rows = slots.map(|slot| (slot, self.counted(slot))).collect();
        self.jobs.insert(job, Spent { before, rows });
    }

    /// A job has ended.
    pub(super) fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// How long a job has run.
    pub(super) fn of(&self, job: JobId) -> Duration {
        let Some(spent) = self.jobs.get(&job) else { return Duration::ZERO };
        let in_row = |(slot, then): &(Slot, Duration)| self.counted(*slot).saturating_sub(*then);
        spent.before + spent.rows.iter().map(in_row).sum::<Duration>()
    }

    fn counted(&self, slot: Slot) -> Duration {
        self.active.get(&slot).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_in_the_rows_that_a_job_has_while_they_are_active() {
        let mut times = RunTime::default();
        let (job, at) = (JobId(1), SchedTime::from_secs);
        times.advance(at(5), Some(Slot(0)));
        times.set_rows(job, [Slot(0)].into_iter());
        times.advance(at(7), Some(Slot(0)));
        times.advance(at(9), Some(Slot(1)));
        assert_eq!(times.of(job), Duration::from_secs(2));
        times.set_rows(job, [Slot(0), Slot(1)].into_iter());
        times.advance(at(10), Some(Slot(1)));
        times.advance(at(11), Some(Slot(0)));
        assert_eq!(times.of(job), Duration::from_secs(4));
        times.forget(job);
        assert_eq!(times.of(job), Duration::ZERO);
    }
}
