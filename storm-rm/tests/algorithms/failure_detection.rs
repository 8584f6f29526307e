//! Failure detection (paper, section 2.4.3): exactly those at fault are named, with not too many
//! questions.

use crate::anonymous::Anonymous;
use crate::cluster::{Cluster, small_plan};
use crate::seeds::for_seeds;
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::failure_detection::{Isolated, isolate_failed};
use storm_rm::heartbeat::heartbeat_handled;
use storm_rm::message::Heartbeat;

const NUMBER: u64 = 7;

/// Draws the dead and the late compute nodes from the seed.
fn at_fault(cluster: &Cluster, deaths: u64, late: u64) -> Isolated {
    let mut fault = Isolated::default();
    let any = || NodeId(1 + cluster.below(cluster.compute().len() as u64) as u32);
    (0..deaths).for_each(|_| {
        fault.dead.insert(any());
    });
    (0..late).for_each(|_| {
        fault.late.insert(any());
    });
    fault.late = fault.late.difference(&fault.dead);
    fault
}

fn prepare(cluster: &Cluster, plan: &storm_rm::GlobalPlan, fault: &Isolated) {
    for node in cluster.compute().iter() {
        let number = if fault.late.contains(node) { NUMBER - 1 } else { NUMBER };
        let heartbeat = Heartbeat { number, issued_ns: 0, commands: vec![] };
        heartbeat_handled(&cluster.network.node(node), plan, &heartbeat);
    }
    fault.dead.iter().for_each(|node| cluster.kill(node));
}

#[test]
fn a_network_that_names_the_dead_needs_two_questions() {
    for_seeds(200, |seed| {
        let plan = small_plan(1);
        let cluster = Cluster::new(seed, 40, &plan.layout);
        let fault = at_fault(&cluster, cluster.below(6), cluster.below(6));
        prepare(&cluster, &plan, &fault);
        let (mm, everyone) = (cluster.mm(), cluster.compute());
        let found = cluster.run(async move { isolate_failed(&mm, &plan, &everyone, NUMBER).await });
        assert_eq!(found, Ok(fault));
    });
}

/// The nodes of a binary tree over `nodes` leaves that lie above `faults` of
/// them, at most: the questions that cannot hold.
fn most_failing_questions(nodes: u32, faults: u32) -> u32 {
    let levels = nodes.next_power_of_two().ilog2();
    match faults {
        0 => 0,
        faults => 2 * faults + faults * (levels - faults.ilog2()),
    }
}

#[test]
fn a_network_that_does_not_name_them_needs_few_questions() {
    const NODES: u32 = 128;
    for_seeds(200, |seed| {
        let plan = small_plan(1);
        let cluster = Cluster::new(seed, NODES, &plan.layout);
        let fault = at_fault(&cluster, seed % 8, cluster.below(4));
        prepare(&cluster, &plan, &fault);
        let (network, everyone) = (Anonymous::new(cluster.mm()), cluster.compute());
        let asking = network.clone();
        let found =
            cluster.run(async move { isolate_failed(&asking, &plan, &everyone, NUMBER).await });
        assert_eq!(found, Ok(fault.clone()));
        let dead = most_failing_questions(NODES, fault.dead.len() as u32);
        assert!(network.timed_out.get() <= dead, "{} <= {dead}", network.timed_out.get());
        let faults = (fault.dead.len() + fault.late.len()) as u32;
        let all = 2 * most_failing_questions(NODES, faults) + 1;
        assert!(network.asked.get() <= all, "{} <= {all}", network.asked.get());
    });
}

#[test]
fn all_dead_and_all_late_are_told_apart() {
    for dead in [true, false] {
        let plan = small_plan(1);
        let cluster = Cluster::new(1, 16, &plan.layout);
        let everyone = cluster.compute();
        let fault = match dead {
            true => Isolated { dead: everyone.clone(), late: NodeSet::new() },
            false => Isolated { dead: NodeSet::new(), late: everyone.clone() },
        };
        prepare(&cluster, &plan, &fault);
        let network = Anonymous::new(cluster.mm());
        let found =
            cluster.run(async move { isolate_failed(&network, &plan, &everyone, NUMBER).await });
        assert_eq!(found, Ok(fault));
    }
}

#[test]
fn a_node_that_dies_while_it_is_looked_for_is_dead_or_well_but_not_late() {
    for_seeds(100, |seed| {
        let plan = small_plan(1);
        let cluster = Cluster::new(seed, 32, &plan.layout);
        let mut fault = at_fault(&cluster, 2, 3);
        prepare(&cluster, &plan, &fault);
        let dying = NodeId(1 + cluster.below(32) as u32);
        fault.late.remove(dying);
        let well = fault.dead.union(&NodeSet::single(dying));
        cluster.node(dying.0).memory().store(plan.heartbeat_seen, NUMBER);
        cluster.network.kill_after(dying, cluster.below(12));
        let (mm, everyone) = (cluster.mm(), cluster.compute());
        let found = cluster
            .run(async move { isolate_failed(&mm, &plan, &everyone, NUMBER).await })
            .expect("the master is connected");
        assert_eq!(found.late, fault.late);
        assert!(fault.dead.is_subset(&found.dead) && found.dead.is_subset(&well));
    });
}

#[test]
fn a_master_that_is_cut_off_blames_nobody() {
    let plan = small_plan(1);
    let cluster = Cluster::new(1, 4, &plan.layout);
    let (node, world) = (cluster.node(1), cluster.clone());
    let all = cluster.compute();
    let found = cluster.run(async move {
        world.network.freeze(NodeId(1));
        let runtime = world.simulation.runtime();
        runtime.sleep(std::time::Duration::from_millis(50)).await;
        isolate_failed(&node, &plan, &all, NUMBER).await
    });
    assert_eq!(found, Err(storm_primitives::PrimitiveError::Disconnected));
}
