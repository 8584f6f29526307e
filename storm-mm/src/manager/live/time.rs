//! The run time of a job: the time for which its processes run, without the time for which they are
//! stopped.

use std::time::Duration;
use storm_primitives::Instant;

/// Least time between two checks of the time limit of a stopped job. The job may exceed its limit
/// by this much.
const STOPPED_TIMER: Duration = Duration::from_millis(10);

/// A run time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunTime {
    /// The time up to `active_since`.
    ran: Duration,
    /// Since when the processes run, unless they are stopped.
    active_since: Option<Instant>,
}

impl RunTime {
    /// The time of a job that has run for `ran` and is stopped.
    pub(super) fn stopped_after(ran: Duration) -> RunTime {
        RunTime { ran, active_since: None }
    }

    pub(super) fn at(&self, now: Instant) -> Duration {
        self.ran + self.active_since.map_or(Duration::ZERO, |since| now - since)
    }

    /// The earliest instant at which the run time can reach `limit`. The run time of a stopped job
    /// stands still, so the result is then only when to check again.
    pub(super) fn earliest(&self, now: Instant, limit: Duration) -> Instant {
        let left = limit.saturating_sub(self.at(now));
        let stopped = self.active_since.is_none();
        now + if stopped { left.max(STOPPED_TIMER) } else { left }
    }

    #[cfg(test)]
    pub(super) fn is_counted(&self) -> bool {
        self.active_since.is_some()
    }

    /// The processes run, or do not, from now on.
    pub(super) fn set_active(&mut self, now: Instant, active: bool) {
        self.ran = self.at(now);
        self.active_since = active.then_some(now);
    }
}
