//! Nodes that are away keep their places in the plans of the policies
//! (`docs/decisions/0154-a-node-that-is-away-keeps-its-place.md`).

use super::invariants::check_all;
use super::world::{ADMIN, NODES, PES, World, spec};
use crate::job::Phase;
use crate::manager::{ClusterTimer, JobTimer, Timer};
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::JobId;
use storm_rm::JobSpec;
use storm_rm::message::NodeReturn;

const POLICIES: [&str; 3] = ["backfill", "easy-sjbf", "conservative"];
const FIRST: JobId = JobId(1);
const HEAD: JobId = JobId(2);
const LATE: JobId = JobId(3);
const SLOW: NodeId = NodeId(1);

fn limited(procs: u32, limit_s: u64) -> JobSpec {
    JobSpec { time_limit: Some(Duration::from_secs(limit_s)), ..spec(procs, false, false) }
}

/// A job runs on a node. A job of all elements waits for it, and a job without a limit waits behind
/// that one. Returns the node of the first job.
fn with_head(sched: &str) -> (World, NodeId) {
    let mut world = World::joined(sched, 8);
    world.keep_jobs();
    world.submit(limited(PES, 20));
    world.begin_all();
    world.submit(limited(NODES * PES, 60));
    world.submit(spec(PES, false, false));
    assert_eq!(world.record(LATE).phase, Phase::Pending, "{sched}");
    let node = world.record(FIRST).ranks[0].node;
    (world, node)
}

fn waits(world: &World, when: &str) {
    check_all(world);
    assert_eq!(world.record(LATE).phase, Phase::Pending, "{when}");
}

/// The first job ends, and the others begin in order.
fn in_order(world: &mut World) {
    world.end_job(FIRST, 0);
    assert_eq!(world.record(HEAD).phase, Phase::Starting);
    waits(world, "the head runs");
    world.finish();
}

/// Regression: the late job started on another node as soon as the Node Manager had ended.
#[test]
fn no_job_passes_the_head_while_a_node_manager_is_away() {
    for sched in POLICIES {
        let (mut world, node) = with_head(sched);
        world.joined.remove(&node);
        world.act(|core, now| core.node_left(now, node));
        waits(&world, "the node is away");
        world.submit(limited(PES, 60));
        waits(&world, "another job comes");
        world.comes_back(node);
        waits(&world, "it is back");
        in_order(&mut world);
    }
}

/// Regression: the late job started as soon as a node without jobs was back.
#[test]
fn no_job_passes_the_head_before_the_nodes_of_a_former_manager_are_back() {
    for sched in POLICIES {
        for last_first in [false, true] {
            let (mut world, node) = with_head(sched);
            let nodes = std::mem::take(&mut world.joined);
            world.restart(|_| false, |_| false);
            waits(&world, "no node is back");
            let (first, last): (Vec<_>, Vec<_>) =
                nodes.into_iter().partition(|one| (*one == node) == last_first);
            for one in first.into_iter().chain(last) {
                world.comes_back(one);
                waits(&world, "nodes come back");
            }
            in_order(&mut world);
        }
    }
}

fn absence(world: &mut World) {
    let timer = Timer::Cluster(ClusterTimer::Absence);
    let last = world.timers.iter().rposition(|(_, other)| *other == timer).expect("it is set");
    world.fire(last);
}

#[test]
fn a_node_that_stays_away_or_is_drained_or_is_lost_keeps_no_place() {
    for (restarts, drains) in [(false, false), (false, true), (true, false)] {
        let (mut world, node) = with_head("backfill");
        if restarts {
            let nodes = std::mem::take(&mut world.joined);
            world.restart(|_| false, |_| false);
            nodes.into_iter().filter(|one| *one != node).for_each(|one| world.comes_back(one));
        } else {
            world.joined.remove(&node);
            world.act(|core, now| core.node_left(now, node));
        }
        waits(&world, "the node is away");
        if drains {
            let name = format!("n{}", node.0);
            world.act(|core, now| core.drain(now, ADMIN, &name, "it fails")).expect("drained");
        } else {
            absence(&mut world);
        }
        check_all(&world);
        assert_eq!(world.record(LATE).phase, Phase::Starting, "{restarts} {drains}");
    }
    let (mut world, node) = with_head("backfill");
    world.node_down(node);
    assert_eq!(world.record(LATE).phase, Phase::Starting, "its host is silent");
}

fn fire_recovery(world: &mut World) {
    // A driver has only the latest timer of a job.
    let last = *world.timers_of_jobs(JobTimer::Recovery).last().expect("it is set");
    world.fire(last);
    check_all(world);
}

/// A job that runs on all nodes. The first node has long to return.
fn with_slow_node() -> (World, JobId) {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    world.returns = Some(NodeReturn { within_ms: 60_000, leased_within_ms: 60_000 });
    world.node_up(SLOW);
    let job = world.submit(spec(NODES * PES, false, false));
    world.started(0);
    (world, job)
}

fn leaves(world: &mut World, node: NodeId) {
    world.joined.remove(&node);
    world.act(|core, now| core.node_left(now, node));
}

/// Regression: a node that came back took the timer of the others with it.
#[test]
fn a_job_gives_up_a_node_though_another_came_back_meanwhile() {
    let (mut world, job) = with_slow_node();
    leaves(&mut world, SLOW);
    leaves(&mut world, NodeId(2));
    world.comes_back(NodeId(2));
    fire_recovery(&mut world);
    assert_eq!(world.record(job).phase, Phase::Running, "it is too early");
    fire_recovery(&mut world);
    assert!(matches!(world.record(job).phase, Phase::Ending(_)));
}

/// Regression: a node that left after a restart of the manager had the others waited for as long.
#[test]
fn a_new_manager_waits_for_a_node_as_long_as_ever_though_another_leaves() {
    let (mut world, job) = with_slow_node();
    world.joined.clear();
    world.restart(|_| false, |_| false);
    let expected = world.now + world.core.config.recovery_timeout;
    world.comes_back(SLOW);
    leaves(&mut world, SLOW);
    fire_recovery(&mut world);
    assert!(world.now <= expected);
    assert!(matches!(world.record(job).phase, Phase::Ending(_)));
}
