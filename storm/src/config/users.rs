//! The users whom a configuration names, and their uids on this host.
//!
//! This module does not ask the host, because a name service may take arbitrarily long. A name that
//! is not known is treated as absent (`docs/decisions/0132`).

use super::user_name::UserName;
use std::collections::BTreeMap;

/// Uids of users, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownUsers(BTreeMap<String, u32>);

impl FromIterator<(String, u32)> for KnownUsers {
    fn from_iter<T: IntoIterator<Item = (String, u32)>>(users: T) -> KnownUsers {
        KnownUsers(users.into_iter().collect())
    }
}

impl KnownUsers {
    /// The uid of a user, if it was written as a number or the host knows the name.
    pub(super) fn uid(&self, user: &UserName) -> Option<u32> {
        match user {
            UserName::Number(uid) => Some(*uid),
            UserName::Name(name) => self.0.get(name).copied(),
        }
    }
}

/// A user whom the configuration names, and the key that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedUser {
    /// The key, as `accounts[0].users`.
    pub(crate) key: String,
    pub(crate) name: String,
}
