//! Which cluster a command addresses, and the size of local clusters.

use super::count::within;
use super::defaults::{EMBEDDED_NODES, LOCAL_PES, QUANTUM, with_default};
use super::{Backend, NodeAddress};
use crate::config::{GivenParam, MAX_PES};
use crate::duration::parse_time;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The cluster that a command addresses.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterOptions {
    /// Socket of the cluster's Machine Manager [env: STORM_SOCKET]
    #[arg(long, value_name = "PATH", help_heading = "Cluster")]
    pub(crate) socket: Option<PathBuf>,
    /// Machine Manager on another host, as head:7118 [env: STORM_MANAGER]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Cluster", conflicts_with = "socket")]
    pub(crate) manager: Option<NodeAddress>,
    /// Your key for --manager [env: STORM_CLIENT_KEY] [default: ~/.config/storm/client.key]
    #[arg(long, value_name = "FILE", help_heading = "Cluster", conflicts_with = "socket")]
    pub(crate) key: Option<PathBuf>,
}

/// The embedded cluster of `submit` and `run`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct EmbeddedOptions {
    #[arg(
        long,
        help = with_default("Use an embedded cluster of this many nodes", EMBEDDED_NODES),
        value_name = "N",
        help_heading = "Cluster",
        conflicts_with_all = ["socket", "manager", "key"],
        allow_negative_numbers = true,
        value_parser = within::<1, 4096>
    )]
    pub(crate) nodes: Option<u32>,
    #[arg(
        long,
        help = with_default(
            "Use an embedded cluster with this many processing elements per node",
            LOCAL_PES
        ),
        value_name = "P",
        help_heading = "Cluster",
        conflicts_with_all = ["socket", "manager", "key"],
        allow_negative_numbers = true,
        value_parser = within::<1, MAX_PES>
    )]
    pub(crate) pes: Option<u32>,
    #[arg(
        long,
        help = with_default("Time slice of the embedded cluster, as 50ms", &*QUANTUM),
        value_name = "TIME",
        help_heading = "Cluster",
        conflicts_with_all = ["socket", "manager", "key"],
        value_parser = parse_time
    )]
    pub(crate) quantum: Option<Duration>,
    /// Setting of the embedded cluster's policy, by its name in `params` of a partition; may be
    /// repeated
    #[arg(
        long = "param",
        value_name = "NAME=VALUE",
        help_heading = "Cluster",
        conflicts_with_all = ["socket", "manager", "key"],
        value_parser = GivenParam::from_str
    )]
    pub(crate) params: Vec<GivenParam>,
}

/// Options of `up`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The cluster runs as you, in the background, until `storm down`. Every command of
yours uses it meanwhile. Several policies divide the nodes into partitions of
about the same size, each named after its policy.

Examples:
  storm up                             8 nodes of 4 processing elements
  storm up --nodes 64 --quantum 2ms
  storm up --nodes 8 --sched gang,fcfs
  storm up --sched gang --param mpl-limit=4 --param packing=best-fit")]
pub(crate) struct UpOptions {
    /// Number of nodes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        allow_negative_numbers = true,
        value_parser = within::<1, 4096>
    )]
    pub(crate) nodes: u32,
    /// Processing elements per node
    #[arg(
        long,
        value_name = "P",
        default_value_t = LOCAL_PES,
        allow_negative_numbers = true,
        value_parser = within::<1, MAX_PES>
    )]
    pub(crate) pes: u32,
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = storm_sched::DEFAULT_POLICY,
          help = super::with_policies("Scheduling policies, a partition each"))]
    pub(crate) sched: Vec<String>,
    #[arg(long, value_name = "TIME", value_parser = parse_time,
          help = with_default("Time slice of gang scheduling", &*QUANTUM))]
    pub(crate) quantum: Option<Duration>,
    /// Setting of the policies, by its name in `params` of a partition; may be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = GivenParam::from_str)]
    pub(crate) params: Vec<GivenParam>,
    /// Network for operations and files between nodes [default: STORM_BACKEND, else tcp]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
}

/// Options of `down`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
Only administrators can end a configured cluster. To stop or restart its Machine Manager
alone, send it SIGTERM: the jobs go on.

Examples:
  storm down
  storm down --socket /run/storm/mm.sock     all jobs and daemons of that cluster")]
pub(crate) struct DownOptions {
    /// End the cluster whose Machine Manager has this socket instead of the one that `up` keeps
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}
