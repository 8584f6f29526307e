//! The ids of scheduling: jobs, rows, PEs (columns) and nodes.
//!
//! Node names are in [`crate::Machine`]; a policy works with indexes only.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A job. Jobs are numbered from 1 in order of submission, as long as the cluster exists. No number
/// is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// The number of a row of a partition's Ousterhout matrix. The paper calls a row a time slot. A row
/// keeps its number while any job is in it, even if other rows come and go.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Row(pub u32);

/// A processing element: a column of the Ousterhout matrix. PEs are counted from 0 over the
/// partition, node by node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Pe(pub u32);

/// The position of a node in the partition's [`crate::Machine`], from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeIndex(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Pe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
