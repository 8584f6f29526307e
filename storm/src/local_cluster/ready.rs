//! The one line by which a local cluster's Machine Manager says how its start
//! went.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use storm_mm::api::ApiError;

/// Longest line: an error's text and its log.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// How the start went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Ready {
    /// Every node has joined and the socket takes clients.
    Ready {
        /// The socket.
        socket: PathBuf,
        /// Nodes.
        nodes: u32,
        /// Processing elements of each.
        pes: u32,
    },
    /// It will not come up.
    Failed {
        /// Why.
        error: ApiError,
    },
}

impl Ready {
    /// Says it to the process that waits for it, and closes the descriptor.
    pub(crate) fn tell(&self, to: OwnedFd) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        File::from(to).write_all(&line)
    }
}
