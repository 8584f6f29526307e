//! The times of a job (submission, start and end), and the metrics that follow from them.

use std::time::Duration;

use crate::SchedTime;

/// The shortest run that counts in a bounded slowdown, in seconds: the literature's choice (section
/// B of the policy reference).
pub const BOUNDED_SLOWDOWN_TAU_S: f64 = 10.0;

/// A job that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobOutcome {
    /// When the job was submitted.
    pub submit: SchedTime,
    /// When the job was started.
    pub start: SchedTime,
    /// When the job ended.
    pub end: SchedTime,
    /// How long the job ran. Under time sharing: the time in which it was active.
    pub run: Duration,
    /// The job's processors.
    pub procs: u32,
}

impl JobOutcome {
    /// The time from submission to start.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.start.since(self.submit)
    }

    /// The time from submission to end.
    #[must_use]
    pub fn response(&self) -> Duration {
        self.end.since(self.submit)
    }

    /// The response time divided by the run time.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.response().as_secs_f64() / self.run.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The response time divided by the run time, at least 1. A shorter run counts as
    /// [`BOUNDED_SLOWDOWN_TAU_S`].
    #[must_use]
    pub fn bounded_slowdown(&self) -> f64 {
        let run_s = self.run.as_secs_f64().max(BOUNDED_SLOWDOWN_TAU_S);
        (self.response().as_secs_f64() / run_s).max(1.0)
    }

    /// The bounded slowdown divided by the processors; at least 1.
    #[must_use]
    pub fn bounded_slowdown_per_proc(&self) -> f64 {
        let run_s = self.run.as_secs_f64().max(BOUNDED_SLOWDOWN_TAU_S);
        let procs = f64::from(self.procs.max(1));
        (self.response().as_secs_f64() / (run_s * procs)).max(1.0)
    }

    /// Processors times the nanoseconds of the run.
    #[must_use]
    pub fn work_pe_ns(&self) -> u128 {
        u128::from(self.procs) * self.run.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_jobs_count_as_ten_seconds() {
        let job = JobOutcome {
            submit: SchedTime::from_secs(100),
            start: SchedTime::from_secs(118),
            end: SchedTime::from_secs(120),
            run: Duration::from_secs(2),
            procs: 4,
        };
        assert_eq!((job.wait().as_secs(), job.response().as_secs()), (18, 20));
        assert_eq!((job.slowdown(), job.bounded_slowdown()), (10.0, 2.0));
        assert_eq!(job.bounded_slowdown_per_proc(), 1.0);
        let at_once = JobOutcome { submit: job.start, ..job };
        assert_eq!((at_once.slowdown(), at_once.bounded_slowdown()), (1.0, 1.0));
        assert_eq!(job.work_pe_ns(), 8_000_000_000);
    }
}
