//! Nodes' descriptions of themselves.

use serde::{Deserialize, Serialize};

/// The description that a node sends when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Host name.
    pub hostname: String,
    /// The address that ranks of other nodes reach it by.
    pub address: String,
    /// Processing elements offered.
    pub pes: u32,
    /// Memory of the host in MiB.
    pub memory_mib: u64,
    /// Version of the Node Manager.
    pub version: String,
    /// How jobs are switched and started here, and what is not permitted.
    pub capabilities: Vec<String>,
    /// The only user that it can run jobs for; `None` if it is privileged and can for any.
    pub only_uid: Option<u32>,
    /// How long its jobs outlive its Node Manager; `None` if they end with it.
    pub returns: Option<NodeReturn>,
}

/// How long it is worth waiting for a node whose Node Manager has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReturn {
    /// How long its keeper keeps jobs.
    pub within_ms: u64,
    /// How long its keeper keeps jobs that are to be queued again.
    pub leased_within_ms: u64,
}

/// Load of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// One-minute load average times 100.
    pub load_percent: u32,
    /// Memory available in MiB.
    pub memory_available_mib: u64,
}
impl Eq for NodeStatus {}
