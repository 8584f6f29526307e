//! The time of this host, common to all its processes. This time continues while the host is
//! suspended.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point in time, as the time since the host was started.
///
/// Other hosts continue while this host is suspended. The time of a suspension therefore counts
/// when a job must end here before it starts elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostTime(pub Duration);

impl HostTime {
    /// The present time.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME);
        // Linux has had this clock since 2.6.39, so the call does not fail.
        Self(now.map_or(Duration::ZERO, Duration::from))
    }
}
