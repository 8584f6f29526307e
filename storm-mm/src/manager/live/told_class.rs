//! A node's report of a rank's class.

use storm_primitives::Instant;
use storm_rm::RankClass;

/// The report, and when it arrived.
#[derive(Clone, Copy, Debug)]
pub(in crate::manager) struct ToldClass {
    told: RankClass,
    at: Instant,
}

impl ToldClass {
    pub(in crate::manager) fn new(told: RankClass, at: Instant) -> ToldClass {
        ToldClass { told, at }
    }

    pub(in crate::manager) fn told(&self) -> RankClass {
        self.told
    }

    /// Since when the rank has had its class.
    pub(in crate::manager) fn since(&self) -> Instant {
        let age_ns = u64::from(self.told.for_ms) * 1_000_000;
        Instant::from_nanos(self.at.as_nanos().saturating_sub(age_ns))
    }
}
