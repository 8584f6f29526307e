//! The rule by which a log is cleaned before its replay. It reproduces the published numbers of
//! jobs (section B of the policy reference).
//!
//! A job's processors are the number that it asked for, or else the number that it got. The rule
//! leaves out a job that did not run, or whose time of submission is unknown. It also leaves out a
//! job that had no processors, or more than the machine has. A job without an estimate counts as
//! having a perfect estimate. A job that ran longer than its estimate counts as ended at its
//! estimate.

use serde::Serialize;

use super::SwfRecord;

/// The latest submission that is replayed, in seconds: 136 years. The queue then has as much time
/// again before the largest representable time.
pub const MAX_LOG_TIME_S: u64 = 1 << 32;

/// The longest run that is replayed, in seconds: 8.5 years, longer than machines are kept. A few
/// longer runs would exceed the range of time.
pub const MAX_LOG_RUN_S: u64 = 1 << 28;

/// A job that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogJob {
    /// The job's number in the log. Several jobs may have the same number.
    pub number: i64,
    /// The job's user, or -1.
    pub user: i64,
    /// Seconds from the start of the log to its submission.
    pub submit_s: u64,
    /// The run time in seconds: at least 1, and at most the estimate.
    pub run_s: u64,
    /// The run time that its user expects, in seconds.
    pub estimate_s: u64,
    /// The job's processors, at least 1.
    pub procs: u32,
}

/// Why a job is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The job did not run, or its run time is unknown: it was cancelled while it waited.
    NoRunTime,
    /// The job had no processors, or their number is unknown.
    NoProcs,
    /// The job had more processors than the machine.
    TooManyProcs,
    /// The time of the submission is unknown.
    NoSubmitTime,
    /// The job was submitted after [`MAX_LOG_TIME_S`], or ran longer than [`MAX_LOG_RUN_S`].
    BeyondTime,
}

/// The number of jobs left out, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Drops {
    /// [`DropReason::NoRunTime`].
    pub no_run_time: u64,
    /// [`DropReason::NoProcs`].
    pub no_procs: u64,
    /// [`DropReason::TooManyProcs`].
    pub too_many_procs: u64,
    /// [`DropReason::NoSubmitTime`].
    pub no_submit_time: u64,
    /// [`DropReason::BeyondTime`].
    pub beyond_time: u64,
}

/// Collects the jobs of a log that can be replayed.
#[derive(Debug, Clone, Default)]
pub struct Cleaning {
    jobs: Vec<LogJob>,
    drops: Drops,
}

/// The jobs of a log that can be replayed on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// The jobs, in the order of the log.
    pub jobs: Vec<LogJob>,
    /// The jobs left out.
    pub drops: Drops,
}

impl LogJob {
    /// The job of a record, on a machine of any size.
    ///
    /// # Errors
    /// Why the job cannot be replayed.
    pub fn of(record: &SwfRecord) -> Result<Self, DropReason> {
        let above_zero = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
        let run_s = above_zero(record.run_s).ok_or(DropReason::NoRunTime)?;
        let procs = above_zero(record.requested).or_else(|| above_zero(record.allocated));
        let procs = procs.ok_or(DropReason::NoProcs)?;
        let procs = u32::try_from(procs).map_err(|_| DropReason::TooManyProcs)?;
        let submit_s = u64::try_from(record.submit_s).map_err(|_| DropReason::NoSubmitTime)?;
        if submit_s > MAX_LOG_TIME_S || run_s > MAX_LOG_RUN_S {
            return Err(DropReason::BeyondTime);
        }
        let estimate_s = above_zero(record.requested_s).unwrap_or(run_s).min(MAX_LOG_TIME_S);
        let run_s = run_s.min(estimate_s);
        let (number, user) = (record.job, record.user);
        Ok(Self { number, user, submit_s, run_s, estimate_s, procs })
    }
}

impl Drops {
    /// The number of all jobs left out.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { no_run_time, no_procs, too_many_procs, no_submit_time, beyond_time } = self;
        no_run_time + no_procs + too_many_procs + no_submit_time + beyond_time
    }

    /// Counts one more job.
    pub fn count(&mut self, why: DropReason) {
        *match why {
            DropReason::NoRunTime => &mut self.no_run_time,
            DropReason::NoProcs => &mut self.no_procs,
            DropReason::TooManyProcs => &mut self.too_many_procs,
            DropReason::NoSubmitTime => &mut self.no_submit_time,
            DropReason::BeyondTime => &mut self.beyond_time,
        } += 1;
    }
}

impl Cleaning {
    /// Takes a record of the log.
    pub fn add(&mut self, record: &SwfRecord) {
        match LogJob::of(record) {
            Ok(job) => self.jobs.push(job),
            Err(why) => self.drops.count(why),
        }
    }

    /// The largest job so far, in processors.
    #[must_use]
    pub fn largest_procs(&self) -> u32 {
        self.jobs.iter().map(|job| job.procs).max().unwrap_or(0)
    }

    /// The jobs for a machine of that many processors.
    #[must_use]
    pub fn for_machine(self, pes: u32) -> Cleaned {
        let Self { mut jobs, mut drops } = self;
        jobs.retain(|job| {
            let fits = job.procs <= pes;
            if !fits {
                drops.count(DropReason::TooManyProcs);
            }
            fits
        });
        Cleaned { jobs, drops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: SwfRecord = SwfRecord {
        job: 1,
        submit_s: 5,
        run_s: 100,
        allocated: 4,
        requested: 8,
        requested_s: 60,
        ..SwfRecord::UNKNOWN
    };

    #[test]
    fn cleaning_cuts_runs_at_the_estimate_and_keeps_the_requested_processors() {
        let job = LogJob::of(&GOOD).unwrap();
        assert_eq!((job.procs, job.run_s, job.estimate_s), (8, 60, 60));
        let unknown = SwfRecord { requested: -1, requested_s: 0, ..GOOD };
        let job = LogJob::of(&unknown).unwrap();
        assert_eq!((job.procs, job.run_s, job.estimate_s), (4, 100, 100));
    }

    #[test]
    fn each_job_that_cannot_be_replayed_is_counted_under_its_reason() {
        let mut cleaning = Cleaning::default();
        for record in [
            GOOD,
            SwfRecord { run_s: 0, status: 5, ..GOOD },
            SwfRecord { run_s: -1, ..GOOD },
            SwfRecord { requested: 0, allocated: -1, ..GOOD },
            SwfRecord { requested: 9, ..GOOD },
            SwfRecord { requested: i64::MAX, ..GOOD },
            SwfRecord { submit_s: -1, ..GOOD },
            SwfRecord { submit_s: i64::MAX, ..GOOD },
            SwfRecord { run_s: i64::MAX, ..GOOD },
            SwfRecord { requested_s: i64::MAX, ..GOOD },
        ] {
            cleaning.add(&record);
        }
        assert_eq!(cleaning.largest_procs(), 9);
        let Cleaned { jobs, drops } = cleaning.for_machine(8);
        assert_eq!(jobs.len(), 2);
        let expected = Drops {
            no_run_time: 2,
            no_procs: 1,
            too_many_procs: 2,
            no_submit_time: 1,
            beyond_time: 2,
        };
        assert_eq!(drops, expected);
        assert_eq!(drops.total(), 8);
    }
}
