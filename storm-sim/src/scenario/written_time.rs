//! Times as people write them in scenarios: `2ms`, `1s 500ms`.

use serde::{Deserialize, Deserializer, Serializer, de};
use std::time::Duration;

pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_duration(*time))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(de::Error::custom)
}

/// Parses a time. The error says what is wrong with the text.
fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{text:?} is not a time ({error}): write it as \"2ms\" or \"1s\""))
}

/// The same for a time that may be left out.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::parse(&text)).transpose().map_err(de::Error::custom)
    }
}
