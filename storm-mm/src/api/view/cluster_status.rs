//! The cluster as a whole.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The answer to `storm status` and to monitoring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub cluster: String,
    /// Version of the Machine Manager.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// When it started.
    pub started: Timestamp,
    /// Seconds since then.
    pub uptime_s: u64,
    /// Nodes configured.
    pub nodes: u32,
    /// Nodes that are up.
    pub nodes_up: u32,
    /// Processing elements of all nodes.
    pub pes: u32,
    /// Jobs waiting.
    pub jobs_pending: u32,
    /// Jobs running.
    pub jobs_running: u32,
    /// Jobs submitted since the cluster was made.
    pub jobs_submitted: u64,
    /// Launches since this manager started.
    pub launches: u64,
    /// Launches that failed.
    pub launch_failures: u64,
    /// Strobes sent since this manager started.
    pub strobes: u64,
}
