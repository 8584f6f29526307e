//! The times until which the processes of pads may run without a message from the NM. The module
//! knows no process and no clock.
//!
//! An NM that is stopped, or gets no processor, cannot end processes whose job may already run
//! elsewhere. The NM therefore sets a time in advance, and extends it while the processes may
//! continue.

use std::collections::BTreeMap;

use crate::host_time::HostTime;
use crate::ids::PadId;

/// The leases of the pads that have one; most have none.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<PadId, HostTime>);

impl Leases {
    /// Lets the pad's processes run until `until`. Replaces an earlier time.
    pub(super) fn hold(&mut self, pad: PadId, until: HostTime) {
        self.0.insert(pad, until);
    }

    /// Removes the lease of a pad when its job is over.
    pub(super) fn forget(&mut self, pad: PadId) {
        self.0.remove(&pad);
    }

    /// When the next lease runs out.
    pub(super) fn next(&self) -> Option<HostTime> {
        self.0.values().min().copied()
    }

    /// Whether any lease has run out.
    pub(super) fn are_over(&self, now: HostTime) -> bool {
        self.next().is_some_and(|until| until <= now)
    }

    /// Removes the leases that have run out and returns their pads.
    pub(super) fn take_over(&mut self, now: HostTime) -> Vec<PadId> {
        let over = self.0.iter().filter(|(_, until)| **until <= now);
        let over: Vec<PadId> = over.map(|(pad, _)| *pad).collect();
        over.iter().for_each(|pad| self.forget(*pad));
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ONE: PadId = PadId(1);
    const OTHER: PadId = PadId(2);

    fn at(seconds: u64) -> HostTime {
        HostTime(Duration::from_secs(seconds))
    }

    #[test]
    fn a_lease_runs_out_once_and_not_before_its_time() {
        let mut leases = Leases::default();
        assert_eq!(leases.next(), None);
        leases.hold(ONE, at(5));
        leases.hold(OTHER, at(7));
        assert_eq!(leases.next(), Some(at(5)));
        assert_eq!(leases.take_over(at(4)), []);
        assert_eq!(leases.take_over(at(5)), [ONE]);
        assert_eq!(leases.take_over(at(5)), []);
        assert_eq!(leases.next(), Some(at(7)));
    }

    #[test]
    fn the_last_order_counts() {
        let mut leases = Leases::default();
        leases.hold(ONE, at(5));
        leases.hold(ONE, at(9));
        assert_eq!(leases.take_over(at(8)), []);
        leases.hold(ONE, at(8));
        assert_eq!(leases.take_over(at(8)), [ONE]);
    }

    #[test]
    fn a_job_that_is_over_leaves_none() {
        let mut leases = Leases::default();
        leases.hold(ONE, at(5));
        leases.forget(ONE);
        assert_eq!(leases.next(), None);
        assert_eq!(leases.take_over(at(9)), []);
    }

    #[test]
    fn a_host_that_was_suspended_finds_all_run_out_together() {
        let mut leases = Leases::default();
        leases.hold(ONE, at(5));
        leases.hold(OTHER, at(7));
        assert_eq!(leases.take_over(at(3_600)), [ONE, OTHER]);
    }
}
