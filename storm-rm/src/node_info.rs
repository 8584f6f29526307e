//! What nodes say of themselves.

use serde::{Deserialize, Serialize};

/// What a node says of itself when it joins.
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
    /// The only user that it can run jobs for; any when it is privileged.
    pub only_uid: Option<u32>,
    /// How its jobs go on when its Node Manager ends; they end with it if `None`.
    pub returns: Option<NodeReturn>,
}

/// For how long a node is worth waiting for whose Node Manager has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReturn {
    /// Its keeper keeps jobs for so long.
    pub within_ms: u64,
    /// Jobs that asked to be queued again it keeps for so long.
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
