//! Slices that this node begins by its own clock, as a strobe ordered them: the host is told ahead
//! what to switch when, and whatever happens before is first told to the core ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Node;
use crate::core::{Action, Event};
use crate::{Host, SwitchAhead, SwitchDone};
use std::time::Duration;
use storm_primitives::{Instant, Primitives, Runtime};
use storm_rm::PartitionId;
use storm_rm::message::Slices;

/// No slice is shorter, whatever is ordered: a node does other things too.
const QUANTUM_MIN: Duration = Duration::from_micros(50);

/// How many strobes tell what the quickest takes: as many samples as the clock filter of
/// RFC 5905 (section 10) has.
const SAMPLES: usize = 8;

/// A sample counts for less the older it is: two clocks of 50 parts in a million may be one part in
/// so many further apart since.
const DRIFT_DIVISOR: i128 = 10_000;

/// When the Machine Manager's strobes arrive by this node's clock if nothing holds them up.
/// Whatever the two clocks count from, what the quickest of the last strobes took is in the
/// difference: one that was held up is seen to be, and nodes that know it begin slices
/// together however a single strobe reached them (the clock filter takes its samples of least
/// delay for the same reason). A clock that is set or slewed is followed eight strobes later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    /// Each of the last strobes: when it arrived, and node's clock less manager's then, in
    /// nanoseconds.
    samples: [Option<(Instant, i128)>; SAMPLES],
    next: usize,
}

impl Arrivals {
    /// A strobe that was issued at a time of the manager's clock arrives now; when it should
    /// have: not later than now, and not longer before than `span`.
    fn due(&mut self, issued_ns: u64, now: Instant, span: Duration) -> Instant {
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

/// Slices that a strobe ordered, and when the first of them began or was to.
#[derive(Clone, Debug)]
pub(super) struct Following {
    began: Instant,
    quantum: Duration,
    slices: Slices,
}

/// What the host has been told of slices to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Nothing.
    #[default]
    Nothing,
    /// To switch when they begin.
    Ordered,
    /// Nothing, while the core takes in what has happened.
    Withdrawn,
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// These slices of a partition begin when they are due, and none of those before.
    pub(super) fn follow(&self, partition: PartitionId, slices: Option<Slices>) {
        let mut following = self.following.borrow_mut();
        let Some(slices) = slices else {
            following.remove(&partition);
            return;
        };
        let quantum = Duration::from_nanos(slices.quantum_ns).max(QUANTUM_MIN);
        let mut arrivals = self.arrivals.get();
        let began = arrivals.due(slices.strobe.issued_ns, self.runtime.now(), quantum / 2);
        self.arrivals.set(arrivals);
        following.insert(partition, Following { began, quantum, slices });
    }

    /// Withdraws what the host was to switch, and lets the core know which slices have begun; whether
    /// nobody had before. Whatever happens is thus heard of by a core that knows which row is
    /// active, and nothing is switched meanwhile but what it says.
    pub(super) fn withdraw_ahead(&self) -> bool {
        let before = self.ahead.replace(Ahead::Withdrawn);
        if before == Ahead::Ordered {
            self.catch_up();
        }
        before != Ahead::Withdrawn
    }

    /// The slices that have begun so far; those to come are not ordered any more.
    fn catch_up(&self) {
        for SwitchDone { strobe, before, after } in self.host.withdraw_ahead() {
            let actions = self.core.borrow_mut().handle(Event::SliceBegins(strobe));
            for action in actions {
                // Done already: nothing has happened since it was foreseen.
                if let Action::Switch { strobe: Some(strobe), stop, resume } = action {
                    let counts = (stop.len(), resume.len());
                    self.switches.borrow_mut().record(strobe, (before, after), counts);
                }
            }
        }
    }

    /// Orders of the host what the slices to come will switch as things are now.
    pub(super) fn order_ahead(&self) {
        let (core, following) = (self.core.borrow(), self.following.borrow());
        let ahead = following.values().flat_map(|Following { began, quantum, slices }| {
            core.slices_ahead(slices).into_iter().map(|slice| SwitchAhead {
                due: *began
                    + quantum.saturating_mul(u32::try_from(slice.index).unwrap_or(u32::MAX)),
                strobe: slice.strobe,
                jobs: slice.jobs,
            })
        });
        let mut plan: Vec<SwitchAhead> = ahead.collect();
        plan.sort_by_key(|switch| switch.due);
        self.switch_due.set(plan.first().map(|switch| switch.due));
        let ordered = !plan.is_empty() && self.host.switch_ahead(self.runtime.now(), plan);
        self.ahead.set(if ordered { Ahead::Ordered } else { Ahead::Nothing });
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
            // Fifty parts in a million: half a millisecond in ten seconds. Halfway one clock
            // stands still for a third of a second.
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
