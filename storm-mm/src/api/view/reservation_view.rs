//! A reservation in a listing, and the request for a reservation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Nodes that are for some users' jobs only, for some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationView {
    /// Its name.
    pub name: String,
    /// Whether the reservation has begun.
    pub active: bool,
    /// The partition of its nodes.
    pub partition: String,
    /// Its nodes, folded.
    pub node_list: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Processing elements of its nodes.
    pub pes: u32,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// The users that may use it, by name or number; empty: all users.
    pub users: Vec<String>,
    /// Its jobs that run or are being started.
    pub jobs_running: u32,
    /// Its jobs that wait.
    pub jobs_pending: u32,
}

/// Nodes that a job that waits cannot have, because they are reserved for others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedNodes {
    /// The name of the reservation.
    pub reservation: String,
    /// The nodes that the job could have otherwise, folded.
    pub node_list: String,
    /// When it begins, or began.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
}

/// A reservation to be made. Nodes are named, or counted, or counted in processing
/// elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationRequest {
    /// Its name.
    pub name: String,
    /// When it begins; at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// How long it lasts, in seconds.
    pub duration_s: u64,
    /// The named nodes, folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// The number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<u32>,
    /// The number of processing elements that the nodes must have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pes: Option<u32>,
    /// The users that may use it, by name or number; empty: all users.
    #[serde(default)]
    pub users: Vec<String>,
    /// The partition of its nodes; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
}
