//! The ranks that a node has of a job.

use crate::Rank;
use serde::{Deserialize, Serialize};
use storm_primitives::NodeId;

/// The consecutive ranks of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRanks {
    /// The node.
    pub node: NodeId,
    /// Its first rank.
    pub first: Rank,
    /// How many ranks it has.
    pub count: u32,
}

impl NodeRanks {
    /// Whether the rank is one of the node's.
    pub fn has(&self, rank: Rank) -> bool {
        rank.0.checked_sub(self.first.0).is_some_and(|index| index < self.count)
    }
}
