//! A time in a configuration file: text with its unit.

use crate::duration::parse_time;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// As `"50ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenTime(pub(crate) Duration);

impl WrittenTime {
    /// As it is written; `0s` is none at all.
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
