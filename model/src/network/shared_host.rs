//! A cluster with all nodes as processes of one host, over the TCP tree.
//!
//! Only the host's processors work in parallel. The work of each node on each byte and each process
//! adds up, and the shape of the tree does not matter. The parameters are therefore work, not
//! delays. Calibration fits them to measured launches, for the processors of the host.

use crate::{Mib, NodeCount, Sourced};
use serde::{Deserialize, Serialize};

/// Parameters of a cluster on one host. They are times per unit of work, for all of the host's
/// processors together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SharedHost {
    /// Processors of the host. The other values hold for this number.
    pub processors: Sourced,
    /// The transfer of a file, or the check whether all nodes have it, for any size and number of
    /// nodes, in ms.
    pub transfer_ms: Sourced,
    /// Transfer: each MiB once, by the manager, for any number of nodes, in ms.
    pub transfer_ms_per_mib: Sourced,
    /// Transfer: each node, for any size, in ms.
    pub transfer_ms_per_node: Sourced,
    /// Transfer: each MiB on each node, in ms: received, checked, written, sent on.
    pub transfer_ms_per_node_mib: Sourced,
    /// Transfer: the increase of the preceding parameter for every thousand other nodes, in ms,
    /// because nodes compete for processors and caches.
    pub transfer_ms_per_node_mib_per_thousand: Sourced,
    /// The part of a transfer that the manager counts as reading, from 0 to 1. It includes the wait
    /// for free slots.
    pub read_share: Sourced,
    /// The part of a transfer after the last chunk was sent, from 0 to 1.
    pub write_share: Sourced,
    /// Execution of any job, in ms.
    pub exec_ms: Sourced,
    /// Execution: each process, with its share of its node's work, in ms.
    pub exec_ms_per_process: Sourced,
    /// Execution: the increase per process for every thousand others, in ms.
    pub exec_ms_per_process_per_thousand: Sourced,
    /// The time from the issue of a strobe until the first node has it, in us.
    pub message_us: Sourced,
    /// A strobe: the additional time for each further node, in us.
    pub message_us_per_node: Sourced,
}

impl SharedHost {
    /// The part of a transfer that does not depend on the size, in ms.
    pub(crate) fn messages_ms(&self, nodes: NodeCount) -> f64 {
        self.transfer_ms.value + self.transfer_ms_per_node.value * nodes.as_f64()
    }

    /// The manager's work on a file of this size, in ms.
    pub(crate) fn manager_ms(&self, size: Mib) -> f64 {
        self.transfer_ms_per_mib.value * size.get()
    }

    /// The work of all nodes together on a file of this size, in ms.
    pub(crate) fn bytes_ms(&self, nodes: NodeCount, size: Mib) -> f64 {
        let crowding = self.transfer_ms_per_node_mib_per_thousand.value * nodes.as_f64() / 1e3;
        nodes.as_f64() * size.get() * (self.transfer_ms_per_node_mib.value + crowding)
    }

    /// The time from LAUNCH-JOB until `processes` execute, in ms.
    pub(crate) fn exec_ms(&self, processes: f64) -> f64 {
        let crowding = self.exec_ms_per_process_per_thousand.value * processes / 1e3;
        self.exec_ms.value + processes * (self.exec_ms_per_process.value + crowding)
    }

    /// A short message to every node, in us.
    pub(crate) fn sweep_us(&self, nodes: NodeCount) -> f64 {
        self.message_us.value + self.message_us_per_node.value * (nodes.as_f64() - 1.0)
    }
}
