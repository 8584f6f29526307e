//! The words of one PMI line: splitting, look-up and limits. Knows no command.

use super::{KEYLEN_MAX_BYTES, KVSNAME_MAX_BYTES, MAX_LINE_BYTES, VALLEN_MAX_BYTES};
use thiserror::Error;

/// The reason why a line is not a PMI-1 message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The line is longer than [`MAX_LINE_BYTES`].
    #[error("PMI line of {bytes} bytes: at most {MAX_LINE_BYTES} are accepted")]
    LineTooLong {
        /// Length of the line.
        bytes: usize,
    },
    /// The line is not UTF-8 text, or holds a control character.
    #[error("PMI line holds bytes that are not text")]
    NotText,
    /// The line does not begin with `cmd=`.
    #[error("PMI line does not begin with a command")]
    MissingCommand,
    /// The command does not belong to PMI-1.
    #[error("unknown PMI command \"{command}\"")]
    UnknownCommand {
        /// The command as sent, cut to a printable length.
        command: String,
    },
    /// A field that the command needs is absent.
    #[error("PMI command \"{command}\" lacks {field}=")]
    MissingField {
        /// The command.
        command: &'static str,
        /// The absent field.
        field: &'static str,
    },
    /// A field that must be a number is not one, or does not fit.
    #[error("PMI field {field}= is not a number in range")]
    BadNumber {
        /// The field.
        field: &'static str,
    },
    /// A field is over its limit.
    #[error("PMI field {field}= is longer than {limit_bytes} bytes")]
    FieldTooLong {
        /// The field.
        field: &'static str,
        /// Its limit.
        limit_bytes: usize,
    },
}

/// Characters of an unknown command that an error repeats.
const SHOWN_COMMAND_CHARS: usize = 32;

/// One line, split into the command and the rest.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) command: &'a str,
    rest: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn split(line: &'a str) -> Result<Self, WireError> {
        if line.len() > MAX_LINE_BYTES {
            return Err(WireError::LineTooLong { bytes: line.len() });
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        if line.chars().any(char::is_control) {
            return Err(WireError::NotText);
        }
        let rest = line.trim_start().strip_prefix("cmd=").ok_or(WireError::MissingCommand)?;
        let (command, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        Ok(Fields { command, rest })
    }

    pub(super) fn unknown(&self) -> WireError {
        let command = self.command.chars().take(SHOWN_COMMAND_CHARS).collect();
        WireError::UnknownCommand { command }
    }

    /// The first word `name=...`, up to the next blank. Words inside `value=` are ignored.
    pub(super) fn word(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.rest.trim_start();
        while !rest.is_empty() && !rest.starts_with("value=") {
            let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some((key, value)) = word.split_once('=')
                && key == name
            {
                return Some(value);
            }
            rest = tail.trim_start();
        }
        None
    }

    /// The text behind `value=`, blanks and `=` included.
    pub(super) fn value(&self) -> Option<&'a str> {
        let mut rest = self.rest.trim_start();
        while !rest.is_empty() {
            if let Some(value) = rest.strip_prefix("value=") {
                return Some(value);
            }
            rest = rest.split_once(' ').map_or("", |(_, tail)| tail).trim_start();
        }
        None
    }

    pub(super) fn text(
        &self,
        command: &'static str,
        field: &'static str,
        limit_bytes: usize,
    ) -> Result<String, WireError> {
        let found = if field == "value" { self.value() } else { self.word(field) };
        let text = found.ok_or(WireError::MissingField { command, field })?;
        if text.len() > limit_bytes {
            return Err(WireError::FieldTooLong { field, limit_bytes });
        }
        Ok(text.to_owned())
    }

    pub(super) fn kvsname(&self, command: &'static str) -> Result<String, WireError> {
        self.text(command, "kvsname", KVSNAME_MAX_BYTES)
    }

    pub(super) fn key(&self, command: &'static str) -> Result<String, WireError> {
        self.text(command, "key", KEYLEN_MAX_BYTES)
    }

    pub(super) fn put_value(&self, command: &'static str) -> Result<String, WireError> {
        self.text(command, "value", VALLEN_MAX_BYTES)
    }

    pub(super) fn number<T: std::str::FromStr>(
        &self,
        command: &'static str,
        field: &'static str,
    ) -> Result<T, WireError> {
        let text = self.word(field).ok_or(WireError::MissingField { command, field })?;
        text.parse().map_err(|_| WireError::BadNumber { field })
    }

    pub(super) fn number_or<T: std::str::FromStr>(
        &self,
        field: &'static str,
        default: T,
    ) -> Result<T, WireError> {
        match self.word(field) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| WireError::BadNumber { field }),
        }
    }
}
