//! Options of the two daemons.

use super::backend_options::{BackendOptions, RdmaMulticast};
use super::count::within;
use super::defaults;
use crate::config::{DEFAULT_CLUSTER, GivenParam, MAX_PES};
use crate::duration::parse_time;
use crate::size::parse_some_size;
use clap::{Args, ValueEnum};
use std::net::ToSocketAddrs;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Options of `storm mm`: a configured cluster, or one of local nodes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  storm mm --config /etc/storm/storm.toml
  storm mm --local-nodes 4 --pes 2 --runtime-dir /dev/shm/mine

The second form starts the Node Managers itself; `storm up` uses it.")]
pub(crate) struct MmOptions {
    /// Configuration file of the cluster
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "local_nodes",
        conflicts_with = "local_nodes"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Start this many Node Managers on this machine
    #[arg(
        long,
        value_name = "N",
        requires = "runtime_dir",
        help_heading = "Local cluster",
        allow_negative_numbers = true,
        value_parser = within::<1, 4096>
    )]
    pub(crate) local_nodes: Option<u32>,
    /// Processing elements of each local node
    #[arg(
        long,
        value_name = "P",
        default_value_t = defaults::LOCAL_PES,
        help_heading = "Local cluster",
        allow_negative_numbers = true,
        value_parser = within::<1, MAX_PES>
    )]
    pub(crate) pes: u32,
    /// Directory for the sockets, files and journal of the local cluster
    #[arg(long, value_name = "DIR", help_heading = "Local cluster")]
    pub(crate) runtime_dir: Option<PathBuf>,
    #[arg(
        long,
        help = super::with_policies("Policies of the local cluster, a partition each"),
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = storm_sched::DEFAULT_POLICY,
        help_heading = "Local cluster"
    )]
    pub(crate) partition_sched: Vec<String>,
    /// Time slice of the local cluster
    #[arg(
        long,
        value_name = "TIME",
        default_value = defaults::QUANTUM.as_str(),
        value_parser = parse_time,
        help_heading = "Local cluster"
    )]
    pub(crate) quantum: Duration,
    /// Setting of the local cluster's policies, by its name in `params` of a partition
    #[arg(
        long = "param",
        value_name = "NAME=VALUE",
        help_heading = "Local cluster",
        conflicts_with = "config",
        value_parser = GivenParam::from_str
    )]
    pub(crate) params: Vec<GivenParam>,
    /// End the cluster and remove its directory at end of file on this descriptor, unless a byte
    /// comes first
    #[arg(long, value_name = "FD", help_heading = "Local cluster")]
    pub(crate) lifeline_fd: Option<RawFd>,
    /// Write one JSON line here when every node has joined or the start has failed
    #[arg(long, value_name = "FD", help_heading = "Local cluster")]
    pub(crate) ready_fd: Option<RawFd>,
    #[command(flatten)]
    pub(crate) network: BackendOptions,
    /// For verbs: send files to all nodes at once, where the network carries multicast
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        env = "STORM_RDMA_MULTICAST",
        hide_env_values = true,
        help_heading = "Network"
    )]
    pub(crate) rdma_multicast: RdmaMulticast,
}

/// Options of `storm nm`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  storm nm --mm head:7117 --name n1 --pes 16 --key /etc/storm/cluster.key")]
pub(crate) struct NmOptions {
    /// Address of the Machine Manager
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) mm: NodeAddress,
    /// Name of this node in the cluster's configuration
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Processing elements to offer [default: the processors that it may use]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = within::<1, MAX_PES>)]
    pub(crate) pes: Option<u32>,
    /// Where this node makes a directory of its own, storm-nm-UID-NAME, for its jobs' files; should
    /// allow execution and lie in memory [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
    /// Most bytes of jobs' files kept there for the next job, as 4GiB [default: half of what the
    /// file system has left, at most 2GiB]
    #[arg(long, value_name = "SIZE", env = "STORM_CACHE_BYTES", hide_env_values = true,
          value_parser = parse_some_size)]
    pub(crate) cache_bytes: Option<u64>,
    /// Address to listen on for other nodes [default: the one that reaches the Machine Manager]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<NodeAddress>,
    /// How long to try to join at the start; later, the node waits for
    /// a lost Machine Manager to return
    #[arg(long, value_name = "TIME", default_value = defaults::JOIN_TIMEOUT.as_str(), value_parser = parse_time)]
    pub(crate) join_timeout: Duration,
    /// Name of the cluster, as on the Machine Manager
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CLUSTER, conflicts_with = "config",
          value_parser = name)]
    pub(crate) cluster: String,
    /// The manager's configuration file, for its [timeouts], [flexible], cache-bytes and keys; the
    /// sizes of [network] come from the manager
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// File with the cluster's key; required if other hosts take part
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// File with the former key, while the key is being replaced
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) previous_key: Option<PathBuf>,
    /// Where the Machine Manager listens for users of other hosts; users of this host reach it
    /// through this node, each as themselves [default: as the Machine Manager says]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) clients: Option<NodeAddress>,
    /// Where users of this host reach the Machine Manager: mm.sock in this node's own directory,
    /// and /run/storm/mm.sock too [default: system if root runs this node and the manager is on
    /// another host, else own]
    #[arg(long, value_enum, value_name = "WHERE")]
    pub(crate) relay: Option<RelayAt>,
    /// End when the Machine Manager is gone, instead of waiting for its return
    #[arg(long)]
    pub(crate) once: bool,
    /// PID of the process that started this one: when it ends, this process ends too
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) parent: Option<i32>,
    /// Under the policy pb: how often to boost ranks that wait for a message which has arrived;
    /// at least 1ms
    #[arg(long, value_name = "TIME", env = "STORM_BOOST_PERIOD", hide_env_values = true,
          default_value = defaults::BOOST_PERIOD.as_str(), value_parser = parse_time)]
    pub(crate) boost_period: Duration,
    /// Write the times of the last switches to DIR/NAME.csv at the end
    #[arg(long, value_name = "DIR", env = "STORM_SWITCH_LOG", hide_env_values = true)]
    pub(crate) switch_log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) network: BackendOptions,
}

/// Where a node lets in the users of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RelayAt {
    /// nowhere
    None,
    /// in the node's own directory
    Own,
    /// there, and at the path of a system-wide manager
    System,
}

/// Options of `storm relay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  storm relay --manager head:7118 --key /etc/storm/door.key

`storm key door` makes the key on a host that has the cluster's. With it, users of this
host reach the manager as themselves; root and administrators need keys of their own.")]
pub(crate) struct RelayOptions {
    /// Where the Machine Manager listens for users of other hosts; may be given several times: the
    /// first that proves itself counts, the last good one first
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) manager: Vec<NodeAddress>,
    /// File with the door key of this host
    #[arg(long, value_name = "FILE", default_value = defaults::DOOR_KEY)]
    pub(crate) key: PathBuf,
    /// Where users of this host connect
    #[arg(long, value_name = "PATH", default_value = crate::target::SYSTEM_SOCKET)]
    pub(crate) socket: PathBuf,
}

/// Not a name for a cluster or a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", storm_pl::NAME_RULE)]
struct NotAName;

/// A name by the rule that the manager's configuration follows as well.
fn name(text: &str) -> Result<String, NotAName> {
    if storm_pl::is_name(text) { Ok(text.to_owned()) } else { Err(NotAName) }
}

/// A host, by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddress(String);

impl NodeAddress {
    /// The text as written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The first address that the name resolves to.
    pub(crate) fn resolve(&self) -> std::io::Result<std::net::SocketAddr> {
        self.0.to_socket_addrs()?.next().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

/// Not a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "HOST:PORT is expected, as head:7118 or [::1]:7118; the default port of a manager is 7118 for \
     users and 7117 for nodes"
)]
pub(crate) struct NotAnAddress;

impl FromStr for NodeAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<NodeAddress, NotAnAddress> {
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(NodeAddress(text.to_owned()))
            }
            _ => Err(NotAnAddress),
        }
    }
}
