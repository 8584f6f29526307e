//! A user as the configuration names it.

use serde::Deserialize;

/// A user by name or number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a user is a name or a number")]
pub(super) enum UserName {
    Number(u32),
    Name(String),
}

impl std::fmt::Display for UserName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UserName::Number(uid) => uid.fmt(f),
            UserName::Name(name) => name.fmt(f),
        }
    }
}
