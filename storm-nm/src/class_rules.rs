//! The thresholds of flexible coscheduling: their values, ranges and names. The policy reference
//! (A5) calls its values defaults to sweep, not truths.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use thiserror::Error;

/// The thresholds by which processes are classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassRules {
    /// Number of its own slots in which a process is watched before it is classified.
    pub window_slots: u32,
    /// Least total length of those slots; shorter slots are watched in larger numbers.
    pub window_min: Duration,
    /// A process that computes longer than this between two communications is `DontCare`, ...
    pub coarse_min: Duration,
    /// ... or longer than its slot divided by this, if that is more.
    pub coarse_part: u32,
    /// Two context switches and a round trip: shorter waits are normal for any communication.
    pub answer: Duration,
    /// A process is `Frustrated` if its waits exceed this percentage of its computing time.
    pub wait_percent: u32,
    /// A frustrated process is classified anew if its computing time between communications grows
    /// or shrinks by this factor.
    pub shift: u32,
    /// Number of slots after which a process is classified anew.
    pub reset_slots: u32,
    /// A process without library reports that wants a processor for this percentage of its slots
    /// computes, or polls for messages all the time.
    pub busy_percent: u32,
}

impl Default for ClassRules {
    /// The policy reference's values.
    fn default() -> ClassRules {
        ClassRules {
            window_slots: 4,
            window_min: Duration::from_millis(20),
            coarse_min: Duration::from_millis(5),
            coarse_part: 4,
            // Two switches of 6 us, and a round trip through TCP (0081).
            answer: Duration::from_micros(72),
            wait_percent: 50,
            shift: 2,
            reset_slots: 64,
            busy_percent: 90,
        }
    }
}

/// A threshold that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {value} is not from {least} to {most}")]
pub struct ClassRuleError {
    /// Its name in configuration files.
    pub key: &'static str,
    /// The given value.
    pub value: String,
    /// The least value in range.
    pub least: String,
    /// The greatest value in range.
    pub most: String,
}

impl ClassRules {
    /// Checks that all thresholds are in range.
    ///
    /// # Errors
    /// [`ClassRuleError`] for the first that is not.
    pub fn check(&self) -> Result<(), ClassRuleError> {
        const TICK: Duration = Duration::from_micros(1);
        const LONG: Duration = Duration::from_secs(60);
        within("window-slots", self.window_slots, 1..=1000)?;
        within("window-min", self.window_min, Duration::ZERO..=LONG)?;
        within("coarse-min", self.coarse_min, TICK..=LONG)?;
        within("coarse-part", self.coarse_part, 1..=1000)?;
        within("answer", self.answer, TICK..=Duration::from_secs(1))?;
        within("wait-percent", self.wait_percent, 1..=10_000)?;
        within("shift", self.shift, 2..=1000)?;
        // A process must not be reset before it can be classified.
        within("reset-slots", self.reset_slots, self.window_slots..=1_000_000)?;
        within("busy-percent", self.busy_percent, 1..=100)
    }

    /// With slots of this length, a process that computes longer than the result between two
    /// communications is `DontCare`.
    pub(crate) fn coarse(&self, slot: Duration) -> Duration {
        self.coarse_min.max(slot / self.coarse_part.max(1))
    }

    /// Waits up to the result are normal for communications with this much computation between
    /// them.
    pub(crate) fn short(&self, compute: Duration) -> Duration {
        self.answer.max(compute.saturating_mul(self.wait_percent) / 100)
    }
}

fn within<T: PartialOrd + fmt::Debug>(
    key: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ClassRuleError> {
    if range.contains(&value) {
        return Ok(());
    }
    let written = |value: &T| format!("{value:?}");
    let (least, most) = (written(range.start()), written(range.end()));
    Err(ClassRuleError { key, value: written(&value), least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_rules_are_named() {
        let rules = ClassRules::default();
        assert_eq!(rules.check(), Ok(()));
        let said = |rules: ClassRules| rules.check().expect_err("nonsense").to_string();
        let none = ClassRules { window_slots: 0, ..rules };
        assert_eq!(said(none), "window-slots: 0 is not from 1 to 1000");
        let long = ClassRules { answer: Duration::from_secs(2), ..rules };
        assert_eq!(said(long), "answer: 2s is not from 1\u{b5}s to 1s");
        let soon = ClassRules { reset_slots: 3, ..rules };
        assert_eq!(said(soon), "reset-slots: 3 is not from 4 to 1000000");
    }
}
