//! Slices that this node begins by its own clock, as a strobe ordered them
//! ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use super::Node;
use crate::Host;
use crate::core::Event;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Primitives, Runtime};
use storm_rm::PartitionId;
use storm_rm::message::Slices;

/// No slice is shorter, whatever is ordered: a node does other things too.
const QUANTUM_MIN: Duration = Duration::from_micros(50);

/// How many strobes tell what the quickest takes: as many samples as the clock filter of
/// RFC 5905 (section 10) has.
const SAMPLES: usize = 8;

/// When the Machine Manager's strobes arrive by this node's clock if nothing holds them up.
/// Whatever the two clocks count from, what the quickest of the last strobes took is in the
/// difference: one that was held up is seen to be, and nodes that know it begin slices
/// together however a single strobe reached them (the clock filter takes its samples of least
/// delay for the same reason). A clock that is set or slewed is followed eight strobes later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    /// Node's clock less manager's, in nanoseconds, at each of the last strobes.
    samples: [Option<i128>; SAMPLES],
    next: usize,
}

impl Arrivals {
    /// A strobe that was issued at a time of the manager's clock arrives now; when it should
    /// have: not later than now, and not longer before than `span`.
    fn due(&mut self, issued_ns: u64, now: Instant, span: Duration) -> Instant {
        let sample = i128::from(now.as_nanos()) - i128::from(issued_ns);
        self.samples[self.next] = Some(sample);
        self.next = (self.next + 1) % SAMPLES;
        let least = self.samples.iter().flatten().min().copied().unwrap_or(sample);
        let late = Duration::from_nanos(u64::try_from(sample - least).unwrap_or(u64::MAX));
        let late_ns = late.min(span).as_nanos() as u64;
        Instant::from_nanos(now.as_nanos().saturating_sub(late_ns))
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Begins these slices of a partition when they are due, and none of those before.
    pub(super) fn follow(self: &Rc<Self>, partition: PartitionId, slices: Option<Slices>) {
        let task = slices.map(|slices| {
            let quantum = Duration::from_nanos(slices.quantum_ns).max(QUANTUM_MIN);
            let mut arrivals = self.arrivals.get();
            let now = self.runtime.now();
            let began = arrivals.due(slices.strobe.issued_ns, now, quantum / 2);
            self.arrivals.set(arrivals);
            let node = self.clone();
            self.runtime.spawn(async move { node.begin_slices(began, quantum, &slices).await })
        });
        let former = match task {
            Some(task) => self.following.borrow_mut().insert(partition, task),
            None => self.following.borrow_mut().remove(&partition),
        };
        drop(former);
    }

    /// The first slice was to begin at `began`. One that is over by the time its turn comes is
    /// skipped, like a strobe that could not leave: nodes do not catch up. The last is not:
    /// its row stays until the next strobe.
    async fn begin_slices(self: &Rc<Self>, began: Instant, quantum: Duration, slices: &Slices) {
        let mut due = began;
        for index in 1..=slices.following.len() {
            due = due + quantum;
            let Some(strobe) = slices.strobe_of(index) else { return };
            self.runtime.sleep_until(due).await;
            self.host.attend().await;
            let over = self.runtime.now() >= due + quantum;
            if !over || index == slices.following.len() {
                self.handle(Event::SliceBegins(strobe));
            }
        }
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
            assert_eq!(late(2_000, 230).as_micros(), 150);
            assert_eq!(late(3_000, 2_000), span, "no more than the span");
            assert_eq!(late(4_000, 80).as_micros(), 0);
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
