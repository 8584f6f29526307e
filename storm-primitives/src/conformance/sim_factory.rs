//! Clusters of the simulator for the suite, on any fabric, with or without a
//! wrapper around each node's primitives.

use super::{Capabilities, ClusterSpec, Factory, LocalCluster, NodeControl, RunError, Unsupported};
use crate::sim::{Fabric, NetworkConfig, SimNetwork, SimPrimitives, SimRuntime, Simulation};
use crate::{NodeId, Primitives, Runtime};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// A wrapper around the primitives of each node.
pub trait Wrap: Clone + 'static {
    /// The primitives that the suite sees.
    type Wrapped: Primitives<Runtime = SimRuntime>;

    /// Wraps those of one node.
    fn wrap(&self, inner: SimPrimitives, seed: u64) -> Self::Wrapped;
}

/// No wrapper.
impl Wrap for () {
    type Wrapped = SimPrimitives;

    fn wrap(&self, inner: SimPrimitives, _seed: u64) -> SimPrimitives {
        inner
    }
}

/// Starts simulated clusters.
pub struct SimFactory<W> {
    wrap: W,
    /// Makes the fabric for a number of compute nodes.
    fabric: Rc<dyn Fn(u32) -> Rc<dyn Fabric>>,
    traced: Rc<dyn Fn(&str)>,
}

impl SimFactory<()> {
    /// Clusters on the fabrics that `fabric` makes for a number of compute nodes.
    pub fn on(fabric: impl Fn(u32) -> Rc<dyn Fabric> + 'static) -> SimFactory<()> {
        SimFactory { wrap: (), fabric: Rc::new(fabric), traced: Rc::new(|_| {}) }
    }
}

impl<W: Wrap> SimFactory<W> {
    /// Clusters with random delays, each node's primitives in `wrap`.
    pub fn around(wrap: W) -> SimFactory<W> {
        let fabric = |_| -> Rc<dyn Fabric> { Rc::new(NetworkConfig::default()) };
        SimFactory { wrap, fabric: Rc::new(fabric), traced: Rc::new(|_| {}) }
    }

    /// Also passes the trace of each cluster, as text, to `traced` at its end.
    #[must_use]
    pub fn tracing(self, traced: impl Fn(&str) + 'static) -> SimFactory<W> {
        SimFactory { traced: Rc::new(traced), ..self }
    }
}

/// Hurts simulated nodes.
pub struct SimControl<W> {
    network: SimNetwork,
    wrap: W,
    seed: u64,
}

impl<W: Wrap> Factory for SimFactory<W> {
    type Cluster = LocalCluster<W::Wrapped, SimControl<W>>;

    fn capabilities(&self) -> Capabilities {
        Capabilities { arm_kill: true, freeze: true, rejoin: true }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn run<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(Self::Cluster) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static,
    {
        self.run_with(spec, |runtime, handles, control| {
            body(LocalCluster::new(runtime, handles, control))
        })
    }
}

impl<W: Wrap> SimFactory<W> {
    /// Runs `body` with the parts of a cluster.
    ///
    /// # Errors
    /// Like [`Factory::run`].
    pub fn run_with<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(SimRuntime, Vec<W::Wrapped>, SimControl<W>) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static,
    {
        let simulation = Simulation::new(spec.seed);
        let (layout, fabric) = (ClusterSpec::layout(), (self.fabric)(spec.compute_nodes));
        let network = SimNetwork::with_fabric(&simulation, spec.compute_nodes, &layout, fabric);
        let (wrap, seed) = (self.wrap.clone(), spec.seed);
        let handles = spec.nodes().iter().map(|node| wrap.wrap(network.node(node), seed)).collect();
        let control = SimControl { network, wrap, seed };
        let result = simulation.run(body(simulation.runtime(), handles, control));
        (self.traced)(&simulation.trace().to_text());
        result.map_err(RunError::new)
    }
}

impl<W: Wrap> NodeControl<W::Wrapped> for SimControl<W> {
    fn kill(&self, node: NodeId) {
        self.network.kill(node);
    }

    fn arm_kill(
        &self,
        node: NodeId,
        step: u64,
        died: Box<dyn FnOnce()>,
    ) -> Result<(), Unsupported> {
        // This task is dropped with the other tasks of the node when the node dies.
        let deathbed = OnDrop(Some(died));
        let never = std::future::pending::<()>();
        let task = self.network.node(node).runtime().spawn(async move {
            let _deathbed = deathbed;
            never.await;
        });
        task.detach();
        self.network.kill_after(node, step);
        Ok(())
    }

    fn freeze(&self, node: NodeId) -> Result<(), Unsupported> {
        self.network.freeze(node);
        Ok(())
    }

    fn thaw(&self, node: NodeId) -> Result<(), Unsupported> {
        self.network.thaw(node);
        Ok(())
    }

    async fn rejoin(&self, node: NodeId) -> Result<W::Wrapped, Unsupported> {
        Ok(self.wrap.wrap(self.network.rejoin(node), self.seed))
    }
}

struct OnDrop(Option<Box<dyn FnOnce()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}
