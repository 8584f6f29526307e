//! Batch scripts: a job whose ranks are on the first node of its place only.

use super::invariants::check_all;
use super::world::{NODES, PES, World, spec};
use crate::api::JobState;
use crate::job::Phase;
use storm_primitives::NodeId;
use storm_rm::message::ExitStatus;
use storm_rm::{FirstStep, JobId, JobSpec};

/// A node of the place without a rank of the script.
const EMPTY: NodeId = NodeId(NODES);

/// A script that has all nodes and runs, and a job that waits for its elements.
fn running(requeue: bool) -> (World, JobId, JobId) {
    let mut world = World::joined("fcfs", 4);
    let plain = spec(NODES * PES, false, requeue);
    let job = world.submit(JobSpec { first: FirstStep::Script, ..plain });
    let waits = world.submit(spec(1, false, false));
    world.started(0);
    assert_eq!(world.record(job).phase, Phase::Running);
    check_all(&world);
    (world, job, waits)
}

fn state_of(world: &World, job: JobId) -> JobState {
    world.record(job).state()
}

#[test]
fn a_script_starts_once_and_holds_all_elements_until_it_ends() {
    let (mut world, job, waits) = running(false);
    let parts: Vec<_> = world.parts.keys().copied().collect();
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert_eq!(world.record(job).nodes().len(), NODES as usize);
    assert_eq!(world.record(waits).phase, Phase::Pending);
    world.part_over(parts[0], ExitStatus::Code(0));
    check_all(&world);
    assert_eq!(state_of(&world, job), JobState::Completed);
    assert_eq!(world.record(waits).phase, Phase::Starting);
}

#[test]
fn the_loss_of_a_node_without_ranks_ends_the_job_or_has_it_run_again() {
    for lose in [World::node_down, World::processes_lost] {
        for (requeue, state) in [(false, JobState::NodeFail), (true, JobState::Completed)] {
            let (mut world, job, _) = running(requeue);
            lose(&mut world, EMPTY);
            check_all(&world);
            world.finish();
            check_all(&world);
            assert_eq!(state_of(&world, job), state, "{requeue}");
        }
    }
}

#[test]
fn a_script_goes_on_under_the_next_manager() {
    let (mut world, job, _) = running(false);
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert_eq!((state_of(&world, job), world.record(job).runs), (JobState::Running, 1));
    // A node without ranks has nothing to lose.
    let (mut world, job, _) = running(false);
    world.restart(|node| node == EMPTY, |_| false);
    assert_eq!(world.record(job).phase, Phase::Running);
    world.node_up(EMPTY);
    check_all(&world);
    world.finish();
    assert_eq!(state_of(&world, job), JobState::Completed);
    assert_eq!(world.record(job).runs, 1);
}
