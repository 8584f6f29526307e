//! The cluster keys of a daemon, from the configuration or its options.

use super::ConfigProblem;
use crate::key_file::{self, KeyFileError};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use storm_session::Trust;

/// The `[security]` of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct SecurityConfig {
    /// The key of the cluster. Without it the daemon serves this host only.
    pub(crate) key_file: Option<PathBuf>,
    /// The former key, which is trusted as well while a key is being replaced.
    pub(crate) previous_key_file: Option<PathBuf>,
}

impl SecurityConfig {
    /// Checks everything that does not need the key files.
    pub(super) fn check(&self, listen: SocketAddr) -> Result<(), ConfigProblem> {
        match (&self.key_file, &self.previous_key_file) {
            (None, Some(_)) => Err(ConfigProblem::PreviousKeyAlone),
            (None, None) if !listen.ip().to_canonical().is_loopback() => {
                Err(ConfigProblem::KeyNeeded { listen })
            }
            (_, _) => Ok(()),
        }
    }

    /// Reads the keys.
    pub(crate) fn trust(&self) -> Result<Option<Trust>, KeyFileError> {
        let Some(key_file) = &self.key_file else { return Ok(None) };
        let trust = Trust::new(key_file::read(key_file)?);
        Ok(Some(match &self.previous_key_file {
            Some(previous) => trust.or_previous(key_file::read(previous)?),
            None => trust,
        }))
    }
}
