//! A simulated cluster with a small plan, and a limit on virtual time.

use std::future::Future;
use std::time::Duration;
use storm_primitives::sim::{NetworkConfig, SimNetwork, SimPrimitives, Simulation};
use storm_primitives::{Layout, NodeId, NodeSet, Primitives, Runtime, Task};
use storm_rm::{GlobalPlan, PlanConfig};

/// Virtual time after which a scenario is considered to hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// The management node and some compute nodes in memory.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) simulation: Simulation,
    pub(crate) network: SimNetwork,
    nodes: u32,
}

impl Cluster {
    pub(crate) fn new(seed: u64, nodes: u32, layout: &Layout) -> Cluster {
        Cluster::with_network(seed, nodes, layout, NetworkConfig::default())
    }

    pub(crate) fn with_network(
        seed: u64,
        nodes: u32,
        layout: &Layout,
        config: NetworkConfig,
    ) -> Cluster {
        let simulation = Simulation::new(seed);
        let network = SimNetwork::new(&simulation, nodes, layout, config);
        Cluster { simulation, network, nodes }
    }

    pub(crate) fn mm(&self) -> SimPrimitives {
        self.node(0)
    }

    pub(crate) fn node(&self, node: u32) -> SimPrimitives {
        self.network.node(NodeId(node))
    }

    /// All compute nodes.
    pub(crate) fn compute(&self) -> NodeSet {
        NodeSet::compute(self.nodes)
    }

    pub(crate) fn kill(&self, node: NodeId) {
        self.network.kill(node);
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.simulation.random_below(bound)
    }

    /// A random non-empty subset of the compute nodes.
    pub(crate) fn some_nodes(&self) -> NodeSet {
        let mut set: NodeSet = self.compute().iter().filter(|_| self.below(2) == 0).collect();
        set.insert(NodeId(1 + self.below(u64::from(self.nodes)) as u32));
        set
    }

    /// A random pause on `node`.
    pub(crate) async fn pause(&self, node: &SimPrimitives, longest: Duration) {
        let nanos = self.below(longest.as_nanos() as u64 + 1);
        node.runtime().sleep(Duration::from_nanos(nanos)).await;
    }

    /// Runs `scenario` to its end.
    ///
    /// # Panics
    /// When it hangs: nothing can run, or virtual time runs out.
    pub(crate) fn run<T: 'static>(&self, scenario: impl Future<Output = T> + 'static) -> T {
        let runtime = self.simulation.runtime();
        let limited = async move { runtime.timeout(PATIENCE, scenario).await };
        self.simulation.run(limited).expect("no deadlock").expect("the scenario hangs")
    }

    /// The same for a scenario that may hang.
    pub(crate) fn run_for<T: 'static>(
        &self,
        limit: Duration,
        scenario: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let runtime = self.simulation.runtime();
        self.simulation.run(async move { runtime.timeout(limit, scenario).await }).ok().flatten()
    }
}

/// Runs `future` on `node`, to die with it.
pub(crate) fn spawn_on(node: &SimPrimitives, future: impl Future<Output = ()> + 'static) -> Task {
    node.runtime().spawn(future)
}

/// A plan that fits many simulated nodes.
pub(crate) fn small_plan(max_nodes: u32) -> GlobalPlan {
    GlobalPlan::new(PlanConfig {
        max_nodes,
        job_slots: 4,
        heartbeat_slots: 4,
        heartbeat_bytes: 4096,
        report_slots: 2,
        report_bytes: 512,
        channels: 2,
        chunk_slots: 2,
        chunk_bytes: 64,
        ..PlanConfig::default()
    })
}
