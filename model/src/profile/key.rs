//! A parameter of a profile: its key, unit and meaning, its valid values, and the effect of leaving
//! it out.

use crate::{InputError, Sourced};

/// The description of one key of a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfileKey {
    /// The key with its tables, separated by dots.
    pub key: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// The meaning, in a phrase.
    pub meaning: &'static str,
    /// The valid values.
    pub range: KeyRange,
    /// The effect of leaving it out.
    pub absent: Absent,
}

/// The valid values of a key, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyRange {
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Whether only whole numbers are valid.
    pub whole: bool,
}

/// The effect of leaving a key out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Absent {
    /// The key is required.
    Refused,
    /// The default value.
    Value(f64),
    /// The effect, in words.
    Means(&'static str),
}

impl KeyRange {
    /// For bandwidths, in MiB/s: from a slow modem to 10 TiB/s.
    pub const RATE: KeyRange = KeyRange::between(0.01, 1e7);
    /// For times in ms: up to 1,000 s.
    pub const MS: KeyRange = KeyRange::between(0.0, 1e6);
    /// For times in us: up to 1 s.
    pub const US: KeyRange = KeyRange::between(0.0, 1e6);

    /// Any number between.
    pub const fn between(least: f64, most: f64) -> KeyRange {
        KeyRange { least, most, whole: false }
    }

    /// A whole number between.
    pub const fn whole(least: f64, most: f64) -> KeyRange {
        KeyRange { least, most, whole: true }
    }

    fn contains(&self, value: f64) -> bool {
        // NaN is in no range.
        (self.least..=self.most).contains(&value) && (!self.whole || value.fract() == 0.0)
    }
}

impl std::fmt::Display for KeyRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = if self.whole { "whole, " } else { "" };
        write!(f, "{whole}{} to {}", self.least, self.most)
    }
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Absent::Refused => f.write_str("is required"),
            Absent::Value(value) => value.fmt(f),
            Absent::Means(what) => f.write_str(what),
        }
    }
}

impl ProfileKey {
    /// A parameter.
    pub const fn new(
        key: &'static str,
        unit: &'static str,
        meaning: &'static str,
        range: KeyRange,
        absent: Absent,
    ) -> ProfileKey {
        ProfileKey { key, unit, meaning, range, absent }
    }

    /// The table of the key, and its name in that table.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.key.rsplit_once('.').unwrap_or(("", self.key))
    }

    /// Checks a value of this key.
    ///
    /// # Errors
    /// The value is out of range, or outside its own confidence interval.
    pub fn check(&self, sourced: &Sourced) -> Result<(), InputError> {
        let ProfileKey { key, unit, range, .. } = *self;
        let Sourced { value, low, high, .. } = *sourced;
        if !range.contains(value) {
            return Err(InputError::OutsideKey { key, value, unit, range });
        }
        let inside = low.is_none_or(|low| low.is_finite() && low <= value)
            && high.is_none_or(|high| high.is_finite() && value <= high);
        if inside { Ok(()) } else { Err(InputError::OutsideInterval { key, value }) }
    }
}

/// Checks values against the descriptions of their keys.
///
/// # Errors
/// The first value that is invalid.
pub fn check_values(
    keys: &[ProfileKey],
    values: &[(&'static str, &Sourced)],
) -> Result<(), InputError> {
    values.iter().try_for_each(|(name, value)| {
        keys.iter().filter(|key| key.key == *name).try_for_each(|key| key.check(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ProfileKey = ProfileKey {
        key: "host.wake-us",
        unit: "us",
        meaning: "waking",
        range: KeyRange::whole(1.0, 10.0),
        absent: Absent::Value(2.0),
    };

    #[test]
    fn a_range_has_both_its_ends_and_nothing_else() {
        for sound in [1.0, 2.0, 10.0] {
            assert_eq!(KEY.check(&Sourced::new(sound, "")), Ok(()));
        }
        for wrong in [0.0, -1.0, 1.5, 11.0, 1e300, f64::NAN, f64::INFINITY] {
            let error = KEY.check(&Sourced::new(wrong, "")).unwrap_err().to_string();
            assert!(error.starts_with("host.wake-us is "), "{error}");
            assert!(error.contains("whole, 1 to 10") && error.len() < 100, "{error}");
        }
        assert_eq!(KEY.parts(), ("host", "wake-us"));
    }

    #[test]
    fn a_confidence_interval_contains_its_value() {
        let with = |low, high| Sourced { low, high, ..Sourced::new(5.0, "") };
        assert_eq!(KEY.check(&with(Some(-1.0), Some(6.0))), Ok(()));
        for wrong in [with(Some(6.0), None), with(None, Some(4.0)), with(Some(f64::NAN), None)] {
            assert!(matches!(KEY.check(&wrong), Err(InputError::OutsideInterval { .. })));
        }
    }
}
