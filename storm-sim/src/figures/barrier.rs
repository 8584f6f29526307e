//! Figure 7: how long a COMPARE-AND-WRITE over all nodes takes.

use super::FigureError;
use crate::profile;
use crate::scenario::ScenarioError;
use std::time::Duration;
use storm_primitives::sim::{SimNetwork, Simulation};
use storm_primitives::{
    CompareAndWrite, Layout, NodeId, NodeSet, Primitives, Relation, Runtime, Var,
};
use storm_qsnet_sim::Load;

/// The number of barriers for the mean.
const BARRIERS: u32 = 100;

/// The latency on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierPoint {
    /// Nodes.
    pub nodes: u32,
    /// Mean time of a COMPARE-AND-WRITE that holds and does not write.
    pub latency: Duration,
}

/// Measures it on a fresh machine of a profile.
///
/// # Errors
/// [`FigureError`].
pub fn barrier(name: &str, nodes: u32, seed: u64) -> Result<BarrierPoint, FigureError> {
    let config = profile::machine(name, seed, nodes, Load::NONE)?;
    let mut layout = Layout::builder();
    let flag: Var<u64> = layout.var("flag");
    let simulation = Simulation::new(seed);
    simulation.trace().silence(true);
    let network =
        SimNetwork::with_fabric(&simulation, nodes, &layout.build(), config.fabric.clone());
    let mm = network.node(NodeId::MM);
    let total = simulation.run(async move {
        let question = CompareAndWrite::new(NodeSet::compute(nodes), flag, Relation::Equal, 0);
        let begun = mm.runtime().now();
        for _ in 0..BARRIERS {
            mm.compare_and_write(question.clone()).await?;
        }
        Ok::<_, storm_primitives::PrimitiveError>(mm.runtime().now() - begun)
    });
    let total = total.map_err(crate::RunError::from)?;
    // No node dies in this experiment, and the variable is in the layout.
    let total = total.map_err(ScenarioError::from)?;
    Ok(BarrierPoint { nodes, latency: total / BARRIERS })
}
