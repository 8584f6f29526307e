//! Errors of a primitive, as seen by the node that issued it.

use crate::{EventId, GlobalAddr, NodeSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason why a primitive did not do its work, or why its outcome is unknown.
///
/// [`Disconnected`](Self::Disconnected) promises nothing about the effect. After every other error,
/// no surviving node has seen or will see any effect of the operation.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum PrimitiveError {
    /// Nodes of the set were dead when the operation was placed in the order, or died before it
    /// could take effect. It has no effect while its data is staged, or before all nodes have
    /// answered its comparison.
    #[error("{nodes} not reachable: dead, cut off, or not joined")]
    NodesDead {
        /// Exactly the nodes of the set that were dead then.
        nodes: NodeSet,
    },
    /// Some node of the set did not answer in the backend's time limit, and the backend cannot name
    /// this node. The fault injector returns this without such a node.
    #[error("some of {nodes} did not answer within the time limit")]
    TimedOut {
        /// The set of the operation.
        nodes: NodeSet,
    },
    /// The issuing node itself is no longer part of the cluster. An operation that was placed
    /// completes on the others, unless the management node has died; an operation that was not
    /// placed has no effect.
    #[error("this node is cut off from the cluster")]
    Disconnected,
    /// The operation names memory outside the layout.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// The variable is not aligned to its eight-byte word.
    #[error("address {addr} is not aligned to a variable")]
    Misaligned {
        /// The address named.
        addr: GlobalAddr,
    },
    /// The event named for the remote side is not in the layout, or a task waits for an event that
    /// does not exist (any more).
    #[error("event {event:?} is not in the layout")]
    UnknownEvent {
        /// The event that was named.
        event: EventId,
    },
}

/// A range that does not lie in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{len} bytes at {addr} do not lie in the {size} bytes of global memory")]
pub struct OutOfBounds {
    /// First byte of the range.
    pub addr: GlobalAddr,
    /// Length of the range in bytes.
    pub len: u64,
    /// Size of global memory in bytes.
    pub size: u64,
}

/// A node list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeSetParseError {
    /// The text is not in the `n[1-4,7]` notation.
    #[error("node list {text:?} is not understood: {why}; write for example n[1-4,7]")]
    Syntax {
        /// The text that was given.
        text: String,
        /// The parser's objection.
        why: String,
    },
    /// A name that is not `n` followed by a number.
    #[error("{name:?} is not a node id; ids look like n17")]
    NotANodeId {
        /// The offending name.
        name: String,
    },
}
