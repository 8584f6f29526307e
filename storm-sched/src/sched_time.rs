//! The time of the events that a policy takes: nanoseconds since the cluster's start.
//!
//! Policies have no clock, so real time and virtual time look the same to them.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant, in nanoseconds since the cluster's start. The range covers 584 years.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SchedTime(u64);

impl SchedTime {
    /// The cluster's start.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the cluster's start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `secs` seconds after the cluster's start, or the latest instant if that does not
    /// fit.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the cluster's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for SchedTime {
    type Output = Self;

    /// Adds a time. The sum stops at the latest instant.
    fn add(self, later: Duration) -> Self {
        let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl From<Duration> for SchedTime {
    fn from(since_start: Duration) -> Self {
        Self::ZERO + since_start
    }
}

impl fmt::Display for SchedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
