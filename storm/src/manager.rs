//! A Machine Manager that commands are given to: on this host or on another.

use crate::local_cluster::{KeptCluster, StateDir};
use std::path::{Path, PathBuf};
use storm_mm::api::{Client, ClientError, Progress, Submission};
use storm_rm::JobId;
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
        /// Where that was read.
        key_file: PathBuf,
    },
}

impl Manager {
    /// The manager behind this socket.
    pub(crate) fn at(socket: &Path) -> Manager {
        Manager::Socket(socket.to_owned())
    }

    /// The cluster of `storm up` that it is the manager of, if it is.
    pub(crate) fn kept(&self) -> Option<KeptCluster> {
        match self {
            Manager::Socket(path) => StateDir::of_user().keeps(path),
            Manager::Remote { .. } => None,
        }
    }

    /// Connects to it.
    pub(crate) async fn connect(&self) -> Result<Client, ClientError> {
        match self {
            Manager::Socket(path) => Client::connect(path).await,
            Manager::Remote { address, key, .. } => Client::connect_remote(address, key).await,
        }
    }

    /// Connects to it and submits a job; the client, the job, and the number of the request.
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
