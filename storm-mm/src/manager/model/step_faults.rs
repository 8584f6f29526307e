//! Node Managers that are replaced under steps, and launches of steps that take too long.

use super::further_steps::{is, running, size};
use super::invariants::check_all;
use super::world::{ADMIN, NODES, PES, World};
use crate::api::JobState;
use crate::job::{Outcome, Phase};
use crate::manager::{StepTimer, Timer};
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::{CutLaunch, ExitStatus, Report};
use storm_rm::{JobId, JobIncarnation, StepId, StepRef};

/// A script with a step on all elements, which is launched.
fn launched() -> (World, JobId, JobIncarnation) {
    let (mut world, job) = running();
    world.keep_jobs();
    assert_eq!(world.ask_step(job, 1, size(NODES * PES)), is(job, 0));
    let run = world.run_of(job, 0);
    (world, job, run)
}

fn outcome_of(world: &World, job: JobId) -> Outcome {
    let steps = world.steps_of(job);
    let outcome = steps.ended().find(|(number, _)| *number == 0).map(|(_, step)| &step.outcome);
    outcome.expect("the step is over").clone()
}

/// Regression: the report was dropped, and the step ended when its launch took too long.
#[test]
fn a_step_whose_launch_is_cut_off_ends_at_once_and_tells_why() {
    let (mut world, job, run) = launched();
    let step = StepRef { job, step: StepId::Number(0) };
    world.report(
        NodeId(2),
        Report::LaunchCut { step, incarnation: run, cut: CutLaunch::Interrupted },
    );
    assert!(world.parts.iter().all(|(part, (_, doomed))| part.2 != run || *doomed));
    world.end_run_of(run, 0);
    let Outcome { state, reason, .. } = outcome_of(&world, job);
    assert_eq!(state, JobState::NodeFail);
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("n2")), "{reason:?}");
    assert_eq!(world.record(job).phase, Phase::Running, "the script goes on");
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}

/// Regression: the next manager counted the step as lost with the node's part.
#[test]
fn a_step_goes_on_over_restarts_although_a_node_has_forgotten_the_part_that_was_over() {
    for (restarts, code) in [(1, 0), (1, 3), (2, 0), (2, 3)] {
        let (mut world, job, run) = launched();
        world.begin_all();
        let node = NodeId(NODES);
        world.part_over((node, job, run), ExitStatus::Code(code));
        world.node_returns(node, false);
        check_all(&world);
        for _ in 0..restarts {
            world.restart(|_| false, |_| false);
            check_all(&world);
        }
        let steps = world.steps_of(job);
        let known = steps.get(0).expect("the step goes on");
        assert!(known.ending.is_none() && known.parts_over.contains_key(&node));
        world.end_run_of(run, 0);
        let state = if code == 0 { JobState::Completed } else { JobState::Failed };
        assert_eq!(outcome_of(&world, job).state, state);
        world.finish();
        assert_eq!(world.record(job).state(), JobState::Completed);
    }
}

fn fire_launch_timer(world: &mut World, run: JobIncarnation) -> bool {
    let is_meant = |(_, timer): &(_, Timer)| matches!(timer, Timer::Step { run: of, kind: StepTimer::Launch, .. } if *of == run);
    let index = world.timers.iter().position(is_meant);
    index.map(|index| world.fire(index)).is_some()
}

/// Regression: the step ended after an instant of run time, if its place ran at that instant.
#[test]
fn the_time_for_the_launch_of_a_step_is_run_time_and_the_late_nodes_are_named() {
    let (mut world, job, run) = launched();
    world.act(|core, now| core.stop_all(now, ADMIN, &[job])).remove(0).unwrap();
    for _ in 0..20 {
        assert!(fire_launch_timer(&mut world, run));
    }
    world.now = world.now + Duration::from_secs(1);
    world.act(|core, now| core.continue_all(now, ADMIN, &[job])).remove(0).unwrap();
    assert!(fire_launch_timer(&mut world, run), "it has not run for long");
    assert!(world.overdue.is_empty());
    world.now = world.now + Duration::from_secs(1);
    assert!(fire_launch_timer(&mut world, run));
    assert_eq!(world.overdue.len(), 1);
    world.unstarted(0);
    world.end_run_of(run, 0);
    let Outcome { state, reason, .. } = outcome_of(&world, job);
    assert_eq!(state, JobState::Failed);
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("on n[1-4]")), "{reason:?}");
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}
