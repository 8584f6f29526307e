//! Clusters of processes with a key, on loopback like the product's local clusters, or on two
//! machines ([`machines`]). The suite's process is not a node. Each node is this test's own
//! executable, started for one test: `node_process`.

mod machines;
mod node_process;
mod remote_node;

pub(crate) use machines::serve_if_starter;
pub(crate) use node_process::{NodeProcess, SUITE_VARIABLE};

use machines::Machines;
use remote_node::RemoteNode;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use storm_backend_tcp::{ClusterKey, TcpRuntime};
use storm_primitives::NodeId;
use storm_primitives::conformance::{
    Capabilities, Cluster, ClusterSpec, Command, Factory, NodeGone, Reply, RunError, Unsupported,
};

/// Starts clusters of processes.
pub(crate) struct ProcessFactory;

/// The suite's handle of the processes of one cluster. Dropping it ends them.
pub(crate) struct ProcessCluster {
    runtime: TcpRuntime,
    machines: Machines,
    root: SocketAddr,
    key: ClusterKey,
    nodes: RefCell<BTreeMap<NodeId, Rc<RemoteNode>>>,
}

impl Factory for ProcessFactory {
    type Cluster = ProcessCluster;

    fn capabilities(&self) -> Capabilities {
        Capabilities { arm_kill: true, freeze: true, rejoin: true }
    }

    fn run<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(Self::Cluster) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(RunError::new)?;
        let compute_nodes = spec.compute_nodes;
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let cluster = ProcessCluster::start(compute_nodes).await.map_err(RunError::new)?;
            Ok(body(cluster).await)
        })
    }
}

impl ProcessCluster {
    async fn start(compute_nodes: u32) -> std::io::Result<ProcessCluster> {
        let (key, machines) = (ClusterKey::generate()?, Machines::from_env());
        let mm = RemoteNode::start(&machines, NodeId::MM, None, &key).await?;
        let root = mm.root_addr();
        // Started in the order of their ids, so that the tree is always the same.
        let mut nodes = BTreeMap::from([(NodeId::MM, Rc::new(mm))]);
        for id in (1..=compute_nodes).map(NodeId) {
            let node = RemoteNode::start(&machines, id, Some(root), &key).await?;
            nodes.insert(id, Rc::new(node));
        }
        let (runtime, nodes) = (TcpRuntime::new()?, RefCell::new(nodes));
        Ok(ProcessCluster { runtime, machines, root, key, nodes })
    }

    fn node(&self, node: NodeId) -> Option<Rc<RemoteNode>> {
        self.nodes.borrow().get(&node).cloned()
    }
}

impl Cluster for ProcessCluster {
    type Runtime = TcpRuntime;

    fn runtime(&self) -> &TcpRuntime {
        &self.runtime
    }

    async fn call(&self, node: NodeId, command: Command) -> Result<Reply, NodeGone> {
        self.node(node).ok_or(NodeGone)?.call(command).await
    }

    async fn kill(&self, node: NodeId) {
        if let Some(node) = self.node(node) {
            node.kill().await;
        }
    }

    fn is_killed(&self, node: NodeId) -> bool {
        self.node(node).is_none_or(|node| node.is_killed())
    }

    async fn arm_kill(&self, node: NodeId, step: u64) -> Result<(), Unsupported> {
        let node = self.node(node).ok_or(Unsupported { ability: "kill a stranger" })?;
        node.arm(step).await;
        Ok(())
    }

    async fn freeze(&self, node: NodeId) -> Result<(), Unsupported> {
        let node = self.node(node).ok_or(Unsupported { ability: "freeze a stranger" })?;
        node.signal(nix::sys::signal::Signal::SIGSTOP).await;
        Ok(())
    }

    async fn thaw(&self, node: NodeId) -> Result<(), Unsupported> {
        let node = self.node(node).ok_or(Unsupported { ability: "thaw a stranger" })?;
        node.signal(nix::sys::signal::Signal::SIGCONT).await;
        Ok(())
    }

    async fn rejoin(&self, node: NodeId) -> Result<(), Unsupported> {
        let started = RemoteNode::start(&self.machines, node, Some(self.root), &self.key).await;
        let started = started.map_err(|_| Unsupported { ability: "start a node again" })?;
        self.nodes.borrow_mut().insert(node, Rc::new(started));
        Ok(())
    }
}
