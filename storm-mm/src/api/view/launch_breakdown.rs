//! The parts of the time of a launch (paper, section 4.4.1).

use serde::{Deserialize, Serialize};

/// The parts of one launch, in milliseconds. The parts overlap (chunks are
/// written while others are sent), so they may add up to more than the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchBreakdown {
    /// Reading the files on the manager's host (the paper's T-read).
    pub read_ms: f64,
    /// Multicasting them to the nodes (the paper's T-transfer).
    pub send_ms: f64,
    /// Until every node had written them, after the last chunk was sent.
    pub write_ms: f64,
    /// From LAUNCH-JOB until every rank was executing (the paper's T-exec).
    pub exec_ms: f64,
    /// Waiting for a slice edge.
    pub wait_for_slice_ms: f64,
    /// From the decision to start the job until every rank was executing.
    pub total_ms: f64,
    /// Bytes that were sent; each byte counts once, whatever the number of nodes.
    pub sent_bytes: u64,
    /// Bytes that were not sent because every node had them.
    pub skipped_bytes: u64,
}
