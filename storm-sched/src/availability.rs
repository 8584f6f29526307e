//! The number of free PEs over time, by estimates: a step function.
//!
//! Looking a time up is O(log n) in the steps. Changing a stretch or searching for a hole is linear
//! in the steps that it spans.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{InvariantViolation, SchedTime};

/// The number of free PEs from `at` on, until the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    at: SchedTime,
    /// Negative only if more PEs were promised than exist. [`Availability::check`] reports it.
    free: i64,
}

/// The hole that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hole {
    /// The PEs that must be free in the first instant; at least `pes`.
    pub(crate) first_pes: u32,
    /// The PEs that must be free all the time.
    pub(crate) pes: u32,
    /// How long it must be.
    pub(crate) length: Duration,
}

/// Free PEs over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Availability {
    /// The steps, ascending in time and never empty. Neighbours differ in `free`.
    steps: VecDeque<Step>,
}

impl Availability {
    /// `pes` PEs are free from `now` on.
    pub(crate) fn new(now: SchedTime, pes: u32) -> Self {
        Self { steps: VecDeque::from([Step { at: now, free: i64::from(pes) }]) }
    }

    /// Forgets the steps before `now`.
    pub(crate) fn advance(&mut self, now: SchedTime) {
        let past = self.steps.partition_point(|step| step.at <= now);
        self.steps.drain(..past.saturating_sub(1));
        if let Some(first) = self.steps.front_mut() {
            first.at = first.at.max(now);
        }
    }

    /// Takes PEs from `from` to `to`; the part before the first step is ignored.
    pub(crate) fn take(&mut self, from: SchedTime, to: SchedTime, pes: u32) {
        self.change(from, to, -i64::from(pes));
    }

    /// Gives PEs back from `from` to `to`.
    pub(crate) fn give(&mut self, from: SchedTime, to: SchedTime, pes: u32) {
        self.change(from, to, i64::from(pes));
    }

    /// Whether the hole begins with the first step.
    pub(crate) fn has_now(&self, hole: Hole) -> bool {
        self.steps.front().is_some_and(|first| self.earliest(hole) == Some(first.at))
    }

    /// The beginning of the earliest hole; `None` if there is no hole even after the last step.
    pub(crate) fn earliest(&self, hole: Hole) -> Option<SchedTime> {
        self.earliest_from(SchedTime::ZERO, hole)
    }

    /// Like [`Availability::earliest`], for a caller that knows that no hole begins before the step
    /// of `from`.
    pub(crate) fn earliest_from(&self, from: SchedTime, hole: Hole) -> Option<SchedTime> {
        let past = self.steps.partition_point(|step| step.at < from);
        let mut begin: Option<SchedTime> = None;
        for (index, step) in self.steps.iter().enumerate().skip(past) {
            if step.free < i64::from(hole.pes) {
                begin = None;
                continue;
            }
            if begin.is_none() && step.free < i64::from(hole.first_pes) {
                continue;
            }
            let from = *begin.get_or_insert(step.at);
            let next = self.steps.get(index + 1);
            if next.is_none_or(|next| from + hole.length <= next.at) {
                return Some(from);
            }
        }
        None
    }

    /// The beginning of the earliest hole before `start`, for a job that has its PEs from `start`
    /// on and would give them up.
    pub(crate) fn earlier(
        &self,
        start: SchedTime,
        pes: u32,
        length: Duration,
    ) -> Option<SchedTime> {
        let mut begin: Option<SchedTime> = None;
        for (index, step) in self.steps.iter().enumerate() {
            if step.at >= start {
                break;
            }
            if step.free < i64::from(pes) {
                begin = None;
                continue;
            }
            let from = *begin.get_or_insert(step.at);
            let enough = (from + length).min(start);
            if self.steps.get(index + 1).is_none_or(|next| enough <= next.at) {
                return Some(from);
            }
        }
        None
    }

    /// Checks that no PE was promised twice.
    pub(crate) fn check(&self) -> Result<(), InvariantViolation> {
        match self.steps.iter().find(|step| step.free < 0) {
            Some(Step { at, free }) => {
                Err(InvariantViolation::Overbooked { at: *at, missing: free.unsigned_abs() })
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, from: SchedTime, to: SchedTime, pes: i64) {
        let Some(first) = self.steps.front() else { return };
        let from = from.max(first.at);
        if from >= to || pes == 0 {
            return;
        }
        let begin = self.cut(from);
        let end = self.cut(to);
        for step in self.steps.range_mut(begin..end) {
            step.free += pes;
        }
        self.join(end);
        self.join(begin);
    }

    /// Makes sure that a step begins at a time; returns its index.
    fn cut(&mut self, at: SchedTime) -> usize {
        let after = self.steps.partition_point(|step| step.at < at);
        if self.steps.get(after).is_some_and(|step| step.at == at) {
            return after;
        }
        // `change` begins at the first step at the earliest, so a step exists before it.
        let free = self.steps[after - 1].free;
        self.steps.insert(after, Step { at, free });
        after
    }

    /// Removes a step that changes nothing.
    fn join(&mut self, index: usize) {
        let Some(before) = index.checked_sub(1) else { return };
        let same = |step: &Step| step.free == self.steps[before].free;
        if self.steps.get(index).is_some_and(same) {
            self.steps.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(secs: u64) -> SchedTime {
        SchedTime::from_secs(secs)
    }

    fn hole(pes: u32, length_s: u64) -> Hole {
        Hole { first_pes: pes, pes, length: Duration::from_secs(length_s) }
    }

    #[test]
    fn the_earliest_hole_is_long_and_wide_enough() {
        let mut profile = Availability::new(at(0), 8);
        profile.take(at(0), at(10), 6);
        profile.take(at(10), at(20), 4);
        profile.take(at(30), at(40), 8);
        assert_eq!(profile.earliest(hole(2, 30)), Some(at(0)));
        assert_eq!(profile.earliest(hole(3, 20)), Some(at(10)));
        assert_eq!(profile.earliest(hole(3, 21)), Some(at(40)));
        assert_eq!(profile.earliest(hole(9, 1)), None);
        assert!(profile.has_now(hole(2, 30)) && !profile.has_now(hole(2, 31)));
    }

    #[test]
    fn the_first_instant_can_need_more_than_the_rest() {
        let mut profile = Availability::new(at(0), 8);
        profile.take(at(0), at(10), 4);
        profile.take(at(20), at(30), 4);
        let hole = Hole { first_pes: 8, pes: 4, length: Duration::from_secs(15) };
        assert_eq!(profile.earliest(hole), Some(at(10)));
    }

    #[test]
    fn giving_back_restores_the_profile() {
        let mut profile = Availability::new(at(0), 8);
        profile.take(at(5), at(9), 3);
        let before = profile.clone();
        profile.take(at(3), at(7), 5);
        profile.give(at(3), at(7), 5);
        assert_eq!(profile, before);
        profile.advance(at(6));
        profile.give(at(0), at(9), 3);
        assert_eq!(profile, Availability::new(at(6), 8));
    }

    #[test]
    fn overcommitted_pes_are_detected() {
        let mut profile = Availability::new(at(0), 8);
        profile.take(at(1), at(3), 5);
        profile.check().unwrap();
        profile.take(at(2), at(4), 5);
        let seen = profile.check().unwrap_err();
        assert_eq!(seen, InvariantViolation::Overbooked { at: at(2), missing: 2 });
    }

    /// The free PEs second by second.
    const SECONDS: u64 = 40;

    proptest! {
        #[test]
        fn the_earliest_hole_equals_a_search_second_by_second(
            taken in prop::collection::vec((0..30u64, 1..10u64, 1..4u32), 0..12),
            pes in 1..9u32,
            more in 0..3u32,
            length_s in 1..12u64,
        ) {
            let mut profile = Availability::new(at(0), 8);
            let mut free = vec![8i64; SECONDS as usize];
            for (from, length, pes) in taken {
                let seconds = &mut free[from as usize..(from + length) as usize];
                if seconds.iter().all(|free| *free >= i64::from(pes)) {
                    seconds.iter_mut().for_each(|free| *free -= i64::from(pes));
                    profile.take(at(from), at(from + length), pes);
                }
            }
            profile.check().unwrap();
            let first_pes = pes + more;
            let fits = |from: &u64| {
                let mut run = (*from..from + length_s).map(|s| free.get(s as usize).unwrap_or(&8));
                free[*from as usize] >= i64::from(first_pes) && run.all(|free| *free >= i64::from(pes))
            };
            let expected = (0..SECONDS).find(fits).map(at);
            let hole = Hole { first_pes, pes, length: Duration::from_secs(length_s) };
            prop_assert_eq!(profile.earliest(hole), expected);
            let from = expected.unwrap_or(at(0));
            prop_assert_eq!(profile.earliest_from(from, hole), expected);
        }

        #[test]
        fn an_earlier_hole_equals_the_hole_without_the_present_booking(
            taken in prop::collection::vec((0..30u64, 1..10u64, 1..4u32), 0..12),
            pes in 1..9u32,
            length_s in 1..12u64,
            gone in 0..12usize,
        ) {
            let mut profile = Availability::new(at(0), 8);
            let mut all = Vec::new();
            for (from, length, pes) in taken {
                let mut trial = profile.clone();
                trial.take(at(from), at(from + length), pes);
                if trial.check().is_ok() {
                    profile = trial;
                    all.push((from, length, pes));
                }
            }
            let hole = hole(pes, length_s);
            let Some(start) = profile.earliest(hole) else { return Ok(()) };
            profile.take(start, start + hole.length, pes);
            if let Some((from, length, pes)) = all.get(gone) {
                profile.give(at(*from), at(from + length), *pes);
            }
            let mut without = profile.clone();
            without.give(start, start + hole.length, pes);
            let found = without.earliest(hole).filter(|found| *found < start);
            prop_assert_eq!(profile.earlier(start, pes, hole.length), found);
        }
    }
}
