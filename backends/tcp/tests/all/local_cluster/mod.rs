//! Clusters in one process and one thread, over loopback sockets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use storm_backend_tcp::{NameTable, Node, NodeConfig, Root, RootConfig, TcpPrimitives, Trust};
use storm_primitives::conformance::{
    Capabilities, ClusterSpec, Factory, LocalCluster, NodeControl, RunError, Unsupported,
};
use storm_primitives::{NodeId, Primitives};

/// Starts local clusters.
pub(crate) struct LocalFactory {
    /// The key of all members.
    pub(crate) trust: Option<Trust>,
    /// See [`NodeConfig`].
    pub(crate) by_reference: bool,
}

/// Kills and restarts nodes of one cluster.
#[derive(Clone)]
pub(crate) struct Control {
    root: Rc<Root>,
    trust: Option<Trust>,
    by_reference: bool,
    nodes: Rc<RefCell<BTreeMap<NodeId, TcpPrimitives>>>,
}

impl Factory for LocalFactory {
    type Cluster = LocalCluster<TcpPrimitives, Control>;

    fn capabilities(&self) -> Capabilities {
        Capabilities { arm_kill: false, freeze: false, rejoin: true }
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
        let (trust, by_reference) = (self.trust.clone(), self.by_reference);
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let names = NameTable::fixed((1..=compute_nodes).map(name));
            let mut config = RootConfig::new(loopback(), ClusterSpec::layout(), names);
            // Deep enough to have inner nodes below inner nodes.
            config.fanout = 2;
            config.trust.clone_from(&trust);
            let root = Root::bind(config).map_err(RunError::new)?;
            let control =
                Control { root: Rc::new(root), trust, by_reference, nodes: Rc::default() };
            for id in 1..=compute_nodes {
                control.start(id).await.map_err(RunError::new)?;
            }
            control.nodes.borrow_mut().insert(NodeId::MM, control.root.handle());
            let handles: Vec<TcpPrimitives> = control.nodes.borrow().values().cloned().collect();
            let suite = handles[0].runtime().clone();
            Ok(body(LocalCluster::new(suite, handles, control)).await)
        })
    }
}

impl Control {
    async fn start(&self, id: u32) -> Result<TcpPrimitives, storm_backend_tcp::JoinError> {
        let root = self.root.local_addr();
        let mut config = NodeConfig::new(root, name(id), loopback(), ClusterSpec::layout());
        config.trust.clone_from(&self.trust);
        config.by_reference = self.by_reference;
        let handle = Node::join(config).await?;
        self.nodes.borrow_mut().insert(NodeId(id), handle.clone());
        Ok(handle)
    }
}

impl NodeControl<TcpPrimitives> for Control {
    fn kill(&self, node: NodeId) {
        if let Some(handle) = self.nodes.borrow().get(&node) {
            handle.shut_down();
        }
    }

    async fn rejoin(&self, node: NodeId) -> Result<TcpPrimitives, Unsupported> {
        self.start(node.0).await.map_err(|_| Unsupported { ability: "start a node again" })
    }
}

fn name(id: u32) -> String {
    format!("host{id}")
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
