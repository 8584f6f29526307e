//! The primitives on a simulated machine, in its virtual time.

use super::{Figure, Plan, Work, measure};
use anyhow::Result;
use storm_primitives::NodeId;
use storm_primitives::sim::{SimNetwork, Simulation};
use storm_qsnet_sim::{Machine, Profile};

/// Measures on a machine of this built-in profile.
///
/// # Errors
/// If there is no such profile, or an operation fails.
pub fn run(profile: &str, work: &Work) -> Result<Vec<Figure>> {
    let nodes = work.nodes.iter().copied().max().unwrap_or(0);
    let plan = Plan::new();
    let machine = Machine::new(Profile::builtin(profile)?, nodes)?;
    let simulation = Simulation::new(1);
    simulation.trace().silence(true);
    let network = SimNetwork::with_fabric(&simulation, nodes, &plan.layout, machine.fabric()?);
    let (root, work) = (network.node(NodeId::MM), work.clone());
    Ok(simulation.run(async move { measure(&root, &plan, &work).await })??)
}
