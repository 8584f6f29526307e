//! A Machine Manager that commands are given to: on this host or on another.

use std::path::{Path, PathBuf};
use storm_mm::api::{Client, ClientError};
use storm_session::ClientKey;

/// Where it is, and what opens it.
#[derive(Clone, Debug)]
pub(crate) enum Manager {
    /// Behind a socket of this host, which knows who we are.
    Socket(PathBuf),
    /// At an address, where a key says who we are.
    Remote {
        /// `HOST:PORT`.
        address: String,
        /// Our key.
        key: ClientKey,
    },
}

impl Manager {
    /// The manager behind this socket.
    pub(crate) fn at(socket: &Path) -> Manager {
        Manager::Socket(socket.to_owned())
    }

    /// Connects to it.
    pub(crate) async fn connect(&self) -> Result<Client, ClientError> {
        match self {
            Manager::Socket(path) => Client::connect(path).await,
            Manager::Remote { address, key } => Client::connect_remote(address, key).await,
        }
    }
}
