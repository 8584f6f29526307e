//! Identifiers of the primitives: nodes, events, addresses, epochs.
//!
//! Each is a newtype so that no two integers of different meaning can be
//! exchanged by mistake. They carry no behaviour.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A node of the cluster. `NodeId::MM` is the management node, the others are
/// compute nodes, numbered from 1 without holes when the cluster is configured.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct NodeId(pub u32);

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
/// Symmetric events come from a [`Layout`](crate::Layout) and have the same id
/// on every node; local events come from
/// [`EventTable::local`](crate::EventTable::local) and mean nothing elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u32);

impl EventId {
    /// Ids from here on are local to one node.
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

/// One life of a node: a node that is cut off and joins again comes back with a
/// higher incarnation and fresh global memory.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct Incarnation(pub u64);
