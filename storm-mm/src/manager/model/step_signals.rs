//! Signals of jobs that have steps, and the order in which a script and its steps are ended.

use super::further_steps::{is, running, size};
use super::invariants::check_all;
use super::world::{NODES, PES, USER, World, spec};
use crate::api::JobState;
use crate::job::EndCause;
use crate::manager::JobTimer;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::Command;
use storm_rm::{EarlySignal, FirstStep, JobId, JobSpec, StepId, StepRef};

const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;

/// The signal, as each node of a step on all elements gets it.
fn to_step(job: JobId, number: u32, signal: i32) -> Vec<(NodeId, Command)> {
    let step = StepRef { job, step: StepId::Number(number) };
    (1..=NODES).map(|node| (NodeId(node), Command::SignalJob { step, signal })).collect()
}

fn to_script(world: &World, job: JobId, signal: i32) -> Vec<(NodeId, Command)> {
    vec![(NodeId(1), Command::SignalJob { step: world.core.first_step(job), signal })]
}

/// Gives the job a step on all its elements.
fn with_step(world: &mut World, job: JobId) {
    assert_eq!(world.ask_step(job, 1, size(NODES * PES)), is(job, 0));
    world.begin_all();
    check_all(world);
}

/// Regression: no step got the signal, and the script did.
#[test]
fn a_signal_is_for_the_steps_of_a_script_and_for_the_script_if_none_runs() {
    let (mut world, job) = running();
    world.act(|core, now| core.cancel(now, USER, job, Some(SIGUSR1))).expect("it runs");
    assert_eq!(std::mem::take(&mut world.signals), to_script(&world, job, SIGUSR1));
    with_step(&mut world, job);
    world.act(|core, now| core.cancel(now, USER, job, Some(SIGUSR1))).expect("it runs");
    assert_eq!(world.signals, to_step(job, 0, SIGUSR1));
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}

/// Regression: programs that save their state at the signal lost it at the limit.
#[test]
fn an_early_signal_without_b_is_for_the_steps_of_a_script() {
    let mut world = World::joined("fcfs", 6);
    let before = Duration::from_secs(60);
    let early_signal = Some(EarlySignal { signal: SIGUSR1, before, script_only: false });
    let time_limit = Some(Duration::from_secs(600));
    let plain = spec(NODES * PES, false, false);
    let first = FirstStep::Script;
    let job = world.submit(JobSpec { first, time_limit, early_signal, ..plain });
    world.started(0);
    with_step(&mut world, job);
    let timer = *world.timers_of_jobs(JobTimer::TimeLimit).last().expect("a limit");
    world.fire(timer);
    check_all(&world);
    assert_eq!(world.signals, to_step(job, 0, SIGUSR1));
    world.finish();
}

/// Regression: the commands of the steps died first, and what the ranks wrote at their ends was
/// lost.
#[test]
fn a_script_is_asked_to_end_when_its_last_step_is_over() {
    let ends: [fn(&mut World, JobId); 2] = [
        |world, job| assert!(world.cancel(job)),
        |world, job| world.act(|core, now| core.end_job(now, job, EndCause::TimeLimit)),
    ];
    for end in ends {
        for restarts in [false, true] {
            let (mut world, job) = running();
            with_step(&mut world, job);
            end(&mut world, job);
            check_all(&world);
            assert_eq!(std::mem::take(&mut world.signals), to_step(job, 0, SIGTERM));
            if restarts {
                world.restart(|_| false, |_| false);
                check_all(&world);
                let of_step = to_step(job, 0, SIGTERM);
                assert!(world.signals.iter().all(|signal| of_step.contains(signal)));
                world.signals.clear();
            }
            let run = world.run_of(job, 0);
            world.end_run_of(run, 0);
            assert_eq!(world.signals, to_script(&world, job, SIGTERM), "{restarts}");
            let kill = *world.timers_of_jobs(JobTimer::Kill).last().expect("the grace");
            world.fire(kill);
            let mut parts = world.parts.values();
            assert!(parts.all(|(_, doomed)| *doomed), "the grace is over");
            world.finish();
            assert!(matches!(world.record(job).state(), JobState::Cancelled | JobState::Timeout));
        }
    }
    // A script without steps is asked at once.
    let (mut world, job) = running();
    assert!(world.cancel(job));
    assert_eq!(world.signals, to_script(&world, job, SIGTERM));
    world.finish();
}
