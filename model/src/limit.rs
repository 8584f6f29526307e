//! The bottleneck of a launch or a time slice.

use serde::Serialize;
use std::fmt;

/// The term that must improve for a better result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Reading the file on the management node.
    Read,
    /// The I/O bus while it broadcasts.
    Bus,
    /// The host process that serves the NIC.
    Service,
    /// Bytes on the network.
    Bandwidth,
    /// Messages on the network, independent of their length.
    Latency,
    /// Slots of the remote queue: a chunk waits until all nodes have freed a slot.
    Slots,
    /// Writing the file on the nodes.
    Write,
    /// Processors that all nodes share.
    Processors,
    /// Starting processes.
    Exec,
    /// Waiting for the ends of slices.
    Slice,
    /// Nodes that get a strobe at different times.
    Skew,
    /// Stopping one job and resuming the next.
    Switch,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Read => "reading the file",
            Limit::Bus => "the I/O bus",
            Limit::Service => "the host process that serves the NIC",
            Limit::Bandwidth => "network bandwidth",
            Limit::Latency => "message latency",
            Limit::Slots => "slots of the remote queue",
            Limit::Write => "writing the file",
            Limit::Processors => "processors that the nodes share",
            Limit::Exec => "starting processes",
            Limit::Slice => "waiting for the ends of slices",
            Limit::Skew => "skew of the strobe",
            Limit::Switch => "switching jobs",
        })
    }
}
