//! The line by which a local cluster's Machine Manager reports the result of its start.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use storm_mm::api::ApiError;

/// Longest line; an error quotes a part of its log.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// The result of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Ready {
    /// Every node has joined and the socket takes clients.
    Ready {
        socket: PathBuf,
        nodes: u32,
        /// Processing elements of each node.
        pes: u32,
    },
    /// The start has failed.
    Failed {
        /// The reason.
        error: ApiError,
    },
}

impl Ready {
    /// Reports the result to the waiting process, and closes the descriptor.
    pub(crate) fn tell(&self, to: OwnedFd) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        File::from(to).write_all(&line)
    }
}
