//! The forms of values that Slurm checks before it asks a manager, and its texts for wrong ones.

use super::{Kind, SlurmOption, Value};
use thiserror::Error;

/// The value of an option has the wrong form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrongValue {
    /// A number above zero is expected.
    #[error("Invalid numeric value \"{value}\" for --{option}.")]
    Number {
        /// The value.
        value: String,
        /// The long name of the option.
        option: String,
    },
    /// A number of nodes is expected.
    #[error("\"{0}\" is not a valid node count")]
    Nodes(String),
    /// Another form is expected.
    #[error("Invalid --{0} specification")]
    Form(String),
}

impl WrongValue {
    /// The exit status of the commands that make jobs.
    pub fn status(&self) -> u8 {
        match self {
            WrongValue::Number { .. } => 1,
            WrongValue::Nodes(_) | WrongValue::Form(_) => 255,
        }
    }
}

/// Checks a value.
pub(super) fn check(option: &SlurmOption, value: &str) -> Result<(), WrongValue> {
    let kind = match option.value {
        Value::No => return Ok(()),
        Value::Optional(_) if value.is_empty() => return Ok(()),
        Value::Needed(kind) | Value::Optional(kind) => kind,
    };
    let form = || WrongValue::Form(option.name());
    match kind {
        Kind::Text => Ok(()),
        Kind::Count if is_count(value) => Ok(()),
        Kind::Count => Err(WrongValue::Number { value: value.to_owned(), option: option.name() }),
        Kind::Nodes => match value.split('-').find(|part| !is_count(part)) {
            Some(part) => Err(WrongValue::Nodes(part.to_owned())),
            None if value.split('-').count() > 2 => Err(WrongValue::Nodes(value.to_owned())),
            None => Ok(()),
        },
        Kind::Time => seconds(value).map(|_| ()).ok_or_else(form),
        Kind::Memory => mebibytes(value).map(|_| ()).ok_or_else(form),
    }
}

fn is_count(text: &str) -> bool {
    number(text).is_some_and(|count| count > 0 && count <= u64::from(u32::MAX))
}

fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// No limit: 0, `UNLIMITED`, `INFINITE` or `-1`.
    Unlimited,
    /// A number of seconds.
    Seconds(u64),
}

/// A time of sbatch(1): `MM`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`.
pub fn seconds(text: &str) -> Option<Length> {
    if ["UNLIMITED", "INFINITE", "-1"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(Length::Unlimited);
    }
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
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    match minutes.checked_mul(60)?.checked_add(seconds)? {
        0 => Some(Length::Unlimited),
        seconds => Some(Length::Seconds(seconds)),
    }
}

/// An amount of memory in MiB, rounded up: a number with `K`, `M`, `G` or `T`, and `B` after it.
pub(super) fn mebibytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (amount, unit) = (number(&text[..digits])?, text[digits..].to_ascii_uppercase());
    match unit.strip_suffix('B').filter(|unit| !unit.is_empty()).unwrap_or(&unit) {
        "" | "M" => Some(amount),
        "K" => Some(amount.div_ceil(1024)),
        "G" => amount.checked_mul(1 << 10),
        "T" => amount.checked_mul(1 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_sbatch() {
        for (text, expected) in [
            ("5", 300),
            ("1:30", 90),
            ("1:00:00", 3600),
            ("2-3", 183_600),
            ("1-0:5", 86_700),
            ("1-0:0:9", 86_409),
        ] {
            assert_eq!(seconds(text), Some(Length::Seconds(expected)), "{text}");
        }
        for text in ["0", "UNLIMITED", "infinite"] {
            assert_eq!(seconds(text), Some(Length::Unlimited), "{text}");
        }
        for text in ["", "90s", "1:2:3:4", "x", "-", "+5", "99999999999999999999"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn memory_has_units_of_1024() {
        for (text, expected) in
            [("1GB", 1024), ("2g", 2048), ("7", 7), ("1K", 1), ("3TB", 3 << 20), ("0", 0)]
        {
            assert_eq!(mebibytes(text), Some(expected), "{text}");
        }
        for text in ["", "x", "1Gx", "1B", "-1", "99999999999999999T"] {
            assert_eq!(mebibytes(text), None, "{text}");
        }
    }
}
