//! A time in a configuration file: text with its unit.

use crate::duration::parse_time;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// A time, written as `"50ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenTime(pub(crate) Duration);

impl WrittenTime {
    /// Reads a time that may also be `0s`.
    pub(super) fn or_none<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<WrittenTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.trim() {
            "0" | "0s" => Ok(WrittenTime(Duration::ZERO)),
            text => parse_time(text).map(WrittenTime).map_err(serde::de::Error::custom),
        }
    }
}

impl<'de> Deserialize<'de> for WrittenTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_time(&text).map(WrittenTime).map_err(serde::de::Error::custom)
    }
}
