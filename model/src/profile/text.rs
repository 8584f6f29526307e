//! The text of a profile: a comment on each parameter, and the line of a parameter in a text.

use super::{Absent, ProfileKey};
use crate::Sourced;
use std::fmt::Write;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// The TOML tables of these keys. Each key has a comment with its meaning, its unit, its range and
/// the effect of leaving it out. A key without a value appears only as a comment.
pub fn commented_tables(keys: &[ProfileKey], values: &[(&'static str, &Sourced)]) -> String {
    let value_of = |key: &ProfileKey| {
        values.iter().find(|(name, _)| *name == key.key).map(|(_, value)| *value)
    };
    let mut text = String::new();
    let mut current = "";
    for key in keys {
        let (table, name) = key.parts();
        if table != current {
            let any = keys.iter().any(|one| one.parts().0 == table && value_of(one).is_some());
            let mark = if any { "" } else { "# " };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{mark}[{table}]");
            current = table;
        }
        let ProfileKey { unit, meaning, range, absent, .. } = key;
        let without = match absent {
            Absent::Refused => "needed".to_owned(),
            Absent::Value(_) | Absent::Means(_) => format!("left out: {absent}"),
        };
        let _ = writeln!(text, "# {meaning}; {unit}, {range}; {without}");
        let _ = match value_of(key) {
            Some(value) => writeln!(text, "{name} = {}", inline(value)),
            None => writeln!(text, "# {name} = {{ value = ..., source = \"...\" }}"),
        };
    }
    text
}

/// A string as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn inline(sourced: &Sourced) -> String {
    let Sourced { value, low, high, source } = sourced;
    let end = |name: &str, end: &Option<f64>| {
        end.map(|end| format!(", {name} = {}", Value::from(end))).unwrap_or_default()
    };
    let (low, high) = (end("low", low), end("high", high));
    format!("{{ value = {}{low}{high}, source = {} }}", Value::from(*value), quoted(source))
}

/// The line, counted from 1, with the value of this key.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut place = table.get_ref();
    let mut start = None;
    for name in key.split('.').chain(["value"]) {
        let value = place.get(name)?;
        start = Some(value.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => place = inner,
            _ => break,
        }
    }
    Some(text.get(..start?)?.lines().count().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_every_toml_notation() {
        let text = "a = 1\n[host]\nwake-us = { value = 3.0, source = \"x\" }\n\n\
                    [host.exec-ms]\nsource = \"y\"\nvalue = 7\n";
        assert_eq!(line_of(text, "host.wake-us"), Some(3));
        assert_eq!(line_of(text, "host.exec-ms"), Some(7));
        assert_eq!(line_of(text, "host.exit-ms"), None);
        assert_eq!(line_of("not TOML", "host.exit-ms"), None);
    }

    #[test]
    fn a_written_value_is_read_back() {
        let sourced = Sourced {
            low: Some(-1.5),
            high: Some(f64::MAX),
            ..Sourced::new(0.1 + 0.2, "a \"quoted\" word,\n# and a line \u{7}")
        };
        let text = format!("x = {}", inline(&sourced));
        let table: std::collections::BTreeMap<String, Sourced> = toml::from_str(&text).unwrap();
        assert_eq!(table["x"], sourced);
    }
}
