//! The processor time of a node's daemon, for processes that share a processor with it.

use std::cell::Cell;
use std::time::Duration;
use storm_primitives::Instant;

/// When the daemon worked. The daemon does one thing at a time, and takes precedence over every
/// rank.
#[derive(Debug, Default)]
pub(super) struct DaemonTime {
    /// Total time of all activities before the present one.
    before: Cell<Duration>,
    /// Start and length of the present or last activity.
    present: Cell<Option<(Instant, Duration)>>,
}

impl DaemonTime {
    /// The daemon works from now on, for this long.
    pub(super) fn work(&self, now: Instant, takes: Duration) {
        self.before.set(self.until(now));
        self.present.set(Some((now, takes)));
    }

    /// Total time that it has worked up to now.
    pub(super) fn until(&self, now: Instant) -> Duration {
        let present = self.present.get().map(|(since, takes)| (now - since).min(takes));
        self.before.get() + present.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_passed_of_its_work_counts() {
        let at = |us| Instant::ORIGIN + Duration::from_micros(us);
        let daemon = DaemonTime::default();
        assert_eq!(daemon.until(at(50)), Duration::ZERO);
        daemon.work(at(100), Duration::from_micros(30));
        assert_eq!(daemon.until(at(110)), Duration::from_micros(10));
        assert_eq!(daemon.until(at(500)), Duration::from_micros(30));
        daemon.work(at(500), Duration::from_micros(30));
        assert_eq!(daemon.until(at(505)), Duration::from_micros(35));
    }
}
