//! A cluster whose nodes are processes of one host, over the TCP tree.
//!
//! Nothing is parallel there beyond the host's processors: what each node does
//! to each byte and to each process adds up, and the shape of the tree does not
//! matter. The parameters are therefore work, not delays; calibration fits them
//! to measured launches, for the processors that the host has.

use crate::{Mib, NodeCount, Sourced};
use serde::{Deserialize, Serialize};

/// Parameters of such a cluster: times per unit of work, on all of the host's
/// processors together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SharedHost {
    /// Processors of the host, for which the other values hold.
    pub processors: Sourced,
    /// Transfer of a file, or asking whether all nodes have it, whatever its size
    /// and the nodes, in ms.
    pub transfer_ms: Sourced,
    /// Transfer: each MiB once, by the manager, whatever the nodes, in ms.
    pub transfer_ms_per_mib: Sourced,
    /// Transfer: each node, whatever the size, in ms.
    pub transfer_ms_per_node: Sourced,
    /// Transfer: each MiB on each node, in ms: received, checked, written, sent on.
    pub transfer_ms_per_node_mib: Sourced,
    /// Transfer: what each node adds to that for every thousand others, in ms:
    /// they take processors and caches from each other.
    pub transfer_ms_per_node_mib_per_thousand: Sourced,
    /// The part of a transfer that the manager counts as reading, from 0 to 1:
    /// it waits for free slots there.
    pub read_share: Sourced,
    /// The part of a transfer after the last chunk was sent, from 0 to 1.
    pub write_share: Sourced,
    /// Execution, whatever the job, in ms.
    pub exec_ms: Sourced,
    /// Execution: each process, with its share of its node's work, in ms.
    pub exec_ms_per_process: Sourced,
    /// Execution: what each process adds for every thousand others, in ms.
    pub exec_ms_per_process_per_thousand: Sourced,
    /// A strobe until the first node has it, in us.
    pub message_us: Sourced,
    /// A strobe: each further node, in us.
    pub message_us_per_node: Sourced,
}

impl SharedHost {
    /// The part of a transfer that does not depend on the size, in ms.
    pub(crate) fn messages_ms(&self, nodes: NodeCount) -> f64 {
        self.transfer_ms.value + self.transfer_ms_per_node.value * nodes.as_f64()
    }

    /// The manager's work with so many bytes, in ms.
    pub(crate) fn manager_ms(&self, size: Mib) -> f64 {
        self.transfer_ms_per_mib.value * size.get()
    }

    /// The work that all nodes together have with so many bytes, in ms.
    pub(crate) fn bytes_ms(&self, nodes: NodeCount, size: Mib) -> f64 {
        let crowding = self.transfer_ms_per_node_mib_per_thousand.value * nodes.as_f64() / 1e3;
        nodes.as_f64() * size.get() * (self.transfer_ms_per_node_mib.value + crowding)
    }

    /// From LAUNCH-JOB until so many processes execute, in ms.
    pub(crate) fn exec_ms(&self, processes: f64) -> f64 {
        let crowding = self.exec_ms_per_process_per_thousand.value * processes / 1e3;
        self.exec_ms.value + processes * (self.exec_ms_per_process.value + crowding)
    }

    /// A short message to every node, in us.
    pub(crate) fn sweep_us(&self, nodes: NodeCount) -> f64 {
        self.message_us.value + self.message_us_per_node.value * (nodes.as_f64() - 1.0)
    }
}
