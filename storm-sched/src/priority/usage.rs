//! The usage of a user. Half of it is forgotten in each half-life (Slurm's
//! `PriorityDecayHalfLife`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SchedTime;

/// The default half-life: 7 days, as in Slurm.
pub const DEFAULT_HALF_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many binary digits of the fraction of a half-life count: finer than a nanosecond in a year.
const DIGITS: u32 = 52;

/// The time in which half of a usage is forgotten; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HalfLife(Duration);

impl HalfLife {
    /// Returns a half-life; `None` when it is zero.
    #[must_use]
    pub fn new(duration: Duration) -> Option<Self> {
        (!duration.is_zero()).then_some(Self(duration))
    }

    /// The part of 1 that is left after this time. The calculation uses only operations that IEEE
    /// 754 rounds in one way, so the number is the same everywhere.
    #[must_use]
    pub fn left_after(self, elapsed: Duration) -> f64 {
        let halvings = elapsed.as_nanos() / self.0.as_nanos();
        if halvings > 1_000 {
            // The remainder is below the smallest number.
            return 0.0;
        }
        let rest = elapsed.as_nanos() % self.0.as_nanos();
        let mut part = rest as f64 / self.0.as_nanos() as f64;
        let mut left = (0..halvings).fold(1.0, |left, _| left * 0.5);
        // 2^-part, digit by digit: the factor of the k-th digit is 2^-(2^-k).
        let mut factor = 0.5_f64;
        for _ in 0..DIGITS {
            factor = factor.sqrt();
            part *= 2.0;
            if part >= 1.0 {
                part -= 1.0;
                left *= factor;
            }
        }
        left
    }
}

impl Default for HalfLife {
    fn default() -> Self {
        Self(DEFAULT_HALF_LIFE)
    }
}

/// A decaying usage in PE-seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    pe_s: f64,
    /// The time for which the amount holds.
    at: SchedTime,
}

impl Usage {
    /// Adds PE-seconds that were used up to `now`. Time does not go back.
    pub fn charge(&mut self, now: SchedTime, pe_s: f64, half_life: HalfLife) {
        let before = self.pe_s_at(now, half_life);
        *self = Self { pe_s: before + pe_s, at: self.at.max(now) };
    }

    /// The decayed usage at a time, in PE-seconds.
    #[must_use]
    pub fn pe_s_at(&self, now: SchedTime, half_life: HalfLife) -> f64 {
        self.pe_s * half_life.left_after(now.since(self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: u64) -> Duration {
        Duration::from_secs(days * 24 * 3600)
    }

    #[test]
    fn half_is_left_after_a_half_life_and_its_root_after_half_of_it() {
        let week = HalfLife::default();
        assert_eq!(week.left_after(Duration::ZERO), 1.0);
        assert_eq!(week.left_after(days(7)), 0.5);
        assert_eq!(week.left_after(days(35)), 1.0 / 32.0);
        assert_eq!(week.left_after(days(7) / 2), 0.5_f64.sqrt());
        assert!((week.left_after(days(1)) - 0.5_f64.powf(1.0 / 7.0)).abs() < 1e-12);
        assert_eq!(week.left_after(Duration::MAX), 0.0);
        assert_eq!(HalfLife::new(Duration::ZERO), None);
    }

    #[test]
    fn earlier_usage_counts_less() {
        let week = HalfLife::default();
        let mut usage = Usage::default();
        usage.charge(SchedTime::ZERO, 100.0, week);
        usage.charge(SchedTime::from(days(7)), 10.0, week);
        assert_eq!(usage.pe_s_at(SchedTime::from(days(7)), week), 60.0);
        assert_eq!(usage.pe_s_at(SchedTime::from(days(14)), week), 30.0);
    }
}
