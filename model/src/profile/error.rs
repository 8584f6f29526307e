//! What can be wrong with a profile.

use super::BUILTIN_NAMES;
use crate::InputError;
use thiserror::Error;

/// See the variants.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// No profile of this name is built in.
    #[error("there is no machine profile {0:?}")]
    Unknown(String),
    /// Not TOML, or not with the keys of a profile.
    #[error("not a machine profile: {0}")]
    Unreadable(#[from] Box<toml::de::Error>),
    /// It cannot be written as TOML.
    #[error("the profile cannot be written")]
    Unwritable(#[source] Box<toml::ser::Error>),
    /// A value makes no sense.
    #[error(transparent)]
    Value(#[from] InputError),
}

impl ProfileError {
    /// What to try.
    pub fn hint(&self) -> String {
        match self {
            ProfileError::Unknown(_) => {
                format!("one of {}, or the path of a file", BUILTIN_NAMES.join(", "))
            }
            ProfileError::Unreadable(_) => {
                "compare it with `storm model predict --show-profile`, which prints one".to_owned()
            }
            ProfileError::Unwritable(_) => "a value may not be a finite number".to_owned(),
            ProfileError::Value(error) => error.hint(),
        }
    }
}
