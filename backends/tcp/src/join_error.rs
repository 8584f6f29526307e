//! Why a node could not join.

use crate::wire::Refusal;
use std::error::Error as _;
use std::fmt;
use std::io;
use storm_session::SessionError;
use thiserror::Error;

/// Why a node could not join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The root was not reached in time, or this host has no socket left.
    #[error("the Machine Manager cannot be reached")]
    Io(#[from] io::Error),
    /// The root and this node do not trust each other.
    #[error("there is no session with the Machine Manager")]
    Session(#[source] SessionError),
    /// The peer does not answer like a root.
    #[error(
        "the address does not answer as a Machine Manager of this cluster, or the manager is going \
         down"
    )]
    NoAnswer,
    /// The root does not want this node.
    #[error("the Machine Manager refuses this node: {0}")]
    Refused(Refusal),
}

impl JoinError {
    /// The cause alone, if there is one.
    pub(crate) fn why(&self) -> String {
        self.source().map_or_else(|| self.to_string(), ToString::to_string)
    }
}

impl From<SessionError> for JoinError {
    fn from(error: SessionError) -> JoinError {
        match error {
            SessionError::Io(error) => JoinError::Io(error),
            // A root that shuts down closes the session, too.
            SessionError::Closed => JoinError::NoAnswer,
            error => JoinError::Session(error),
        }
    }
}

impl Refusal {
    /// Refusals for the same reason are logged together.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Refusal::Version { .. } => "version",
            Refusal::KeyNeeded { .. } => "key needed",
            Refusal::Layout { .. } => "layout",
            Refusal::Cluster { .. } => "cluster",
            Refusal::Fabric { .. } => "fabric",
            Refusal::UnknownName { .. } => "unknown name",
            Refusal::NameInUse { .. } => "name in use",
            Refusal::Full { .. } => "full",
        }
    }
}

impl Refusal {
    /// Advice to the operator of a node that keeps trying.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Refusal::Version { .. } | Refusal::Layout { .. } => {
                "the manager and the node are of different versions of storm: use one"
            }
            Refusal::KeyNeeded { .. } => "give the node the cluster's key",
            Refusal::Cluster { .. } => {
                "`cluster` in the configuration, or --cluster, names another cluster"
            }
            Refusal::Fabric { .. } => "use one --backend for the manager and the nodes",
            Refusal::UnknownName { .. } => {
                "add it to [[nodes]] of the manager's configuration, or end this node manager"
            }
            Refusal::NameInUse { .. } => "end the other one, or give this one another --name",
            Refusal::Full { .. } => "make room for more nodes",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Version { root, node } => {
                write!(f, "the manager speaks version {root} of the protocol, the node {node}")
            }
            Refusal::KeyNeeded { key } => {
                write!(f, "the cluster has a key ({key}), and this node shows none")
            }
            Refusal::Layout { root, node, .. } => {
                write!(f, "the manager's plan of global memory is {root}, the node's {node}")
            }
            Refusal::Cluster { root, node } => {
                write!(f, "the manager is of cluster {root:?}, the node of {node:?}")
            }
            Refusal::Fabric { root, node } => {
                write!(f, "the lanes of the manager's cluster are on {root}, the node's on {node}")
            }
            Refusal::UnknownName { name } => {
                write!(f, "{name:?} is not in the manager's configuration")
            }
            Refusal::NameInUse { name, .. } => {
                write!(f, "another node named {name:?} is in the cluster")
            }
            Refusal::Full { max_nodes } => write!(f, "there are {max_nodes} nodes already"),
        }
    }
}
