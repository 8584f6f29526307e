//! The interface through which a backend is tested: clusters of agents, and ways to hurt
//! their nodes.

use super::{Command, Plan, Reply, RunError};
use crate::{Layout, NodeId, NodeSet, Runtime};
use std::future::Future;
use std::time::Duration;
use thiserror::Error;

/// Starts clusters of one backend.
pub trait Factory {
    /// The clusters it starts.
    type Cluster: Cluster;

    /// The faults that this factory can inject besides killing nodes.
    fn capabilities(&self) -> Capabilities;

    /// How long the suite waits for anything that must happen, on the cluster's clock, including
    /// the detection of a dead or frozen node. Only a failing case waits that long.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Starts the cluster of `spec`, runs `body` on it to the end and stops the cluster. When
    /// `body` is called, all nodes have joined.
    ///
    /// # Errors
    /// [`RunError`] if the cluster does not start, or fails before `body` has ended.
    fn run<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(Self::Cluster) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static;
}

/// The cluster that a case needs.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Number of compute nodes; the management node is not counted.
    pub compute_nodes: u32,
    /// The seed of all randomness in the backend or its adapter.
    pub seed: u64,
}

impl ClusterSpec {
    /// The layout of global memory, the same for every case.
    pub fn layout() -> Layout {
        Plan::new().layout().clone()
    }

    /// All nodes, the management node included.
    pub fn nodes(&self) -> NodeSet {
        NodeSet::range(NodeId::MM, NodeId(self.compute_nodes))
    }
}

/// The faults that a factory's clusters can inject besides killing nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Cluster::arm_kill`] works. Without it the suite kills after delays.
    pub arm_kill: bool,
    /// [`Cluster::freeze`] and [`Cluster::thaw`] work.
    pub freeze: bool,
    /// [`Cluster::rejoin`] works.
    pub rejoin: bool,
}

/// A running cluster. Dropping it stops it.
pub trait Cluster: 'static {
    /// The clock and executor of the suite. Clock and executor belong to no node and outlive all
    /// nodes.
    type Runtime: Runtime;

    /// The clock and executor of the suite.
    fn runtime(&self) -> &Self::Runtime;

    /// Makes the agent of `node` execute `command`. Commands of one node start in the order in
    /// which these futures are first polled, and run concurrently.
    ///
    /// # Errors
    /// [`NodeGone`] if the node was killed before it answered.
    fn call(&self, node: NodeId, command: Command)
    -> impl Future<Output = Result<Reply, NodeGone>>;

    /// Kills `node` at once (for a process: SIGKILL). When the call returns, the node does nothing
    /// any more; the others need not be notified yet.
    fn kill(&self, node: NodeId) -> impl Future<Output = ()>;

    /// Whether `node` was killed, by [`kill`](Self::kill) or by
    /// [`arm_kill`](Self::arm_kill).
    fn is_killed(&self, node: NodeId) -> bool;

    /// Makes `node` die by itself just before its `step`-th network step from now, counted from 0.
    /// A step is the smallest thing that the backend can distinguish: a message taken from or
    /// passed to the network.
    ///
    /// # Errors
    /// [`Unsupported`] without [`Capabilities::arm_kill`].
    fn arm_kill(&self, _node: NodeId, _step: u64) -> impl Future<Output = Result<(), Unsupported>> {
        std::future::ready(Err(Unsupported { ability: "kill a node at a step" }))
    }

    /// Makes `node` hang: it does nothing, but its connections stay (for a
    /// process: SIGSTOP).
    ///
    /// # Errors
    /// [`Unsupported`] without [`Capabilities::freeze`].
    fn freeze(&self, _node: NodeId) -> impl Future<Output = Result<(), Unsupported>> {
        std::future::ready(Err(Unsupported { ability: "freeze a node" }))
    }

    /// Lets a frozen node continue.
    ///
    /// # Errors
    /// [`Unsupported`] without [`Capabilities::freeze`].
    fn thaw(&self, _node: NodeId) -> impl Future<Output = Result<(), Unsupported>> {
        std::future::ready(Err(Unsupported { ability: "thaw a node" }))
    }

    /// Starts a killed node again as a new incarnation. Completes when the node has joined.
    ///
    /// # Errors
    /// [`Unsupported`] without [`Capabilities::rejoin`].
    fn rejoin(&self, _node: NodeId) -> impl Future<Output = Result<(), Unsupported>> {
        std::future::ready(Err(Unsupported { ability: "start a node again" }))
    }
}

/// The node was killed before it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the node is gone")]
pub struct NodeGone;

/// The cluster cannot do this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this cluster cannot {ability}")]
pub struct Unsupported {
    /// The requested ability.
    pub ability: &'static str,
}
