//! Jobs that get the elements of others: suspended, requeued, cancelled.

use super::invariants::check_all;
use super::world::{ADMIN, USER, World, spec};
use crate::api::{JobState, Service};
use crate::manager::JobTimer;
use crate::{QosConfig, ServiceConfig};
use std::time::Duration;
use storm_rm::{JobId, JobSpec};
use storm_sched::PreemptMode;

/// The time limit of all jobs of a test.
const LIMIT: Duration = Duration::from_secs(60);

/// Three qualities of service that preempt two others, each in its own way.
pub(super) fn urgencies() -> ServiceConfig {
    let qos = |name: &str, preempts: &[&str], preempt_mode| QosConfig {
        name: name.to_owned(),
        preempts: preempts.iter().map(|name| (*name).to_owned()).collect(),
        preempt_mode,
        ..QosConfig::default()
    };
    let low = ["patient", "repeatable", "cheap"];
    let all = ["patient", "repeatable", "cheap", "urgent"];
    let qos = vec![
        qos("patient", &[], Some(PreemptMode::Suspend)),
        qos("repeatable", &[], Some(PreemptMode::Requeue)),
        qos("cheap", &[], Some(PreemptMode::Cancel)),
        qos("urgent", &low, Some(PreemptMode::Suspend)),
        qos("most-urgent", &all, None),
    ];
    ServiceConfig { qos, ..ServiceConfig::default() }
}

fn world(sched: &str) -> World {
    World::joined_serving(sched, 16, urgencies())
}

fn submit(world: &mut World, spec: JobSpec, qos: &str) -> JobId {
    let service = Service { qos: Some(qos.to_owned()), ..Service::default() };
    let spec = JobSpec { time_limit: Some(LIMIT), ..spec };
    let job = world.act(|core, now| core.submit_to(now, USER, spec, service, None));
    let job = job.expect("it is taken");
    world.begin_all();
    job
}

fn end(world: &mut World, job: JobId) {
    world.end_job(job, 0);
    world.begin_all();
}

fn state(world: &World, job: JobId) -> JobState {
    world.core.jobs[&job].state()
}

fn ran(world: &World, job: JobId) -> Duration {
    world.core.live.get(job).unwrap().run_time(world.now)
}

fn later(world: &mut World, time: Duration) {
    world.now = world.now + time;
}

#[test]
fn a_suspended_job_keeps_its_place_and_its_time_also_over_a_restart() {
    for sched in ["fcfs", "backfill", "easy-sjbf", "conservative", "sjf"] {
        let mut world = world(sched);
        let patient = submit(&mut world, spec(8, false, false), "patient");
        later(&mut world, Duration::from_secs(10));
        let urgent = submit(&mut world, spec(6, false, false), "urgent");
        assert_eq!(state(&world, patient), JobState::Suspended, "{sched}");
        assert_eq!(state(&world, urgent), JobState::Running, "{sched}");
        let told = world.core.explain(world.now, patient).unwrap().reason;
        assert!(told.starts_with("it is suspended for job 2"), "{told}");
        let before = ran(&world, patient);

        later(&mut world, Duration::from_secs(20));
        world.restart(|_| false, |_| false);
        check_all(&world);
        assert_eq!(state(&world, patient), JobState::Suspended, "{sched}");
        later(&mut world, Duration::from_secs(20));
        assert_eq!(ran(&world, patient), before, "{sched}");

        end(&mut world, urgent);
        assert_eq!(state(&world, patient), JobState::Running, "{sched}");
        later(&mut world, Duration::from_secs(5));
        let after = ran(&world, patient);
        assert!(after > before && after < before + Duration::from_secs(6), "{sched}: {after:?}");
        world.finish();
    }
}

#[test]
fn a_suspended_job_goes_on_after_a_restart_if_the_other_has_ended() {
    let mut world = world("backfill");
    let patient = submit(&mut world, spec(8, false, false), "patient");
    let urgent = submit(&mut world, spec(8, false, false), "urgent");
    // All nodes of the urgent job die with the manager.
    world.restart(|_| true, |_| false);
    check_all(&world);
    assert_eq!(world.timers_of_jobs(JobTimer::Recovery).len(), 2);
    world.finish();
    assert!(state(&world, patient).is_final() && state(&world, urgent).is_final());
}

#[test]
fn a_job_that_asked_for_it_waits_again_and_is_the_next() {
    let mut world = world("fcfs");
    let running = submit(&mut world, spec(8, false, true), "repeatable");
    let behind = submit(&mut world, spec(8, false, true), "repeatable");
    let urgent = submit(&mut world, spec(2, false, false), "urgent");
    assert_eq!(state(&world, running), JobState::Running, "until its processes have ended");
    end(&mut world, running);
    assert_eq!(state(&world, running), JobState::Pending);
    assert_eq!(state(&world, urgent), JobState::Running);
    end(&mut world, urgent);
    assert_eq!(state(&world, running), JobState::Running);
    assert_eq!(state(&world, behind), JobState::Pending);
    assert_eq!(world.core.jobs[&running].runs, 2);
    world.finish();
}

#[test]
fn nobody_is_run_twice_who_did_not_ask_for_it() {
    let mut world = world("backfill");
    let running = submit(&mut world, spec(8, false, false), "repeatable");
    let urgent = submit(&mut world, spec(2, false, false), "urgent");
    end(&mut world, running);
    assert_eq!(state(&world, running), JobState::Preempted);
    assert_eq!(state(&world, urgent), JobState::Running);
    world.finish();
}

#[test]
fn a_cancelled_job_says_for_whom() {
    let mut world = world("conservative");
    let cheap = submit(&mut world, spec(8, false, true), "cheap");
    let urgent = submit(&mut world, spec(2, false, false), "urgent");
    // The job gets a request to end, and is then killed.
    while let Some(kill) = world.timers_of_jobs(JobTimer::Kill).first().copied() {
        world.fire(kill);
    }
    assert!(world.parts.iter().any(|((_, job, _), (_, doomed))| *job == cheap && *doomed));
    end(&mut world, cheap);
    let (now, told) = (world.now, state(&world, cheap));
    assert_eq!((told, state(&world, urgent)), (JobState::Preempted, JobState::Running));
    let reason = world.core.explain(now, cheap).unwrap().reason;
    assert_eq!(reason, "it has ended: preempted by job 2");
    world.finish();
}

#[test]
fn a_suspended_job_stays_so_under_another_policy_and_has_a_slice_under_gang() {
    let mut world = world("fcfs");
    let patient = submit(&mut world, spec(8, false, false), "patient");
    let urgent = submit(&mut world, spec(8, false, false), "urgent");
    let switch = |world: &mut World, sched| {
        world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None)).unwrap();
        check_all(world);
    };
    switch(&mut world, "conservative");
    assert_eq!(state(&world, patient), JobState::Suspended);
    switch(&mut world, "gang");
    assert_eq!(state(&world, patient), JobState::Running);
    assert_eq!(state(&world, urgent), JobState::Running);
    assert_ne!(
        world.core.live.get(patient).unwrap().rows(),
        world.core.live.get(urgent).unwrap().rows()
    );
    world.finish();
}

#[test]
fn nobody_is_stopped_for_want_of_nodes_that_are_about_to_come_back() {
    let mut world = World::joined_serving("backfill", 1, urgencies());
    let cheap = submit(&mut world, spec(3, false, false), "cheap");
    // There is room for the urgent job, but not in the arrays of flags.
    let urgent = submit(&mut world, spec(1, false, false), "urgent");
    assert_eq!(
        (state(&world, cheap), state(&world, urgent)),
        (JobState::Running, JobState::Pending)
    );
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert_eq!(
        (state(&world, cheap), state(&world, urgent)),
        (JobState::Running, JobState::Pending)
    );
    world.finish();
}

#[test]
fn waiters_for_elements_are_the_same_after_a_restart() {
    let mut world = world("fcfs");
    // The two jobs take both elements of a node, one after the other.
    let patient = submit(&mut world, spec(1, false, false), "patient");
    let other = submit(&mut world, spec(1, false, false), "patient");
    let filler = submit(&mut world, spec(6, false, false), "most-urgent");
    let urgent = submit(&mut world, spec(1, false, false), "urgent");
    // The younger job makes room. Then an ordinary job gets the elements that the elder one leaves.
    assert_eq!(
        (state(&world, patient), state(&world, other)),
        (JobState::Running, JobState::Suspended)
    );
    end(&mut world, patient);
    let ordinary = world.submit(spec(1, false, false));
    world.begin_all();
    assert_eq!(state(&world, ordinary), JobState::Running);
    world.restart(|_| false, |_| false);
    check_all(&world);
    end(&mut world, urgent);
    assert_eq!(state(&world, other), JobState::Running, "its element is free");
    assert_eq!(state(&world, filler), JobState::Running);
    world.finish();
}

#[test]
fn many_suspended_jobs_of_a_node_outlive_the_manager() {
    let mut world = world("backfill");
    let low: Vec<JobId> =
        (0..8).map(|_| submit(&mut world, spec(1, false, false), "patient")).collect();
    let urgent = submit(&mut world, spec(8, false, false), "urgent");
    let most = submit(&mut world, spec(8, false, false), "most-urgent");
    for _ in 0..2 {
        world.restart(|_| false, |_| false);
        check_all(&world);
        assert!(low.iter().all(|job| state(&world, *job) == JobState::Suspended));
        assert_eq!(state(&world, urgent), JobState::Suspended);
    }
    end(&mut world, most);
    assert_eq!(state(&world, urgent), JobState::Running);
    end(&mut world, urgent);
    assert!(low.iter().all(|job| state(&world, *job) == JobState::Running));
    world.finish();
}
