//! Signals ahead of the time limit.

use super::invariants::check_all;
use super::world::{NODES, PES, World, spec};
use crate::api::JobState;
use crate::manager::JobTimer;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::Command;
use storm_rm::{EarlySignal, FirstStep, JobId, JobSpec};

const LIMIT: Duration = Duration::from_secs(600);
const SIGNAL: i32 = 10;

/// A job that runs on all nodes and has requested a signal.
fn running(first: FirstStep, script_only: bool, before_s: u64) -> (World, JobId) {
    let mut world = World::joined("fcfs", 4);
    let before = Duration::from_secs(before_s);
    let early_signal = Some(EarlySignal { signal: SIGNAL, before, script_only });
    let plain = spec(NODES * PES, false, false);
    let job = world.submit(JobSpec { first, time_limit: Some(LIMIT), early_signal, ..plain });
    world.started(0);
    (world, job)
}

fn fire_limit(world: &mut World) {
    let timer = world.timers_of_jobs(JobTimer::TimeLimit);
    world.fire(*timer.last().expect("the job has a limit"));
    check_all(world);
}

#[test]
fn all_ranks_are_signalled_once_at_the_requested_time() {
    let (mut world, job) = running(FirstStep::Program, false, 60);
    fire_limit(&mut world);
    let ran = world.core.live.get(job).unwrap().run_time(world.now);
    let due = LIMIT - Duration::from_secs(60);
    assert!(ran >= due && ran < due + Duration::from_millis(1), "{ran:?}");
    let command = Command::SignalJob { step: world.core.first_step(job), signal: SIGNAL };
    let to_all: Vec<_> = (1..=NODES).map(|node| (NodeId(node), command.clone())).collect();
    assert_eq!(world.signals, to_all);
    assert_eq!(world.record(job).state(), JobState::Running);
    let log = &world.record(job).log;
    assert!(log.iter().any(|entry| entry.text.contains("signal 10 ahead of the time limit")));
    world.signals.clear();
    // The next manager does not repeat the signal.
    world.restart(|_| false, |_| false);
    check_all(&world);
    fire_limit(&mut world);
    let term = Command::SignalJob { step: world.core.first_step(job), signal: 15 };
    assert!(world.signals.iter().all(|(_, command)| *command == term), "{:?}", world.signals);
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Timeout);
}

#[test]
fn a_script_alone_is_signalled_if_its_job_requests_that() {
    let (mut world, job) = running(FirstStep::Script, true, 90);
    fire_limit(&mut world);
    let step = world.core.first_step(job);
    assert_eq!(world.signals, [(NodeId(1), Command::SignalScript { step, signal: SIGNAL })]);
    // Without `B:` the signal is for steps.
    let (mut world, job) = running(FirstStep::Script, false, 90);
    fire_limit(&mut world);
    assert_eq!(world.signals, []);
    assert!(world.record(job).signalled_early);
}

#[test]
fn a_limit_that_is_no_longer_than_the_time_before_it_signals_at_the_start() {
    let (mut world, job) = running(FirstStep::Program, false, LIMIT.as_secs());
    let begun = world.now;
    fire_limit(&mut world);
    assert_eq!((world.now, world.signals.len()), (begun + Duration::from_micros(100), 4));
    assert_eq!(world.record(job).state(), JobState::Running);
}

#[test]
fn a_script_is_needed_for_a_signal_to_it() {
    let mut world = World::joined("fcfs", 4);
    let before = Duration::ZERO;
    let early_signal = Some(EarlySignal { signal: SIGNAL, before, script_only: true });
    let spec = JobSpec { early_signal, ..spec(1, false, false) };
    let refused = world.act(|core, now| core.submit(now, super::world::USER, spec));
    assert!(refused.unwrap_err().hint.is_some_and(|hint| hint.contains("B:")));
}

/// Regression: the signal went to a node without a Node Manager too, and was never sent again.
#[test]
fn a_signal_waits_for_a_node_that_is_away() {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    let before = Duration::from_secs(60);
    let early_signal = Some(EarlySignal { signal: SIGNAL, before, script_only: false });
    let plain = spec(NODES * PES, false, false);
    let job = world.submit(JobSpec { time_limit: Some(LIMIT), early_signal, ..plain });
    world.started(0);
    world.joined.remove(&NodeId(2));
    world.act(|core, now| core.node_left(now, NodeId(2)));
    fire_limit(&mut world);
    assert_eq!(world.signals, []);
    assert!(!world.record(job).signalled_early);
    world.comes_back(NodeId(2));
    fire_limit(&mut world);
    assert_eq!(world.signals.len(), NODES as usize);
    assert!(world.record(job).signalled_early);
}
