//! The nodes that a job requires or excludes by name (Slurm `--nodelist` and `--exclude`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Node;

/// The nodes that a job names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChoice {
    /// The job runs on all of these, and perhaps on others.
    pub required: BTreeSet<String>,
    /// The job runs on none of these.
    pub excluded: BTreeSet<String>,
}

impl NodeChoice {
    /// Whether no node is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.excluded.is_empty()
    }

    /// Whether the job must run on a node.
    #[must_use]
    pub fn requires(&self, node: &Node) -> bool {
        self.required.contains(node.name())
    }

    /// Whether a job on `nodes` nodes, or any number, may run on a node. If the required nodes are
    /// as many, the job has no other.
    #[must_use]
    pub fn allows(&self, node: &Node, nodes: Option<u32>) -> bool {
        if self.excluded.contains(node.name()) {
            return false;
        }
        let all_named = nodes.is_some_and(|nodes| u32::try_from(self.required.len()) == Ok(nodes));
        !all_named || self.requires(node)
    }
}
