//! Time of this host, the same for all of its processes, which goes on while the host is suspended.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point in time: so much after the host was started.
///
/// Other hosts go on while this one is suspended. Whatever is to be over here before something
/// begins there has to count that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostTime(pub Duration);

impl HostTime {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME);
        // Linux has had it since 2.6.39: it does not fail.
        Self(now.map_or(Duration::ZERO, Duration::from))
    }
}
