//! Resources that jobs request of their nodes, and nodes out of service: requests are refused,
//! waited for, and kept over a restart.

use super::invariants::check_all;
use super::world::{NODES, World, spec};
use crate::api::{ErrorCode, JobState, NodeState, Peer};
use storm_primitives::NodeId;
use storm_rm::{JobId, JobSpec, Memory, Resources};

const ROOT: Peer = Peer { uid: 0, gid: 0, pid: 1, by_door: false };
const USER: Peer = Peer { uid: 1000, gid: 1000, pid: 2, by_door: false };

fn asking(procs: u32, resources: Resources) -> JobSpec {
    JobSpec { resources, ..spec(procs, false, false) }
}

fn drain(world: &mut World, names: &str) {
    world.act(|core, now| core.drain(now, ROOT, names, " its disk fails ")).expect("drained");
}

fn resume(world: &mut World, names: &str) {
    world.act(|core, now| core.resume(now, ROOT, names)).expect("resumed");
}

/// State and reason of a node, from 1.
fn node(world: &World, number: u32) -> (NodeState, Option<String>) {
    let view = world.core.list_nodes(world.now).swap_remove(number as usize - 1);
    (view.state, view.reason)
}

fn reason(world: &World, job: JobId) -> String {
    world.core.explain(world.now, job).expect("it is known").reason
}

#[test]
fn demands_beyond_every_node_are_refused_by_name() {
    let mut world = World::joined("fcfs", 8);
    let mut refusal = |resources: Resources| {
        let spec = asking(1, resources);
        world.act(|core, now| core.submit(now, USER, spec)).expect_err("it can never run")
    };
    let wide = refusal(Resources { cpus_per_task: 3, ..Resources::default() });
    assert_eq!(wide.code, ErrorCode::Infeasible);
    assert_eq!(wide.why.as_deref(), Some("--cpus-per-task 3: the largest node has 2 PEs"));
    let constraint = Some("gpu".to_owned());
    let gpu = refusal(Resources { constraint, ..Resources::default() });
    assert!(gpu.why.is_some_and(|why| why.contains("no node of the partition has feature gpu")));
    let constraint = Some("gpu&".to_owned());
    let wrong = refusal(Resources { constraint, ..Resources::default() });
    assert_eq!(wrong.code, ErrorCode::BadRequest);
}

#[test]
fn listings_tell_what_a_job_asks_for_and_what_it_holds() {
    let mut world = World::joined("fcfs", 8);
    let memory = Memory::PerNode(1 << 30);
    let asked = Resources { exclusive: true, memory, ..Resources::default() };
    let job = world.submit(asking(1, asked.clone()));
    let view = world.core.list_nodes(world.now).swap_remove(0);
    assert_eq!((view.pes_used, view.memory_held_bytes), (2, 1 << 30), "the node is its own");
    let detail = world.core.show(world.now, job).expect("it is known");
    assert_eq!(detail.view.resources, asked);
    let explained = world.core.explain(world.now, job).expect("it is known").details;
    assert_eq!(explained[0], "it asks for 1 process, 1 GiB a node, no other job on its nodes");
}

#[test]
fn a_drained_node_takes_no_job_keeps_what_it_has_and_comes_back() {
    let mut world = World::joined("fcfs", 8);
    let first = world.submit(spec(2, false, false));
    world.started(0);
    drain(&mut world, "n[1-2]");
    check_all(&world);
    assert_eq!(node(&world, 1), (NodeState::Draining, Some("its disk fails".to_owned())));
    assert_eq!(node(&world, 2).0, NodeState::Drained);
    let all = world.submit(spec(8, false, false));
    assert_eq!(reason(&world, all), "n1 and n2 are drained: 4 of the 8 PEs asked for are up");
    let small = world.submit(spec(1, false, false));
    assert!(world.cancel(all));
    assert_eq!(world.record(small).node_list, "n3", "not where it would be first");
    assert_eq!(world.record(first).state(), JobState::Running);
    resume(&mut world, "n[1-4]");
    assert_eq!(node(&world, 2), (NodeState::Idle, None));
    world.finish();
    check_all(&world);
}

#[test]
fn a_node_stays_drained_over_its_death_and_the_manager_s() {
    let mut world = World::joined("gang", 8);
    drain(&mut world, "n4");
    world.node_down(NodeId(NODES));
    let (state, why) = node(&world, NODES);
    assert_eq!(state, NodeState::Down);
    assert_eq!(why.as_deref(), Some("it died or was cut off; drained: its disk fails"));
    world.node_up(NodeId(NODES));
    assert_eq!(node(&world, NODES).0, NodeState::Drained);
    // A stopped Node Manager, whose host is known to be up, is no death.
    world.act(|core, now| core.node_died(now, NodeId(NODES)));
    let (_, why) = node(&world, NODES);
    assert_eq!(why.as_deref(), Some("its Node Manager has ended; drained: its disk fails"));
    world.node_up(NodeId(NODES));
    drain(&mut world, "n3");
    resume(&mut world, "n3");
    world.restart(|_| false, |_| false);
    assert_eq!(node(&world, NODES).0, NodeState::Drained);
    assert_eq!(node(&world, NODES - 1).0, NodeState::Idle);
    let all = world.submit(spec(8, false, false));
    assert!(reason(&world, all).starts_with("n4 is drained"), "{}", reason(&world, all));
    resume(&mut world, "n4");
    world.finish();
    assert_eq!(world.record(all).state(), JobState::Completed);
    check_all(&world);
}

#[test]
fn a_job_of_wide_processes_on_nodes_of_its_own_outlives_the_manager() {
    let mut world = World::joined("gang", 8);
    let asked = Resources { cpus_per_task: 2, exclusive: true, ..Resources::default() };
    let job = world.submit(asking(3, asked));
    world.started(0);
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert_eq!(world.record(job).state(), JobState::Running);
    assert_eq!(world.core.list_nodes(world.now)[2].pes_used, 2);
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
    check_all(&world);
}

#[test]
fn only_administrators_change_nodes_and_only_nodes_that_there_are() {
    let mut world = World::joined("gang", 8);
    let before = world.journal.clone();
    let mut code = |peer: Peer, names: &str, reason: &str| {
        world.act(|core, now| core.drain(now, peer, names, reason)).expect_err("refused").code
    };
    assert_eq!(code(USER, "n1", "why"), ErrorCode::NotPermitted);
    assert_eq!(code(ROOT, "n9", "why"), ErrorCode::NoSuchNode);
    assert_eq!(code(ROOT, "n[1-4000000]", "why"), ErrorCode::NoSuchNode);
    // Unfolding the list would take minutes, and more memory than there is.
    assert_eq!(code(ROOT, "n[1-999999999]!n[2-999999999]", "why"), ErrorCode::NoSuchNode);
    assert_eq!(code(ROOT, "n[1-", "why"), ErrorCode::BadRequest);
    assert_eq!(code(ROOT, "n1", " "), ErrorCode::BadRequest);
    let resumed = world.act(|core, now| core.resume(now, USER, "n1"));
    assert_eq!(resumed.expect_err("refused").code, ErrorCode::NotPermitted);
    assert_eq!(world.journal, before, "nothing has changed");
}

/// Regression: the job's reason was that the nodes are drained, and nobody had drained them.
#[test]
fn nodes_that_offer_less_than_is_configured_now_are_refused_and_not_drained() {
    let mut world = World::joined("fcfs", 8);
    world.edit = |config| config.nodes.iter_mut().take(2).for_each(|node| node.pes = 4);
    world.restart(|_| false, |_| false);
    let all = world.submit(spec(12, false, false));
    assert_eq!(
        reason(&world, all),
        "n1 and n2 are refused: 4 of the 12 PEs asked for are up (n1 was refused: it offers 2 \
         PEs, 4 are configured)"
    );
    check_all(&world);
}
