//! Bounds on the steps that wait, and the memory that a place counts.

use super::further_steps::{WAITS, is, running, size};
use super::invariants::check_all;
use super::world::{NODES, PES, USER, World, spec};
use crate::api::ErrorCode;
use crate::manager::live::Layout;
use std::rc::Rc;
use storm_primitives::NodeId;
use storm_rm::message::ExitStatus;
use storm_rm::{FirstStep, JobId, JobSpec, Memory, Resources, Share, StepAsk, StepSize};

/// Regression: one user could have 40,000 steps wait, all of which were looked at whenever any step
/// ended.
#[test]
fn a_place_has_few_waiting_steps_and_each_of_them_runs() {
    let (mut world, job) = running();
    let all = size(NODES * PES);
    assert_eq!(world.ask_step(job, 0, all), is(job, 0));
    let most = u64::from(4 * (NODES * PES + 8));
    for ask in 1..=most {
        assert_eq!(world.ask_step(job, ask, all), WAITS);
    }
    assert_eq!(world.ask_step(job, most + 1, all), Err(ErrorCode::QueueFull));
    assert_eq!(world.ask_step(job, most, all), WAITS, "it asked before");
    check_all(&world);
    world.begin_all();
    for number in 0..=most {
        let run = world.run_of(job, number as u32);
        world.begin_all();
        world.end_run_of(run, 0);
    }
    assert_eq!(world.ask_step(job, most + 1, all), is(job, most as u32 + 1));
    world.finish();
}

/// Regression: nobody looked at the step when the node was back, and it waited for ever.
#[test]
fn a_step_that_waits_for_a_node_begins_when_the_node_is_back() {
    let mut world = World::joined("fcfs", 4);
    let job = world.submit(spec(NODES * PES, false, false));
    world.started(0);
    let last = NodeId(NODES);
    let part = world.parts.keys().find(|part| part.0 == last).copied().unwrap();
    world.part_over(part, ExitStatus::Code(0));
    world.node_down(last);
    let overlaps = StepSize { share: Share::Overlap, nodes: Some(NODES), ..size(NODES) };
    assert_eq!(world.ask_step(job, 1, overlaps), WAITS);
    world.node_up(last);
    check_all(&world);
    assert_eq!(world.ask_step(job, 1, overlaps), is(job, 1), "the program is step 0");
    world.finish();
}

#[test]
fn the_waiting_steps_of_a_user_take_little_memory() {
    let (mut world, job) = running();
    let mut large = spec(1, false, false).step;
    large.env = storm_rm::Environment::default().with("LARGE", &"x".repeat(33 << 20));
    let check = |world: &World| {
        let checked = world.core.check_waiting_bytes(USER.uid, &large);
        checked.map_err(|error| error.code)
    };
    assert_eq!(check(&world), Ok(()));
    world.core.live.wait_for_room(
        job,
        (StepAsk(1), size(1), Layout::default()),
        Rc::new(large.clone()),
    );
    assert_eq!(check(&world), Err(ErrorCode::QueueFull));
    assert!(world.core.check_waiting_bytes(USER.uid + 1, &large).is_ok());
    assert!(world.core.forget_step(job, StepAsk(1)));
    assert_eq!(check(&world), Ok(()));
    world.finish();
}

fn on_all(bytes: u64) -> StepSize {
    StepSize { memory: Memory::PerNode(bytes), nodes: Some(NODES), ..size(NODES) }
}

fn with_all_memory() -> (World, JobId) {
    let mut world = World::joined("gang", 8);
    let plain = spec(NODES * PES, false, false);
    let resources = Resources { memory: Memory::WholeNode, ..Resources::default() };
    let job = world.submit(JobSpec { first: FirstStep::Script, resources, ..plain });
    world.started(0);
    (world, job)
}

/// Regression: the next manager granted steps beside each other that took more than the memory.
#[test]
fn a_place_with_all_memory_counts_it_also_after_a_restart() {
    // A node of the model has 1 MiB.
    let half = 1 << 19;
    for restarts in [false, true] {
        let (mut world, job) = with_all_memory();
        assert_eq!(world.ask_step(job, 1, on_all(half)), is(job, 0));
        world.begin_all();
        if restarts {
            world.restart(|_| false, |_| false);
            check_all(&world);
        }
        assert_eq!(world.ask_step(job, 2, on_all(half + 1)), WAITS, "{restarts}");
        assert_eq!(world.ask_step(job, 3, on_all(half)), is(job, 1));
        check_all(&world);
        let run = world.run_of(job, 0);
        world.end_run_of(run, 0);
        world.begin_all();
        let run = world.run_of(job, 1);
        world.end_run_of(run, 0);
        assert_eq!(world.ask_step(job, 2, on_all(half + 1)), is(job, 2));
        world.finish();
    }
}
