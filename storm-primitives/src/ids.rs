//! Identifiers of the primitives: nodes, events, addresses, epochs.
//!
//! Each identifier is a newtype, so that two integers of different meaning cannot be confused.

use crate::MAX_NODES;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A node of the cluster. `NodeId::MM` is the management node. The others are compute nodes,
/// numbered from 1 without holes when the cluster is configured.
///
/// An id from a message is checked to be below [`MAX_NODES`]: tables and sets are as long as the
/// largest id in them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(try_from = "u32")]
pub struct NodeId(pub u32);

/// The id of no node that a cluster can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no node {0}: a cluster has at most {MAX_NODES}")]
pub struct NoSuchNodeId(u32);

impl TryFrom<u32> for NodeId {
    type Error = NoSuchNodeId;

    fn try_from(id: u32) -> Result<NodeId, NoSuchNodeId> {
        if id < MAX_NODES { Ok(NodeId(id)) } else { Err(NoSuchNodeId(id)) }
    }
}

impl NodeId {
    /// The management node: it runs the Machine Manager (paper, Table 1).
    pub const MM: NodeId = NodeId(0);

    /// The id as an index into a per-node table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// An event that can be signalled and tested on one node.
///
/// Symmetric events are made by a [`Layout`](crate::Layout) and have the same id on every node.
/// Local events are made by [`EventTable::local`](crate::EventTable::local) and mean nothing on
/// other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u32);

impl EventId {
    /// The first id of local events. Smaller ids are symmetric.
    pub(crate) const FIRST_LOCAL: u32 = 1 << 31;

    /// Whether the event exists only on the node that made it.
    pub fn is_local(self) -> bool {
        self.0 >= Self::FIRST_LOCAL
    }
}

/// A byte offset in global memory: the same variable on every node (paper,
/// section 2.4.1, point 1).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct GlobalAddr(pub u64);

impl GlobalAddr {
    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> GlobalAddr {
        GlobalAddr(self.0 + bytes)
    }
}

impl fmt::Display for GlobalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A version of the cluster's membership; grows by one with every change.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Epoch(pub u64);

/// One life of a node. A node that was cut off and joins again has a higher incarnation and fresh
/// global memory.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Incarnation(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_no_cluster_has_is_refused_before_a_table_is_made_for_it() {
        for id in [0, 1, MAX_NODES - 1] {
            let bytes = postcard::to_stdvec(&NodeId(id)).expect("encodes");
            assert_eq!(postcard::from_bytes::<NodeId>(&bytes), Ok(NodeId(id)));
        }
        for id in [MAX_NODES, u32::MAX] {
            let bytes = postcard::to_stdvec(&NodeId(id)).expect("encodes");
            assert!(postcard::from_bytes::<NodeId>(&bytes).is_err(), "{id}");
        }
    }
}
