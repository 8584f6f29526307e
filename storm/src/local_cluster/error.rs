//! The reasons why a local cluster could not be started, found or ended.

use super::dimensions;
use crate::daemon::too_small_bytes;
use crate::failure::Failure;
use std::io;
use std::path::{Path, PathBuf};
use storm_mm::api::ApiError;
use thiserror::Error;

/// Why a local cluster could not be started, found or ended.
#[derive(Debug, Error)]
pub(crate) enum LocalClusterError {
    #[error("no directory for the cluster can be made")]
    RuntimeDir(#[source] io::Error),
    #[error("{} cannot be used to keep a cluster", path.display())]
    StateDir { path: PathBuf, source: io::Error },
    #[error("{} belongs to another user, or others may write to it", .0.display())]
    NotOurs(PathBuf),
    #[error("{} is in the way: it is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("the Machine Manager cannot be started")]
    Spawn(#[source] io::Error),
    #[error("the cluster did not start")]
    Refused(#[source] ApiError),
    #[error("the Machine Manager ended before the cluster was ready{}", tail(.log))]
    Died { log: String },
    #[error("the cluster was not ready after {seconds} s{}", tail(.log))]
    Late { seconds: u64, log: String },
    #[error("a cluster is up already: {}, since {started}", dimensions(*nodes, *pes))]
    AlreadyUp { nodes: u32, pes: u32, started: String },
    #[error("another `storm up` or `storm down` is at work")]
    Busy,
    #[error(
        "the cluster that `up` kept (process {pid}, since {started}) has died, and its jobs with it\
         {}", said_by(.log.as_deref())
    )]
    KeptDied { pid: i32, started: String, log: Option<PathBuf> },
    #[error("the cluster does not end (process {pid})")]
    WillNotEnd { pid: i32 },
}

/// The end of a log, for a message.
fn tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(": it said\n{}", log.trim_end()) }
}

/// A reference to the log, if there is a log.
fn said_by(log: Option<&Path>) -> String {
    log.map(|log| format!("; its log is {}", log.display())).unwrap_or_default()
}

impl LocalClusterError {
    /// The word for programs that read the message.
    fn code(&self) -> &'static str {
        match self {
            LocalClusterError::AlreadyUp { .. } => "already-up",
            LocalClusterError::Busy => "busy",
            LocalClusterError::KeptDied { .. } => "cluster-died",
            LocalClusterError::RuntimeDir(_)
            | LocalClusterError::StateDir { .. }
            | LocalClusterError::NotOurs(_)
            | LocalClusterError::NotADirectory(_)
            | LocalClusterError::Spawn(_)
            | LocalClusterError::Refused(_)
            | LocalClusterError::Died { .. }
            | LocalClusterError::Late { .. }
            | LocalClusterError::WillNotEnd { .. } => "local-cluster",
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            LocalClusterError::RuntimeDir(_)
            | LocalClusterError::StateDir { .. }
            | LocalClusterError::Refused(_)
            | LocalClusterError::Died { .. }
            | LocalClusterError::Late { .. }
                if too_small_bytes().is_some() =>
            {
                Some(
                    "the limit on file sizes (RLIMIT_FSIZE) is too small for a cluster: `ulimit -f \
                     unlimited`, in a new session if it is refused",
                )
            }
            LocalClusterError::RuntimeDir(_) => Some("set TMPDIR to a directory that you can use"),
            LocalClusterError::NotOurs(_) | LocalClusterError::NotADirectory(_) => {
                Some("remove it, or set XDG_RUNTIME_DIR")
            }
            LocalClusterError::AlreadyUp { .. } => Some("`storm down` ends it"),
            LocalClusterError::Busy => Some("wait for it"),
            LocalClusterError::Refused(error) => error.hint.as_deref(),
            LocalClusterError::Died { .. } | LocalClusterError::Late { .. } => {
                Some("if the machine is too small, use fewer nodes: --nodes 4")
            }
            LocalClusterError::KeptDied { .. } => {
                Some("`storm up` starts another, `storm down` forgets it; both remove its log")
            }
            // After su the directory is another user's; or its file system is read-only.
            LocalClusterError::StateDir { .. } if std::env::var_os("XDG_RUNTIME_DIR").is_some() => {
                Some(
                    "its directory comes from XDG_RUNTIME_DIR: unset it, or set it to a directory \
                     of yours",
                )
            }
            LocalClusterError::StateDir { .. } => {
                Some("set XDG_RUNTIME_DIR to a directory of yours")
            }
            LocalClusterError::Spawn(_) | LocalClusterError::WillNotEnd { .. } => None,
        }
    }
}

impl From<LocalClusterError> for Failure {
    fn from(error: LocalClusterError) -> Failure {
        let failure = Failure::of(error.code(), &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
