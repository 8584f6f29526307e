//! How far an average can be believed: without the jobs of the beginning and
//! the end, when the machine is not yet or no longer loaded, and with a
//! confidence interval by batch means (section B of the policy reference).
//!
//! Batch means: the jobs, in order of submission, in [`BATCHES`] batches of
//! equal size, whose means are taken for independent (A. M. Law, Simulation
//! Modeling and Analysis). Slowdowns have heavy tails: the interval is a guide.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use storm_sched::metrics::{JobOutcome, PreciseSum};

/// Batches: the number that the literature commonly advises.
const BATCHES: usize = 20;
/// Probability that the interval holds the mean.
pub const CONFIDENCE: f64 = 0.95;
/// Percent of the jobs that are left out at either end, if nobody says.
pub const DEFAULT_TRIM_PERCENT: f64 = 2.0;
/// The most that can be left out at either end.
pub const MAX_TRIM_PERCENT: f64 = 45.0;

/// Percent of the jobs that are left out at either end.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct TrimPercent(f64);

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// It lies as far from the mean of infinitely many jobs at most, with a
    /// probability of [`CONFIDENCE`].
    pub half_width: f64,
}

/// The averages of the jobs in between.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SteadyState {
    /// Percent of the jobs left out at either end.
    pub trim_percent: TrimPercent,
    /// Jobs that are left.
    pub jobs: usize,
    /// Batches of equal size that they are in; up to 19 jobs are in none.
    pub batches: usize,
    /// Of the intervals.
    pub confidence: f64,
    /// The mean bounded slowdown.
    pub avg_bounded_slowdown: Interval,
    /// The mean wait in seconds.
    pub avg_wait_s: Interval,
    /// The mean response time in seconds.
    pub avg_response_s: Interval,
}

impl TrimPercent {
    /// So many percent; `None` when it is not 0 to [`MAX_TRIM_PERCENT`].
    #[must_use]
    pub fn new(percent: f64) -> Option<Self> {
        (0.0..=MAX_TRIM_PERCENT).contains(&percent).then_some(Self(percent))
    }
}

impl Default for TrimPercent {
    fn default() -> Self {
        Self(DEFAULT_TRIM_PERCENT)
    }
}

impl SteadyState {
    /// Of jobs in order of submission; `None` when too few are left for
    /// batches of two.
    #[must_use]
    pub fn of(jobs: &[JobOutcome], trim: TrimPercent) -> Option<Self> {
        let left_out = (jobs.len() as f64 * trim.0 / 100.0) as usize;
        let kept = jobs.get(left_out..jobs.len().checked_sub(left_out)?)?;
        let size = kept.len() / BATCHES;
        if size < 2 {
            return None;
        }
        let whole = &kept[..size * BATCHES];
        let interval = |value: fn(&JobOutcome) -> f64| interval(whole, size, value);
        Some(Self {
            trim_percent: trim,
            jobs: kept.len(),
            batches: BATCHES,
            confidence: CONFIDENCE,
            avg_bounded_slowdown: interval(JobOutcome::bounded_slowdown)?,
            avg_wait_s: interval(|job| job.wait().as_secs_f64())?,
            avg_response_s: interval(|job| job.response().as_secs_f64())?,
        })
    }
}

fn interval(jobs: &[JobOutcome], size: usize, value: fn(&JobOutcome) -> f64) -> Option<Interval> {
    let means: Vec<f64> = jobs.chunks(size).map(|batch| mean(batch.iter().map(value))).collect();
    let count = means.len() as f64;
    let middle = mean(means.iter().copied());
    let squares = mean(means.iter().map(|mean| (mean - middle).powi(2))) * count;
    let deviation = (squares / (count - 1.0)).sqrt();
    let quantile = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(0.5 + CONFIDENCE / 2.0);
    Some(Interval { mean: middle, half_width: quantile * deviation / count.sqrt() })
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    let mut sum = PreciseSum::default();
    values.for_each(|value| sum.add(value));
    sum.get() / count
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use storm_sched::SchedTime;

    use super::*;

    fn job(submit_s: u64, wait_s: u64) -> JobOutcome {
        let submit = SchedTime::from_secs(submit_s);
        let start = submit + Duration::from_secs(wait_s);
        let run = Duration::from_secs(10);
        JobOutcome { submit, start, end: start + run, run, procs: 1 }
    }

    #[test]
    fn the_ends_are_left_out_and_the_interval_is_students() {
        // Of 100 jobs the first and last 10 waited far longer; the batches in between wait
        // 1 and 3 seconds in turn: mean 2, deviation sqrt(20/19), t(19) at 97.5 % 2.093.
        let wait = |i: u64| if !(10..90).contains(&i) { 999 } else { 1 + (i - 10) / 4 % 2 * 2 };
        let jobs: Vec<JobOutcome> = (0..100).map(|i| job(i, wait(i))).collect();
        let steady = SteadyState::of(&jobs, TrimPercent::new(10.0).unwrap()).unwrap();
        assert_eq!((steady.jobs, steady.batches), (80, 20));
        assert_eq!(steady.avg_wait_s.mean, 2.0);
        let expected = 2.0930 * (20.0_f64 / 19.0).sqrt() / 20.0_f64.sqrt();
        assert!((steady.avg_wait_s.half_width - expected).abs() < 1e-4, "{steady:?}");
        assert_eq!(steady.avg_response_s.mean, 12.0);
    }

    #[test]
    fn too_few_jobs_have_no_interval() {
        let jobs: Vec<JobOutcome> = (0..39).map(|i| job(i, 0)).collect();
        assert_eq!(SteadyState::of(&jobs, TrimPercent::new(0.0).unwrap()), None);
        assert_eq!(SteadyState::of(&[], TrimPercent::default()), None);
        for wrong in [-1.0, 45.1, f64::NAN] {
            assert_eq!(TrimPercent::new(wrong), None);
        }
    }
}
