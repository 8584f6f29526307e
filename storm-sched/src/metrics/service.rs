//! The averages over some jobs.

use super::{JobOutcome, PreciseSum};

/// The nanoseconds of a second.
const NS_PER_S: f64 = 1e9;

/// Sums over ended jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Service {
    jobs: u64,
    wait_ns: u128,
    response_ns: u128,
    work_pe_ns: u128,
    slowdown: PreciseSum,
    bounded_slowdown: PreciseSum,
    per_proc: PreciseSum,
    greatest: f64,
}

impl Service {
    /// Adds a job.
    pub fn add(&mut self, job: &JobOutcome) {
        self.jobs += 1;
        self.wait_ns += job.wait().as_nanos();
        self.response_ns += job.response().as_nanos();
        self.work_pe_ns += job.work_pe_ns();
        self.slowdown.add(job.slowdown());
        let bounded = job.bounded_slowdown();
        self.bounded_slowdown.add(bounded);
        self.per_proc.add(job.bounded_slowdown_per_proc());
        self.greatest = self.greatest.max(bounded);
    }

    /// The number of jobs.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The mean wait in seconds.
    #[must_use]
    pub fn avg_wait_s(&self) -> f64 {
        self.mean(self.wait_ns as f64 / NS_PER_S)
    }

    /// The mean response time in seconds.
    #[must_use]
    pub fn avg_response_s(&self) -> f64 {
        self.mean(self.response_ns as f64 / NS_PER_S)
    }

    /// The mean slowdown.
    #[must_use]
    pub fn avg_slowdown(&self) -> f64 {
        self.mean(self.slowdown.get())
    }

    /// The mean bounded slowdown.
    #[must_use]
    pub fn avg_bounded_slowdown(&self) -> f64 {
        self.mean(self.bounded_slowdown.get())
    }

    /// The mean bounded slowdown per processor.
    #[must_use]
    pub fn avg_bounded_slowdown_per_proc(&self) -> f64 {
        self.mean(self.per_proc.get())
    }

    /// The greatest bounded slowdown.
    #[must_use]
    pub fn max_bounded_slowdown(&self) -> f64 {
        self.greatest
    }

    /// Processors times nanoseconds of all jobs.
    #[must_use]
    pub fn work_pe_ns(&self) -> u128 {
        self.work_pe_ns
    }

    /// Processors times seconds of all jobs.
    #[must_use]
    pub fn work_pe_s(&self) -> f64 {
        self.work_pe_ns as f64 / NS_PER_S
    }

    /// The mean of a sum over the jobs; 0 without jobs.
    fn mean(&self, sum: f64) -> f64 {
        if self.jobs == 0 { 0.0 } else { sum / self.jobs as f64 }
    }
}
