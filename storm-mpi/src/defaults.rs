//! Variables that STORM set in a rank's environment because its user had not set them. A job that
//! the rank submits must not treat them as the user's setting.
//!
//! Each part of STORM that sets such a variable adds it to the variable named [`VARIABLE`]. A value
//! that the rank has changed meanwhile counts as the rank's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Variable with the names and values that were set, `NAME=VALUE;NAME=VALUE`.
pub const VARIABLE: &str = "STORM_DEFAULTS";

/// Separates two entries.
const SEPARATOR: u8 = b';';

/// Variables with the values that STORM gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults(Vec<(OsString, OsString)>);

impl Defaults {
    /// Reads the value of [`VARIABLE`]. Entries that are not a name and a value are left out.
    pub fn parse(text: &OsStr) -> Defaults {
        let items = text.as_bytes().split(|byte| *byte == SEPARATOR);
        let pairs = items.filter_map(|item| {
            let at = item.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
            let own = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Some((own(&item[..at]), own(&item[at + 1..])))
        });
        Defaults(pairs.collect())
    }

    /// Reads the defaults of this process. Outside of ranks there are none.
    pub fn of_this_process() -> Defaults {
        std::env::var_os(VARIABLE).map(|text| Defaults::parse(&text)).unwrap_or_default()
    }

    /// Adds a variable. A variable that cannot be encoded is left out; STORM sets none of that
    /// kind.
    pub fn add(&mut self, name: &OsStr, value: &OsStr) {
        let can_be_written = |text: &OsStr| !text.as_bytes().contains(&SEPARATOR);
        let is_name = !name.is_empty() && !name.as_bytes().contains(&b'=');
        if is_name && can_be_written(name) && can_be_written(value) {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Whether the variable has this value because STORM set it.
    pub fn contain(&self, name: &OsStr, value: &OsStr) -> bool {
        self.0.iter().any(|(known, set)| known == name && set == value)
    }

    /// Removes the variables with this name.
    pub fn remove(&mut self, name: &OsStr) {
        self.0.retain(|(known, _)| known != name);
    }

    /// The value of [`VARIABLE`].
    pub fn encode(&self) -> OsString {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            if !text.is_empty() {
                text.push(SEPARATOR);
            }
            text.extend_from_slice(name.as_bytes());
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
        }
        OsString::from_vec(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_known_by_name_and_value() {
        let mut defaults = Defaults::default();
        for (name, value) in [("A", "^x=1,2"), ("B", ""), ("A;", "c"), ("", "c"), ("C", ";")] {
            defaults.add(name.as_ref(), value.as_ref());
        }
        assert_eq!(defaults.encode(), "A=^x=1,2;B=");
        let mut read = Defaults::parse("A=^x=1,2;B=;=c;;d".as_ref());
        assert_eq!(read, defaults);
        assert!(read.contain("B".as_ref(), "".as_ref()));
        assert!(!read.contain("A".as_ref(), "^x".as_ref()));
        read.remove("A".as_ref());
        assert_eq!(read.encode(), "B=");
    }
}
