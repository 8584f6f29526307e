//! Errors of a profile.

use super::BUILTIN_NAMES;
use super::text::line_of;
use crate::InputError;
use thiserror::Error;

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// No profile of this name is built in.
    #[error("there is no machine profile {0:?}")]
    Unknown(String),
    /// The text is not TOML, or lacks keys that every profile has.
    #[error("this is no machine profile")]
    Unreadable(#[from] Box<toml::de::Error>),
    /// A value is invalid.
    #[error("{}{error}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Value {
        /// The line of the value, counted from 1, if it comes from a text.
        line: Option<usize>,
        /// The fault.
        error: InputError,
    },
}

impl ProfileError {
    /// The error of a value that was read from this text.
    pub fn of_value(text: &str, error: InputError) -> ProfileError {
        let line = error.key().and_then(|key| line_of(text, key));
        ProfileError::Value { line, error }
    }

    /// Advice to the user.
    pub fn hint(&self) -> String {
        match self {
            ProfileError::Unknown(_) => {
                format!("one of {}, or the path of a file", BUILTIN_NAMES.join(", "))
            }
            ProfileError::Unreadable(_) => {
                "compare it with `storm sim --show-profile es40-qsnet`; every value is \
                 { value = NUMBER, source = \"where it comes from\" }"
                    .to_owned()
            }
            ProfileError::Value { error, .. } => error.hint(),
        }
    }
}
