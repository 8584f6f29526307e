//! A Machine Manager that takes commands, on this host or another.

use crate::local_cluster::{KeptCluster, StateDir};
use std::path::{Path, PathBuf};
use storm_mm::api::{Client, ClientError, Progress, Submission};
use storm_rm::JobId;
use storm_session::ClientKey;

/// The manager's address, and the means to connect.
#[derive(Clone, Debug)]
pub(crate) enum Manager {
    /// A socket of this host, where the kernel tells the manager our uid.
    Socket(PathBuf),
    /// An address on another host, where our key identifies our user.
    Remote {
        /// `HOST:PORT`.
        address: String,
        /// Our key.
        key: ClientKey,
        /// The file that the key was read from.
        key_file: PathBuf,
    },
}

impl Manager {
    /// The manager behind this socket.
    pub(crate) fn at(socket: &Path) -> Manager {
        Manager::Socket(socket.to_owned())
    }

    /// The cluster of `storm up`, if this is its manager.
    pub(crate) fn kept(&self) -> Option<KeptCluster> {
        match self {
            Manager::Socket(path) => StateDir::of_user().keeps(path),
            Manager::Remote { .. } => None,
        }
    }

    pub(crate) async fn connect(&self) -> Result<Client, ClientError> {
        match self {
            Manager::Socket(path) => Client::connect(path).await,
            Manager::Remote { address, key, .. } => Client::connect_remote(address, key).await,
        }
    }

    /// Connects and submits a job. Returns the client, the job, and the number of the request.
    pub(crate) async fn submit(
        &self,
        submission: Submission,
        progress: impl FnMut(Progress),
    ) -> Result<(Client, JobId, u64), ClientError> {
        match self {
            Manager::Socket(path) => Client::connect_and_submit(path, submission, progress).await,
            Manager::Remote { .. } => {
                let mut client = self.connect().await?;
                let (job, request) = client.submit(submission, progress).await?;
                Ok((client, job, request))
            }
        }
    }
}
