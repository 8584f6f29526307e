//! A gap is an upper bound on the demand of a job that could start. Each part of the queue knows
//! the least demand of its jobs. By comparing the two, a pass skips whole parts of the queue in
//! which no job could start.
//!
//! The comparison errs in one direction only: a job that could start is never skipped, but a job
//! that is shown may not fit.

use std::time::Duration;

/// Classes of numbers of PEs; the last one holds all numbers above 2^15 * 1.5.
const CLASSES: usize = 32;
/// The code of the longest estimates.
const LONGEST: u8 = 254;
/// A code above those of all times, for "no job".
const NOBODY: u8 = 255;
/// Estimates below 2^30 ns (about a second) have one code.
const SHORTEST_BITS: u32 = 30;

/// The most steps of a gap; any further steps are merged into the last.
const MAX_STEPS: usize = 4;

/// The most that a job which starts now may hold: the longer the time, the fewer PEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    steps: [Step; MAX_STEPS],
    count: usize,
}

/// A number of PEs for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Step {
    pes: u32,
    /// The class of `pes`.
    class: usize,
    /// The code of the longest time for which they may be held.
    window: u8,
}

/// The least that a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    pes: u32,
    estimate: u8,
}

/// The least that any of some jobs asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Least {
    pes: u32,
    /// For each class, the code of the shortest estimate among the jobs of this class and of all
    /// smaller classes.
    estimates: [u8; CLASSES],
}

impl Gap {
    /// A gap of `pes` PEs for any time.
    pub(crate) fn of_pes(pes: u32) -> Self {
        Self::of_steps([(pes, Duration::MAX)])
    }

    /// A gap of `pes` PEs for the time `window`, and of `spare_pes` PEs beyond it.
    pub(crate) fn new(pes: u32, window: Duration, spare_pes: u32) -> Self {
        Self::of_steps([(pes, window), (spare_pes.min(pes), Duration::MAX)])
    }

    /// A gap of a number of PEs for each of these times, which ascend.
    pub(crate) fn of_steps(steps: impl IntoIterator<Item = (u32, Duration)>) -> Self {
        let mut gap = Self { steps: [Step::default(); MAX_STEPS], count: 0 };
        for (pes, window) in steps {
            let window = code(window);
            if gap.count == MAX_STEPS {
                // The last step is widened, so that no job which could start is left out.
                let last = &mut gap.steps[MAX_STEPS - 1];
                last.window = last.window.max(window);
                continue;
            }
            // No real job asks for the largest number. It marks a job to be left out.
            let pes = pes.min(u32::MAX - 1);
            gap.steps[gap.count] = Step { pes, class: class(pes), window };
            gap.count += 1;
        }
        gap
    }

    fn steps(&self) -> &[Step] {
        &self.steps[..self.count]
    }
}

impl Demand {
    /// The demand of a job that must not be found: no gap is enough.
    pub(crate) const NOT_TO_BE_MET: Self = Self { pes: u32::MAX, estimate: NOBODY };

    /// A demand for at least `pes` PEs, for the estimated time.
    pub(crate) fn new(pes: u32, estimate: Duration) -> Self {
        Self { pes, estimate: code(estimate) }
    }

    /// Whether the job may fit the gap.
    pub(crate) fn may_fit(self, gap: &Gap) -> bool {
        gap.steps().iter().any(|step| self.pes <= step.pes && self.estimate <= step.window)
    }
}

impl Least {
    /// The least of a single job.
    pub(crate) fn of(demand: Demand) -> Self {
        let mut estimates = [NOBODY; CLASSES];
        estimates[class(demand.pes)..].fill(demand.estimate);
        Self { pes: demand.pes, estimates }
    }

    /// The least demand of these jobs and those of `other`.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.pes = self.pes.min(other.pes);
        for (one, other) in self.estimates.iter_mut().zip(&other.estimates) {
            *one = (*one).min(*other);
        }
        self
    }

    /// Whether one of the jobs may fit the gap.
    pub(crate) fn may_fit(&self, gap: &Gap) -> bool {
        let may_fit =
            |step: &Step| self.pes <= step.pes && self.estimates[step.class] <= step.window;
        gap.steps().iter().any(may_fit)
    }
}

/// 1, 2, 3, 4, 5 to 6, 7 to 8, 9 to 12, 13 to 16, and so on: two in each octave.
fn class(pes: u32) -> usize {
    let below = pes.saturating_sub(1);
    if below < 2 {
        return below as usize;
    }
    let octave = below.ilog2();
    let half = (below >> (octave - 1)) & 1;
    ((2 * octave + half) as usize).min(CLASSES - 1)
}

/// Eight codes in each octave; never larger for a shorter time.
fn code(time: Duration) -> u8 {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let Some(octave) = nanos.checked_ilog2().and_then(|log| log.checked_sub(SHORTEST_BITS)) else {
        return 0;
    };
    let eighth = (nanos >> (octave + SHORTEST_BITS - 3)) & 7;
    u8::try_from(u64::from(octave) * 8 + eighth).unwrap_or(LONGEST).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_are_two_in_each_octave() {
        let classes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 49_152, 49_153, u32::MAX];
        let expected = [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 30, 31, 31];
        assert_eq!(classes.map(class), expected);
    }

    proptest! {
        #[test]
        fn no_fitting_job_is_skipped(
            jobs in prop::collection::vec((1..300u32, 0..200_000u64), 1..8),
            pes in 0..300u32,
            window_s in 0..200_000u64,
            spare_pes in 0..300u32,
        ) {
            let time = Duration::from_secs;
            let gap = Gap::new(pes, time(window_s), spare_pes);
            let windows = [window_s / 4, window_s / 2, window_s].map(time);
            let steps = [pes, pes / 2, pes / 3, pes / 5, pes / 9];
            let steps = steps.into_iter().zip(windows.into_iter().chain([Duration::MAX; 2]));
            let staircase = Gap::of_steps(steps.clone());
            let demand = |&(pes, secs): &(u32, u64)| Demand::new(pes, time(secs));
            let least = jobs.iter().map(|job| Least::of(demand(job)));
            let least = least.reduce(|one, other| one.and(&other));
            for job in &jobs {
                let fits = job.0 <= pes && (job.1 <= window_s || job.0 <= spare_pes);
                prop_assert!(!fits || demand(job).may_fit(&gap));
                let shown = demand(job).may_fit(&gap);
                prop_assert!(!shown || least.is_some_and(|least| least.may_fit(&gap)));
                let fits = steps.clone().any(|(pes, window)| job.0 <= pes && time(job.1) <= window);
                prop_assert!(!fits || demand(job).may_fit(&staircase));
                let shown = demand(job).may_fit(&staircase);
                prop_assert!(!shown || least.is_some_and(|least| least.may_fit(&staircase)));
                prop_assert!(!Demand::NOT_TO_BE_MET.may_fit(&Gap::of_pes(u32::MAX)));
            }
        }
    }
}
