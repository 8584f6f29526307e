//! Users on other hosts: where they connect, and which users and keys are revoked.

use super::{ConfigProblem, SecurityConfig, written_address};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use storm_session::{ClientSerial, UserName};

/// The `[clients]` of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct ClientsConfig {
    /// Where users on other hosts connect. Without it, the manager does not listen for them.
    #[serde(deserialize_with = "written_address::some")]
    pub(crate) listen: Option<SocketAddr>,
    /// Users who may no longer connect from other hosts, with any key.
    revoked: Vec<String>,
    /// Serial numbers of keys that are revoked.
    revoked_keys: Vec<String>,
}

/// The users and keys that are revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revoked {
    /// Users, all of whose keys are revoked.
    pub(crate) users: BTreeSet<UserName>,
    /// Single keys that are revoked.
    pub(crate) keys: BTreeSet<ClientSerial>,
}

impl ClientsConfig {
    /// Checks what does not need the key files.
    pub(super) fn check(&self, security: &SecurityConfig) -> Result<(), ConfigProblem> {
        self.revoked()?;
        match (self.listen, &security.key_file) {
            (Some(listen), None) => Err(ConfigProblem::ClientKeyNeeded { listen }),
            (_, _) => Ok(()),
        }
    }

    /// The users and keys that are revoked.
    pub(crate) fn revoked(&self) -> Result<Revoked, ConfigProblem> {
        let user = |name: &String| {
            name.parse().map_err(|why| ConfigProblem::RevokedUser { name: name.clone(), why })
        };
        let key = |serial: &String| {
            serial.parse().map_err(|why| ConfigProblem::RevokedKey { serial: serial.clone(), why })
        };
        Ok(Revoked {
            users: self.revoked.iter().map(user).collect::<Result<_, _>>()?,
            keys: self.revoked_keys.iter().map(key).collect::<Result<_, _>>()?,
        })
    }
}
