//! The network of a daemon.

use crate::duration::parse_time;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// Options of both daemons. Their environment variables reach the Node Managers of local clusters.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct BackendOptions {
    /// Network for operations and files between nodes; the same on all nodes
    #[arg(long, value_enum, default_value = "tcp", env = "STORM_BACKEND", hide_env_values = true)]
    pub(crate) backend: Backend,
    /// RDMA device for verbs [default: the first with an active port]
    #[arg(long, value_name = "DEVICE", env = "STORM_RDMA_DEVICE", hide_env_values = true)]
    pub(crate) rdma_device: Option<String>,
    /// For verbs: poll for completions this long before sleeping [default: not at all]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_time,
        env = "STORM_RDMA_SPIN",
        hide_env_values = true
    )]
    pub(crate) rdma_spin: Option<Duration>,
}

/// The network that carries the lanes of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// TCP connections
    Tcp,
    /// RDMA queue pairs, on InfiniBand or RoCE
    Verbs,
    /// Verbs where the host has a device that works, else TCP; a node follows its manager to TCP
    Auto,
}

/// For the manager on verbs: how large transfers reach many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RdmaMulticast {
    /// Once, by multicast, if at least two nodes next to the manager receive it
    Auto,
    /// Down the tree
    Off,
    /// As auto, even if only one node receives it
    On,
}
