//! Why a node could not join.

use crate::wire::Refusal;
use std::fmt;
use std::io;
use storm_session::SessionError;
use thiserror::Error;

/// Why a node could not join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The root was not reached within the time set, or this host has no socket
    /// left.
    #[error("the root cannot be reached")]
    Io(#[from] io::Error),
    /// The root and this node do not trust each other.
    #[error("there is no session with the root")]
    Session(#[source] SessionError),
    /// What was reached does not answer as a root does.
    #[error("what was reached is not a root of this cluster, or it is going down")]
    NoAnswer,
    /// The root does not want this node.
    #[error("the root refuses this node: {0}")]
    Refused(Refusal),
}

impl From<SessionError> for JoinError {
    fn from(error: SessionError) -> JoinError {
        match error {
            SessionError::Io(error) => JoinError::Io(error),
            // A root that goes down does so too.
            SessionError::Closed => JoinError::NoAnswer,
            error => JoinError::Session(error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Version { root, node } => {
                write!(f, "the root speaks version {root} of the protocol, the node {node}")
            }
            Refusal::KeyNeeded { key } => {
                write!(f, "the cluster has a key ({key}), and this node shows none")
            }
            Refusal::Layout { root, node } => {
                write!(f, "the root's plan of global memory is {root}, the node's {node}")
            }
            Refusal::Cluster { root, node } => {
                write!(f, "the root is of cluster {root:?}, the node of {node:?}")
            }
            Refusal::Fabric { root, node } => {
                write!(f, "the lanes of the root's cluster are on {root}, the node's on {node}")
            }
            Refusal::UnknownName { name } => write!(f, "{name:?} is not in the root's table"),
            Refusal::NameInUse { name, node } => write!(f, "{name:?} is alive as {node}"),
            Refusal::Full { max_nodes } => write!(f, "there are {max_nodes} nodes already"),
        }
    }
}
