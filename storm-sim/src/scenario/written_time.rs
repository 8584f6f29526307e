//! Times as users write them in scenarios: `2ms`, `1s 500ms`.

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::{Designator, SpanParser, SpanPrinter};
use serde::{Deserialize, Deserializer, Serializer, de};
use std::time::Duration;

/// Writes `us` instead of the Greek letter.
const PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::HumanTime);

pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&PRINTER.unsigned_duration_to_string(time))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(de::Error::custom)
}

/// Parses a time. A day has 24 hours. The error tells what is wrong with the text.
fn parse(text: &str) -> Result<Duration, String> {
    let days = SpanRelativeTo::days_are_24_hours();
    let endless = |_| "months and years have no fixed length".to_owned();
    let span = SpanParser::new().parse_span(text).map_err(|error| error.to_string());
    span.and_then(|span| span.to_duration(days).map_err(endless))
        .and_then(|time| Duration::try_from(time).map_err(|_| "it is negative".to_owned()))
        .map_err(|why| format!("{text:?} is not a time ({why}): write it as \"2ms\" or \"1s\""))
}

/// A time that can be left out.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        for (text, us, written) in [
            ("300us", 300, "300us"),
            ("2ms", 2_000, "2ms"),
            ("1s 500ms", 1_500_000, "1s 500ms"),
            ("1.5s", 1_500_000, "1s 500ms"),
            ("1min", 60_000_000, "1m"),
            ("1h30m", 5_400_000_000, "1h 30m"),
            ("1day", 86_400_000_000, "24h"),
            ("0s", 0, "0s"),
        ] {
            let time = Duration::from_micros(us);
            assert_eq!(parse(text), Ok(time), "{text}");
            assert_eq!(PRINTER.unsigned_duration_to_string(&time), written);
            assert_eq!(parse(written), Ok(time), "{written}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "2", "2 bananas", "-2s", "2s ago", "1 month"] {
            let why = parse(text).expect_err(text);
            assert!(why.ends_with("write it as \"2ms\" or \"1s\""), "{why}");
        }
    }
}
