//! When strobes should arrive at this node.

use std::time::Duration;
use storm_primitives::Instant;

/// Number of strobes of which the fastest counts: as many samples as the clock filter of RFC 5905
/// (section 10) has.
const SAMPLES: usize = 8;

/// An older sample counts for less. Since an older sample, two clocks of 50 parts in a million may
/// have drifted apart by one part in this many.
const DRIFT_DIVISOR: i128 = 10_000;

/// When the Machine Manager's strobes would arrive by this node's clock without delays. The
/// difference includes the unknown origins of the two clocks, so the fastest of the last strobes
/// determines it. A delayed strobe is then recognised, and nodes begin slices together however a
/// single strobe reached them. The clock filter takes the samples of least delay for the same
/// reason. A clock that is set or slewed is followed eight strobes later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    /// For each of the last strobes: its arrival, and the node's clock minus the manager's at the
    /// time, in nanoseconds.
    samples: [Option<(Instant, i128)>; SAMPLES],
    next: usize,
}

impl Arrivals {
    /// A strobe that was issued at this time of the manager's clock arrives now. Returns when it
    /// should have arrived: at most `now`, and at least `now - span`.
    pub(super) fn due(&mut self, issued_ns: u64, now: Instant, span: Duration) -> Instant {
        let sample = i128::from(now.as_nanos()) - i128::from(issued_ns);
        self.samples[self.next] = Some((now, sample));
        self.next = (self.next + 1) % SAMPLES;
        let drifted = |(at, sample): &(Instant, i128)| {
            let age_ns = (now - *at).as_nanos() as i128;
            sample + age_ns / DRIFT_DIVISOR
        };
        let least = self.samples.iter().flatten().map(drifted).min().unwrap_or(sample);
        let late = Duration::from_nanos(u64::try_from(sample - least).unwrap_or(u64::MAX));
        let late_ns = late.min(span).as_nanos() as u64;
        Instant::from_nanos(now.as_nanos().saturating_sub(late_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The node's clock is a second ahead of the manager's, or behind it.
    fn at(issued_us: u64, took_us: u64, ahead: bool) -> (u64, Instant) {
        let second = 1_000_000_000;
        let (manager, node) = if ahead { (0, second) } else { (second, 0) };
        let since = Instant::from_nanos(node + (issued_us + took_us) * 1000);
        (manager + issued_us * 1000, since)
    }

    #[test]
    fn a_strobe_that_was_held_up_is_reckoned_from_when_it_should_have_come() {
        for ahead in [true, false] {
            let mut arrivals = Arrivals::default();
            let span = Duration::from_micros(500);
            let mut late = |issued, took| {
                let (issued_ns, now) = at(issued, took, ahead);
                now - arrivals.due(issued_ns, now, span)
            };
            assert_eq!(late(0, 90), Duration::ZERO, "the first is all that is known");
            assert_eq!(late(1_000, 80), Duration::ZERO, "the quickest so far");
            let expected = Duration::from_nanos(149_885);
            assert_eq!(late(2_000, 230), expected, "150 us, less what clocks may have drifted");
            assert_eq!(late(3_000, 2_000), span, "no more than the span");
            assert_eq!(late(4_000, 80).as_micros(), 0);
        }
    }

    #[test]
    fn strobes_held_up_one_after_the_other_are_seen_to_be_however_seldom_they_come() {
        let (mut arrivals, span) = (Arrivals::default(), Duration::from_millis(1));
        for (strobe, took_us) in [80, 85, 80, 600, 700, 650].into_iter().enumerate() {
            let (issued_ns, now) = at(strobe as u64 * 200_000, took_us, true);
            let due = arrivals.due(issued_ns, now, span);
            let known = Duration::from_micros(took_us) - (now - due);
            let most = Duration::from_micros(80 + 3 * 200 / 10 + 1);
            assert!(known <= most.max(Duration::from_micros(86)), "{known:?}, strobe {strobe}");
        }
    }

    #[test]
    fn clocks_that_drift_apart_or_are_set_are_followed() {
        let mut arrivals = Arrivals::default();
        let span = Duration::from_millis(1);
        for strobe in 0..1_000u64 {
            // Fifty parts in a million: half a millisecond in ten seconds. Halfway, one of the
            // clocks stands still for a third of a second.
            let stood = if strobe >= 500 { 300_000 } else { 0 };
            let issued_us = strobe * 10_000;
            let now_us = issued_us + 80 + issued_us / 20_000 + stood;
            let late = arrivals.due(issued_us * 1000, Instant::from_nanos(now_us * 1000), span);
            let late = Instant::from_nanos(now_us * 1000) - late;
            let is_new = (500..508).contains(&strobe);
            assert!(is_new || late <= Duration::from_micros(5), "{late:?}, strobe {strobe}");
        }
    }
}
