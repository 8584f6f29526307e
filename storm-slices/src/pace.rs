//! The time that the strobe sender waits before it asks whether a microphase is over.

use crate::Phase;
use std::time::Duration;

/// The duration of a microphase in which something moves, by microphase. The sender does not ask
/// earlier whether the microphase is over. A negative answer costs as much as a positive one, and
/// delays the traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace([Duration; Phase::ALL.len()]);

impl Pace {
    /// At most one question in this many should be answered no. The wait is then as short as
    /// possible.
    const ASKED_IN_VAIN: u32 = 8;

    /// Time from a microphase's strobe to the first question.
    pub(crate) fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }

    /// Notes that a microphase was over at the time `over` after its strobe. `first` tells whether
    /// the first question was already answered yes. A time beyond `most` had another cause, and is
    /// cut to `most`.
    pub(crate) fn learn(&mut self, phase: Phase, over: Duration, first: bool, most: Duration) {
        let pace = &mut self.0[phase as usize];
        *pace =
            if first { *pace - *pace / Self::ASKED_IN_VAIN } else { (*pace + over.min(most)) / 2 };
        *pace = (*pace).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_wait_for_what_a_microphase_takes_and_not_for_ever() {
        let (mut pace, phase) = (Pace::default(), Phase::PointToPoint);
        let us = Duration::from_micros;
        for _ in 0..200 {
            // The microphase takes 40 us, and an answer takes 10 us.
            let (mut asked, mut first) = (pace.of(phase), true);
            while asked < us(40) {
                (asked, first) = (asked + us(10), false);
            }
            pace.learn(phase, asked, first, us(125));
            assert!(pace.of(phase) <= us(50), "{pace:?}");
        }
        assert!(pace.of(phase) > us(25), "{pace:?}");
        (0..20).for_each(|_| pace.learn(phase, us(10_000), false, us(125)));
        assert!((us(124)..=us(125)).contains(&pace.of(phase)), "{pace:?}");
        assert_eq!(pace.of(Phase::Reduce), Duration::ZERO);
        (0..400).for_each(|_| pace.learn(phase, us(0), true, us(125)));
        assert!(pace.of(phase) < us(1), "{pace:?}");
    }

    #[test]
    fn one_that_took_long_counts_for_no_more_than_may_be() {
        let (mut pace, most) = (Pace::default(), Duration::from_micros(120));
        pace.learn(Phase::Reduce, Duration::from_secs(1), false, most);
        assert_eq!(pace.of(Phase::Reduce), most / 2);
        pace.learn(Phase::Reduce, Duration::ZERO, true, most);
        assert_eq!(pace.of(Phase::Reduce), Duration::from_nanos(52_500));
        assert_eq!(pace.of(Phase::SliceEnd), Duration::ZERO);
    }
}
