//! The demands of a job on its nodes besides room for its ranks.
//!
//! The demands travel from the command line to the Machine Manager, which chooses the nodes by
//! them. The Node Managers receive them and hold the job to them.

use serde::{Deserialize, Serialize};

/// The demands of a job on its nodes. By default there are no demands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Processing elements of each rank, all on one node, at least 1.
    pub cpus_per_task: u32,
    /// The most ranks on a node.
    pub tasks_per_node: Option<u32>,
    /// Memory.
    pub memory: Memory,
    /// No other job has processing elements of its nodes in its row.
    pub exclusive: bool,
    /// The features that its nodes must have: `gpu&fast|big`.
    pub constraint: Option<String>,
    /// The most nodes, if [`JobSpec::nodes`](crate::JobSpec::nodes) is the least number.
    pub nodes_max: Option<u32>,
    /// Nodes that it must have, folded: `n[1-4]`.
    pub required_nodes: Option<String>,
    /// Nodes that it must not have, folded.
    pub excluded_nodes: Option<String>,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources {
            cpus_per_task: 1,
            tasks_per_node: None,
            memory: Memory::Unstated,
            exclusive: false,
            constraint: None,
            nodes_max: None,
            required_nodes: None,
            excluded_nodes: None,
        }
    }
}

/// The least memory that a job can request, in bytes: a process needs as much to start.
pub const LEAST_MEMORY_BYTES: u64 = 1 << 20;

/// The memory that a job requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// No demand and no limit.
    #[default]
    Unstated,
    /// Bytes on each node.
    PerNode(u64),
    /// Bytes for each processing element.
    PerCpu(u64),
    /// All memory that each node has.
    WholeNode,
}

impl Resources {
    /// The most memory in bytes that a job may take on a node where it has this many ranks. `None`
    /// if there is no bound.
    pub fn memory_limit_bytes(&self, ranks: u32) -> Option<u64> {
        match self.memory {
            Memory::Unstated | Memory::WholeNode => None,
            Memory::PerNode(bytes) => Some(bytes),
            Memory::PerCpu(bytes) => {
                let cpus = u64::from(ranks) * u64::from(self.cpus_per_task);
                Some(bytes.saturating_mul(cpus))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_holds_a_job_to_its_share() {
        let asked = |memory| Resources { memory, cpus_per_task: 2, ..Resources::default() };
        assert_eq!(asked(Memory::PerNode(7)).memory_limit_bytes(3), Some(7));
        assert_eq!(asked(Memory::PerCpu(7)).memory_limit_bytes(3), Some(42));
        assert_eq!(asked(Memory::PerCpu(u64::MAX)).memory_limit_bytes(3), Some(u64::MAX));
        assert_eq!(asked(Memory::Unstated).memory_limit_bytes(3), None);
        assert_eq!(asked(Memory::WholeNode).memory_limit_bytes(3), None);
    }
}
