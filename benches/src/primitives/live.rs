//! The primitives on a real network: each node is a process, this program started again.

use super::{Figure, Plan, Work, measure};
use anyhow::{Context, Result};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use storm_backend_tcp::fabric::Fabric;
use storm_backend_tcp::{NameTable, Node, NodeConfig, Root, RootConfig};
use storm_backend_verbs::{Multicast, VerbsConfig, VerbsFabric};
use storm_primitives::Primitives;

/// The root's address, in the environment of a node's process.
const ROOT_VARIABLE: &str = "STORM_BENCH_ROOT";
/// The network, in the environment of a node's process.
const NETWORK_VARIABLE: &str = "STORM_BENCH_NETWORK";

/// The network under the tree.
#[derive(Clone, Copy, Debug)]
pub enum Network {
    /// TCP.
    Tcp,
    /// RDMA, with this polling before going to sleep.
    Verbs {
        /// How long to poll.
        spin: Duration,
        /// How the root sends data for all; a node follows its parent.
        multicast: Option<Multicast>,
    },
}

/// Serves as a node if this process is one.
///
/// # Errors
/// If it cannot join.
pub fn serve_if_node() -> Result<bool> {
    let (Ok(root), Ok(spin_us)) = (std::env::var(ROOT_VARIABLE), std::env::var(NETWORK_VARIABLE))
    else {
        return Ok(false);
    };
    let network = match spin_us.parse() {
        Ok(us) => Network::Verbs { spin: Duration::from_micros(us), multicast: None },
        Err(_) => Network::Tcp,
    };
    let root: SocketAddr = root.parse()?;
    block_on(async move {
        let name = format!("pid{}", std::process::id());
        let mut config = NodeConfig::new(root, name, loopback(), Plan::new().layout);
        config.fabric = open(network)?;
        // Data is copied as between hosts: references to memory would be faster than a network.
        config.by_reference = false;
        Node::join(config).await?.closed().await;
        Ok(true)
    })
}

/// Measures on a cluster of processes of this host.
///
/// # Errors
/// If they cannot be started, or an operation fails.
pub fn run(network: Network, fan_out: u32, work: &Work) -> Result<Vec<Figure>> {
    let nodes = work.nodes.iter().copied().max().unwrap_or(0);
    block_on(async move {
        let plan = Plan::new();
        let mut config = RootConfig::new(loopback(), plan.layout.clone(), NameTable::open(nodes));
        config.fanout = fan_out;
        config.fabric = open(network)?;
        let root = Root::bind(config).context("no place to listen")?;
        let handle = root.handle();
        let start = || spawn(root.local_addr(), network);
        let processes = Processes((0..nodes).map(|_| start()).collect::<Result<_>>()?);
        let membership = handle.membership();
        while membership.alive().len() <= nodes as usize {
            membership.changed(membership.epoch()).await;
        }
        let figures = measure(&handle, &plan, work).await?;
        drop(processes);
        Ok(figures)
    })
}

pub(super) fn block_on<T>(body: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

fn open(network: Network) -> Result<Option<Rc<dyn Fabric>>> {
    match network {
        Network::Tcp => Ok(None),
        Network::Verbs { spin, multicast } => Ok(Some(verbs(spin, multicast)?)),
    }
}

pub(super) fn verbs(spin: Duration, multicast: Option<Multicast>) -> Result<Rc<dyn Fabric>> {
    let config = VerbsConfig { spin, multicast, ..VerbsConfig::default() };
    Ok(Rc::new(VerbsFabric::open(config)?))
}

fn spawn(root: SocketAddr, network: Network) -> Result<Child> {
    let network = match network {
        Network::Tcp => String::from("tcp"),
        Network::Verbs { spin, .. } => spin.as_micros().to_string(),
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.env(ROOT_VARIABLE, root.to_string()).env(NETWORK_VARIABLE, network);
    command.stdin(Stdio::null()).spawn().context("a node cannot be started")
}

fn loopback() -> SocketAddr {
    SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 0)
}

/// The nodes' processes. Dropping the value ends them.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // An error means that the process has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
