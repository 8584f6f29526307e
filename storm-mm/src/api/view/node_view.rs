//! A node in a listing.

use serde::{Deserialize, Serialize};
use std::fmt;
use storm_primitives::NodeId;
use storm_rm::JobId;

/// One line of `storm nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its number in the cluster.
    pub id: NodeId,
    /// Its name in the configuration.
    pub name: String,
    /// Its state.
    pub state: NodeState,
    /// Why it is in this state, when that needs saying.
    pub reason: Option<String>,
    /// The reservation that has it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The partitions that it belongs to.
    pub partitions: Vec<String>,
    /// Processing elements.
    pub pes: u32,
    /// Processing elements that a job has in some row.
    pub pes_used: u32,
    /// Its features.
    #[serde(default)]
    pub features: Vec<String>,
    /// Memory that jobs may have in bytes, where that is counted.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Memory that its jobs requested, in bytes.
    #[serde(default)]
    pub memory_held_bytes: u64,
    /// Jobs that have ranks on it.
    pub jobs: Vec<JobId>,
    /// Host name, once it has joined.
    pub hostname: Option<String>,
    /// The address that ranks of other nodes reach it by.
    pub address: Option<String>,
    /// Memory of the host in MiB.
    pub memory_mib: Option<u64>,
    /// Memory available in MiB, at the latest report.
    pub memory_available_mib: Option<u64>,
    /// One-minute load average times 100, at the latest report.
    pub load_percent: Option<u32>,
    /// Version of its Node Manager.
    pub version: Option<String>,
    /// How jobs are switched and started there, and what is not permitted.
    pub capabilities: Vec<String>,
}

/// The state of a node, in Slurm's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeState {
    /// The node runs nothing.
    Idle,
    /// The node runs nothing, and is kept for the jobs of a reservation that has begun.
    Reserved,
    /// Some of its processing elements hold ranks.
    Mixed,
    /// All of its processing elements hold ranks.
    Allocated,
    /// An administrator has it take no further jobs, and it still has some.
    Draining,
    /// An administrator has it take no further jobs, and it has none.
    Drained,
    /// The node was up, and no longer answers.
    Down,
    /// The node has not joined yet.
    Unknown,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NodeState::Idle => "IDLE",
            NodeState::Reserved => "RESERVED",
            NodeState::Mixed => "MIXED",
            NodeState::Allocated => "ALLOCATED",
            NodeState::Draining => "DRAINING",
            NodeState::Drained => "DRAINED",
            NodeState::Down => "DOWN",
            NodeState::Unknown => "UNKNOWN",
        })
    }
}
