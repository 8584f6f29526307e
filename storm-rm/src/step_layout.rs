//! Where in its job's place the processes of a step may run.

use serde::{Deserialize, Serialize};

/// The wishes of a step about the nodes of its place. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepLayout {
    /// The most processes on a node.
    pub per_node: Option<u32>,
    /// More processes than elements may share the elements of the nodes (`srun --overcommit`).
    pub overcommit: bool,
    /// Nodes that get at least one process, folded: `n[1-4]`.
    pub required: Option<String>,
    /// Nodes that get none, folded.
    pub excluded: Option<String>,
}
