//! Times as users write them: `90s`, `1h30m`, and Slurm's `HH:MM:SS`.

use std::time::Duration;
use thiserror::Error;

/// The longest time accepted. More than a hundred years is a mistake of units.
const LONGEST_S: u64 = 100 * 366 * 86_400;

/// The text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotATime {
    #[error("a time is expected, as 90s, 10m, 1h30m, 50ms")]
    Units,
    #[error("a time is expected, as 90s, 10m, 1h30m, or MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM:SS")]
    Limit,
    #[error("the time must be more than 0")]
    Zero,
    #[error("the time is longer than a hundred years")]
    TooLong,
}

/// Reads a time with units, such as `50ms` or `1h30m`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, NotATime> {
    checked(with_units(text).ok_or(NotATime::Units)?)
}

/// Reads a time limit: a time with units, or one as Slurm writes it. A bare number is minutes.
pub(crate) fn parse_time_limit(text: &str) -> Result<Duration, NotATime> {
    checked(with_units(text).or_else(|| as_slurm(text)).ok_or(NotATime::Limit)?)
}

fn checked(time: Duration) -> Result<Duration, NotATime> {
    if time.is_zero() {
        Err(NotATime::Zero)
    } else if time.as_secs() > LONGEST_S {
        Err(NotATime::TooLong)
    } else {
        Ok(time)
    }
}

/// Reads numbers, each with its unit, larger units first.
fn with_units(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    let mut last_unit = Duration::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = &rest[..digits];
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let unit = unit(&rest[..letters])?;
        rest = &rest[letters..];
        if unit >= last_unit {
            return None;
        }
        last_unit = unit;
        let part = match number.parse::<u32>() {
            Ok(count) => unit.checked_mul(count)?,
            Err(_) => Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit.as_secs_f64())
                .ok()?,
        };
        total = total.checked_add(part)?;
    }
    (!text.trim().is_empty()).then_some(total)
}

fn unit(name: &str) -> Option<Duration> {
    Some(match name {
        "us" | "µs" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" | "sec" => Duration::from_secs(1),
        "m" | "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3_600),
        "d" => Duration::from_secs(86_400),
        _ => return None,
    })
}

/// Reads `MM`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS` (sbatch(1), --time).
fn as_slurm(text: &str) -> Option<Duration> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let fields: Vec<u64> = clock.split(':').map(number).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match (days, fields.as_slice()) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (None | Some(_), [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        (None | Some(_), _) => return None,
    };
    let total_s = days
        .unwrap_or(0)
        .checked_mul(86_400)?
        .checked_add(hours.checked_mul(3_600)?)?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(seconds)?;
    Some(Duration::from_secs(total_s))
}

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str) -> Result<u64, NotATime> {
        parse_time_limit(text).map(|time| time.as_secs())
    }

    #[test]
    fn both_notations_mean_what_they_say() {
        for (text, expected) in [
            ("90s", 90),
            ("10m", 600),
            ("1h30m", 5_400),
            ("1d", 86_400),
            ("1.5h", 5_400),
            ("10", 600),
            ("10:30", 630),
            // sbatch takes fields beyond 59 as well, and scripts have them.
            ("1:99", 159),
            ("00:90:00", 5_400),
            ("1:00:00", 3_600),
            ("2-3", 2 * 86_400 + 3 * 3_600),
            ("2-3:04", 2 * 86_400 + 3 * 3_600 + 240),
            ("2-03:04:05", 2 * 86_400 + 3 * 3_600 + 245),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        assert_eq!(parse_time("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(parse_time("300us"), Ok(Duration::from_micros(300)));
    }

    #[test]
    fn malformed_durations_are_refused() {
        for text in ["", "m", "10x", "30m1h", "1m1m", "1:2:3:4", "-5", "1-", ":", "1..5s", "٣"] {
            assert_eq!(seconds(text), Err(NotATime::Limit), "{text:?}");
        }
        assert_eq!(seconds("0"), Err(NotATime::Zero));
        assert_eq!(seconds("99999999999"), Err(NotATime::TooLong));
        assert_eq!(parse_time("10"), Err(NotATime::Units), "a quantum needs its unit");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_time_limit(&text);
        }

        #[test]
        fn slurms_notation_adds_up(d in 0u64..99, h in 0u64..24, m in 0u64..60, s in 1u64..60) {
            let text = format!("{d}-{h:02}:{m:02}:{s:02}");
            prop_assert_eq!(seconds(&text), Ok(((d * 24 + h) * 60 + m) * 60 + s));
        }
    }
}
