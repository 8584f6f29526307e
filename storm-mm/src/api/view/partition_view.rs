//! A partition in a listing.

use serde::{Deserialize, Serialize};

/// Nodes under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionView {
    /// Its name.
    pub name: String,
    /// Its policy.
    pub sched: String,
    /// The policy that takes over as soon as it has room for the jobs that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_sched: Option<String>,
    /// The configured policy, where another was set at run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_sched: Option<String>,
    /// The configured quantum in microseconds, where another was set at run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_quantum_us: Option<u64>,
    /// A warning to the partition's users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Jobs that name neither partition nor policy go there.
    pub default: bool,
    /// Its nodes, folded.
    pub node_list: String,
    /// Number of nodes.
    pub nodes: u32,
    /// How many of them are up.
    pub nodes_up: u32,
    /// How many of them are drained.
    #[serde(default)]
    pub nodes_drained: u32,
    /// Processing elements of all its nodes.
    pub pes: u32,
    /// Quantum in microseconds, where the policy shares time.
    pub quantum_us: Option<u64>,
    /// Length in microseconds of the slices in which its jobs communicate, if the partition has
    /// such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_us: Option<u64>,
    /// The number of the last of these slices that ended with no message on the way. At its end the
    /// nodes' memories alone were the state of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// Rows of its matrix that hold jobs.
    pub rows_used: u32,
    /// Rows that its matrix may have.
    pub rows_max: u32,
    /// Jobs running in it.
    pub jobs_running: u32,
    /// Jobs waiting for it.
    pub jobs_pending: u32,
}
