//! Which jobs hold the elements that a waiting job needs, and when the waiting job starts at the
//! latest.

use super::world::{World, spec};
use crate::api::{JobFilter, JobState};
use crate::job::Phase;
use crate::manager::StageOutcome;
use std::time::Duration;
use storm_rm::{JobId, JobSpec};

#[test]
fn who_waits_for_a_job_with_a_limit_is_told_when_it_starts_at_the_latest() {
    const LIMIT: Duration = Duration::from_secs(60);
    let mut world = World::joined("backfill", 4);
    world.submit(JobSpec { time_limit: Some(LIMIT), ..spec(8, false, false) });
    let placed = world.now;
    let waits = world.submit(spec(8, false, false));
    let told = world.core.explain(world.now, waits).unwrap().estimate.expect("an estimate");
    let origin = world.core.config.origin;
    assert_eq!(told.duration_since(origin).unsigned_abs(), placed.since_origin() + LIMIT);
    let behind = world.submit(spec(8, false, false));
    assert_eq!(world.core.explain(world.now, behind).unwrap().estimate, None);
    let all = JobFilter::default();
    let listed = |world: &World| {
        let views = world.core.list_jobs(world.now, &all);
        views.iter().map(|view| view.estimate).collect::<Vec<_>>()
    };
    assert_eq!(listed(&world), [None, Some(told), None], "a listing says the same");
}

/// `explain` reported that there was no room, but not which jobs had the elements.
#[test]
fn who_waits_for_elements_is_told_who_has_them() {
    const LIMIT: Duration = Duration::from_secs(60);
    for sched in ["fcfs", "gang"] {
        let mut world = World::joined(sched, 8);
        let limited = JobSpec { time_limit: Some(LIMIT), ..spec(4, false, false) };
        let endless = world.submit(spec(4, false, false));
        let first = world.submit(limited);
        let placed = world.now;
        let mut of_all = vec![endless, first];
        let waits = loop {
            let next = world.submit(spec(8, false, false));
            if world.core.jobs[&next].phase == Phase::Pending {
                break next;
            }
            of_all.push(next);
        };
        let told = world.core.explain(world.now, waits).unwrap();
        let mut named: Vec<JobId> = told.held_by.iter().map(|holder| holder.job).collect();
        if sched == "fcfs" {
            assert_eq!(named, [first, endless], "who ends first is first");
            let until = told.held_by[0].until.expect("it has a limit");
            let since = until.duration_since(world.core.config.origin).unsigned_abs();
            assert_eq!(since, placed.since_origin() + LIMIT);
        } else {
            assert!(told.held_by.iter().all(|holder| holder.until.is_none()));
        }
        named.sort_unstable();
        assert_eq!(named, of_all);
        assert!(told.held_by.iter().all(|holder| holder.same_user && holder.pes >= 4));
        let said = format!("job {endless} holds 4 PEs and nothing says until when");
        assert!(told.details.contains(&said), "{:?}", told.details);
        let runs = world.core.explain(world.now, first).unwrap();
        assert_eq!(runs.held_by, [], "it waits for nobody");
    }
}

#[test]
fn a_start_is_as_near_after_a_restart_as_it_was_before() {
    const LIMIT: Duration = Duration::from_secs(60);
    let mut world = World::joined("backfill", 4);
    let runs = world.submit(JobSpec { time_limit: Some(LIMIT), ..spec(8, false, false) });
    while !world.stages.is_empty() {
        world.staged(0, Ok(StageOutcome::default()));
    }
    while !world.starts.is_empty() {
        world.started(0);
    }
    assert_eq!(world.record(runs).state(), JobState::Running);
    let waits = world.submit(spec(8, false, false));
    let told = |world: &World| world.core.explain(world.now, waits).unwrap().estimate;
    world.now = world.now + LIMIT / 2;
    let before = told(&world).expect("it is known");
    world.restart(|_| false, |_| false);
    let after = told(&world).expect("it is known");
    let later = after.duration_since(before);
    assert!(later < jiff::SignedDuration::from_secs(5), "{later}: the limit began anew");
}
