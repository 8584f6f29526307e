//! Inconsistent partitions.

use storm_rm::RowSet;
use storm_sched::{MachineError, UnknownPolicy, Unsupported};
use thiserror::Error;

/// An inconsistent partition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartitionError {
    /// Jobs need at least one partition.
    #[error("no partition is configured")]
    None,
    /// Two partitions have the same name.
    #[error("there are two partitions named {0:?}")]
    Duplicate(String),
    /// The partition names a policy that does not exist.
    #[error("partition {partition:?}")]
    Policy {
        /// The partition.
        partition: String,
        /// The existing policies.
        #[source]
        source: UnknownPolicy,
    },
    /// The partition's policy needs an ability that the manager lacks.
    #[error("partition {partition:?}")]
    Unsupported {
        /// The partition.
        partition: String,
        /// The ability, and what to do instead.
        #[source]
        source: Unsupported,
    },
    /// The partition's nodes do not form a machine.
    #[error("partition {partition:?}")]
    Machine {
        /// The partition.
        partition: String,
        /// The reason.
        #[source]
        source: MachineError,
    },
    /// A node is in two partitions.
    #[error("node {node} is in partition {first:?} and in {second:?}: one policy rules a node")]
    Overlap {
        /// The node.
        node: String,
        /// One partition.
        first: String,
        /// The other.
        second: String,
    },
    /// The partition lists a node that is not configured.
    #[error("partition {partition:?} has a node of index {index}, and there are {nodes} nodes")]
    NoSuchNode {
        /// The partition.
        partition: String,
        /// The index.
        index: usize,
        /// Nodes configured.
        nodes: usize,
    },
    /// There are more names of nodes than ids.
    #[error("there are more names of nodes, with those of the jobs in the journal, than {most}")]
    NodeIds {
        /// Ids that there are.
        most: u32,
    },
    /// Rows are named by a bit each.
    #[error(
        "partition {partition:?} allows {rows} rows; at most {} are possible",
        RowSet::MAX_ROWS
    )]
    TooManyRows {
        /// The partition.
        partition: String,
        /// The partition's multiprogramming limit.
        rows: u32,
    },
}
