//! The confidence in an average. The jobs at the beginning and the end are left out, because the
//! machine is not yet or no longer loaded. The confidence interval comes from batch means (section
//! B of the policy reference).
//!
//! Batch means: the jobs, in order of submission, form [`BATCHES`] batches of equal size, whose
//! means are taken as independent (A. M. Law, Simulation Modeling and Analysis).
//!
//! A mean has a least possible value: 1 for a bounded slowdown, 0 for a time. Slowdowns and waits
//! have heavy tails, so Student's symmetric interval can extend below this value. The interval is
//! therefore Student's for the logarithm of the distance between the mean and the least value, with
//! the standard error of the delta method (W. Q. Meeker and L. A. Escobar, Statistical Methods for
//! Reliability Data, section 3.6: intervals for positive quantities; `docs/decisions/0135`). It
//! reaches the least value only if the mean does, and is longer above the mean than below.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use storm_sched::metrics::{JobOutcome, PreciseSum};

/// Batches: the number that the literature commonly advises.
const BATCHES: usize = 20;
/// Probability that the interval holds the mean.
pub const CONFIDENCE: f64 = 0.95;
/// The default percentage of jobs left out at either end.
pub const DEFAULT_TRIM_PERCENT: f64 = 2.0;
/// The most that can be left out at either end.
pub const MAX_TRIM_PERCENT: f64 = 45.0;

/// Percent of the jobs that are left out at either end.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct TrimPercent(f64);

/// A mean with its confidence interval: the mean of infinitely many jobs is in it with a
/// probability of [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end of the interval: never below the least possible value.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Student's quantile times the standard error of the mean. The symmetric interval of this
    /// half-width may hold impossible values: show `low` and `high` instead.
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
    /// The confidence of the intervals.
    pub confidence: f64,
    /// The mean bounded slowdown.
    pub avg_bounded_slowdown: Interval,
    /// The mean wait in seconds.
    pub avg_wait_s: Interval,
    /// The mean response time in seconds.
    pub avg_response_s: Interval,
}

impl TrimPercent {
    /// `percent`, or `None` if it is outside of 0 to [`MAX_TRIM_PERCENT`].
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
    /// From jobs in order of submission. `None` if too few are left for batches of two.
    #[must_use]
    pub fn of(jobs: &[JobOutcome], trim: TrimPercent) -> Option<Self> {
        let left_out = (jobs.len() as f64 * trim.0 / 100.0) as usize;
        let kept = jobs.get(left_out..jobs.len().checked_sub(left_out)?)?;
        let size = kept.len() / BATCHES;
        if size < 2 {
            return None;
        }
        let whole = &kept[..size * BATCHES];
        let interval = |least, value: fn(&JobOutcome) -> f64| interval(whole, size, least, value);
        Some(Self {
            trim_percent: trim,
            jobs: kept.len(),
            batches: BATCHES,
            confidence: CONFIDENCE,
            avg_bounded_slowdown: interval(1.0, JobOutcome::bounded_slowdown)?,
            avg_wait_s: interval(0.0, |job| job.wait().as_secs_f64())?,
            avg_response_s: interval(0.0, |job| job.response().as_secs_f64())?,
        })
    }
}

/// The interval of a mean whose values are no less than `least`.
fn interval(
    jobs: &[JobOutcome],
    size: usize,
    least: f64,
    value: fn(&JobOutcome) -> f64,
) -> Option<Interval> {
    let means: Vec<f64> = jobs.chunks(size).map(|batch| mean(batch.iter().map(value))).collect();
    let count = means.len() as f64;
    let middle = mean(means.iter().copied());
    let squares = mean(means.iter().map(|mean| (mean - middle).powi(2))) * count;
    let deviation = (squares / (count - 1.0)).sqrt();
    let quantile = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(0.5 + CONFIDENCE / 2.0);
    let half_width = quantile * deviation / count.sqrt();
    let beyond = middle - least;
    // The distance is 0 only if all values equal the least one. The interval is then a point.
    let factor = if beyond > 0.0 { (half_width / beyond).exp() } else { 1.0 };
    let (low, high) = (least + beyond / factor, least + beyond * factor);
    Some(Interval { mean: middle, low, high, half_width })
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
    fn the_ends_are_trimmed_and_the_interval_is_students() {
        // Of 100 jobs, the first and last 10 waited far longer. The batches in between wait 1 and 3
        // seconds in turn: mean 2, deviation sqrt(20/19), t(19) at 97.5 % 2.093.
        let wait = |i: u64| if !(10..90).contains(&i) { 999 } else { 1 + (i - 10) / 4 % 2 * 2 };
        let jobs: Vec<JobOutcome> = (0..100).map(|i| job(i, wait(i))).collect();
        let steady = SteadyState::of(&jobs, TrimPercent::new(10.0).unwrap()).unwrap();
        assert_eq!((steady.jobs, steady.batches), (80, 20));
        assert_eq!(steady.avg_wait_s.mean, 2.0);
        let expected = 2.0930 * (20.0_f64 / 19.0).sqrt() / 20.0_f64.sqrt();
        assert!((steady.avg_wait_s.half_width - expected).abs() < 1e-4, "{steady:?}");
        assert_eq!(steady.avg_response_s.mean, 12.0);
        let Interval { low, high, .. } = steady.avg_wait_s;
        let factor = (expected / 2.0).exp();
        assert!((low - 2.0 / factor).abs() < 1e-4 && (high - 2.0 * factor).abs() < 1e-4);
    }

    #[test]
    fn an_interval_holds_no_impossible_value_however_heavy_the_tail() {
        // Compared with the others, one job in a hundred waits for ever.
        let jobs: Vec<JobOutcome> =
            (0..100).map(|i| job(i, if i == 50 { 100_000 } else { 0 })).collect();
        let steady = SteadyState::of(&jobs, TrimPercent::new(0.0).unwrap()).unwrap();
        for (least, interval) in [
            (1.0, steady.avg_bounded_slowdown),
            (0.0, steady.avg_wait_s),
            (0.0, steady.avg_response_s),
        ] {
            let Interval { mean, low, high, half_width } = interval;
            assert!(mean - half_width < least, "Student's would be impossible: {interval:?}");
            assert!(least < low && low < mean && mean < high, "{interval:?}");
            assert!(high.is_finite(), "{interval:?}");
        }
    }

    #[test]
    fn without_waits_the_interval_is_a_point() {
        let jobs: Vec<JobOutcome> = (0..100).map(|i| job(i, 0)).collect();
        let steady = SteadyState::of(&jobs, TrimPercent::default()).unwrap();
        let ends = |interval: Interval| (interval.low, interval.high);
        assert_eq!(ends(steady.avg_bounded_slowdown), (1.0, 1.0));
        assert_eq!(ends(steady.avg_wait_s), (0.0, 0.0));
        assert_eq!(ends(steady.avg_response_s), (10.0, 10.0));
    }

    #[test]
    fn a_narrow_interval_is_that_of_student() {
        let jobs: Vec<JobOutcome> = (0..400).map(|i| job(i, 1_000 + i % 7)).collect();
        let wait = SteadyState::of(&jobs, TrimPercent::default()).unwrap().avg_wait_s;
        let close = |a: f64, b: f64| (a - b).abs() < 1e-3 * wait.half_width;
        assert!(close(wait.mean - wait.low, wait.half_width), "{wait:?}");
        assert!(close(wait.high - wait.mean, wait.half_width), "{wait:?}");
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
