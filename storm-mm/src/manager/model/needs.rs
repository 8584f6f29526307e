//! The needs of jobs other than elements, case by case.

use super::invariants::check_all;
use super::world::{ADMIN, USER, World, spec};
use crate::api::{ErrorCode, ForgottenJobs, JobState, Peer};
use crate::journal::Entry;
use crate::manager::JobTimer;
use std::time::Duration;
use storm_rm::{Condition, Dependency, JobId, JobSpec, Needs};

fn needy(needs: Needs) -> JobSpec {
    JobSpec { needs, ..spec(1, false, false) }
}

fn after(condition: Condition) -> Needs {
    let dependency = Dependency { any: false, conditions: vec![condition] };
    Needs { dependency: Some(dependency), ..Needs::default() }
}

fn array(text: &str) -> Needs {
    Needs { array: Some(text.parse().expect("an array")), ..Needs::default() }
}

#[test]
fn the_word_of_a_login_host_makes_nobody_an_administrator() {
    let world = World::joined("fcfs", 4);
    assert!(world.core.is_admin(ADMIN));
    assert!(!world.core.is_admin(Peer { by_door: true, ..ADMIN }));
}

#[test]
fn who_holds_a_job_says_who_releases_it() {
    let mut world = World::joined("fcfs", 8);
    let held = world.submit(needy(Needs { hold: true, ..Needs::default() }));
    let stranger = Peer { uid: 7, ..USER };
    let release = |world: &mut World, peer| {
        world.act(|core, now| core.release_hold(now, peer, held)).map_err(|error| error.code)
    };
    assert_eq!(release(&mut world, stranger), Err(ErrorCode::NotPermitted));
    world.act(|core, now| core.hold(now, ADMIN, held)).expect("an administrator may");
    world.act(|core, now| core.hold(now, USER, held)).expect("it is held already");
    assert_eq!(release(&mut world, USER), Err(ErrorCode::NotPermitted));
    world.restart(|_| false, |_| false);
    assert!(world.core.explain(world.now, held).unwrap().reason.contains("JobHeldAdmin"));
    assert_eq!(release(&mut world, ADMIN), Ok(()));
    assert_eq!(world.started_jobs(), [held.0]);
    assert_eq!(release(&mut world, ADMIN), Err(ErrorCode::BadRequest), "it has started");
    let error = world.act(|core, now| core.hold(now, USER, held)).expect_err("it has started");
    assert_eq!(error.code, ErrorCode::BadRequest);
    world.end_job(held, 0);
}

#[test]
fn holds_and_releases_without_end_leave_a_log_of_bounded_length() {
    let mut world = World::joined("fcfs", 8);
    world.submit(spec(8, false, false));
    let job = world.submit(spec(1, false, false));
    for _ in 0..500 {
        world.act(|core, now| core.hold(now, USER, job)).expect("it waits");
        world.act(|core, now| core.release_hold(now, USER, job)).expect("it is held");
    }
    let log = &world.record(job).log;
    assert!(log.len() <= 128, "{}", log.len());
    assert_eq!((log[0].event.as_str(), log[8].event.as_str()), ("submitted", "log"));
    assert_eq!(log.last().map(|entry| entry.event.as_str()), Some("released"));
    assert!(log.is_sorted_by_key(|entry| entry.time));
}

#[test]
fn a_reason_names_some_conditions_of_many() {
    let mut world = World::joined("fcfs", 32);
    let waits_for: Vec<Condition> = (0..20)
        .map(|_| Condition::AfterOk(world.submit(needy(Needs { hold: true, ..Needs::default() }))))
        .collect();
    let dependency = Some(Dependency { any: true, conditions: waits_for });
    let job = world.submit(needy(Needs { dependency, ..Needs::default() }));
    let reason = world.core.explain(world.now, job).unwrap().reason;
    assert!(reason.ends_with("afterok:8 or 12 more (Dependency)"), "{reason}");
}

#[test]
fn a_job_follows_the_begin_of_another_or_its_end_without_one_after_a_delay() {
    let mut world = World::joined("fcfs", 8);
    let first = world.submit(needy(Needs { hold: true, ..Needs::default() }));
    let second = world.submit(needy(Needs { hold: true, ..Needs::default() }));
    let on = |job, minutes| needy(after(Condition::After { job, minutes }));
    let (soon, later) = (world.submit(on(first, 0)), world.submit(on(first, 5)));
    let after_cancel = world.submit(on(second, 0));
    let reason = |world: &World, job| world.core.explain(world.now, job).unwrap().reason;
    assert_eq!(reason(&world, later), "it waits for after:1+5 (Dependency)");
    assert!(world.started_jobs().is_empty());
    world.act(|core, now| core.release_hold(now, USER, first)).expect("it is held");
    assert_eq!(world.started_jobs(), [first.0], "its ranks do not execute yet");
    world.begin_all();
    assert_eq!(world.started_jobs(), [first.0, soon.0], "it has begun and goes on");
    assert!(reason(&world, later).contains("it waits for after:1+5, which is at "));
    world.act(|core, now| core.cancel(now, USER, second, None)).expect("it waits");
    assert_eq!(world.started_jobs(), [first.0, soon.0, after_cancel.0]);
    world.restart(|_| false, |_| false);
    assert_eq!(world.started_jobs(), [first.0, soon.0, after_cancel.0]);
    let begun = world.record(first).begun.expect("it has");
    // A job that has begun long ago is not waited for anew.
    world.end_job(first, 0);
    for _ in 0..10 {
        world.timer();
    }
    assert!(world.record(later).runs > 0);
    assert!(world.core.wall(world.now) >= begun + jiff::SignedDuration::from_mins(5));
    let at_once = world.submit(on(first, 5));
    assert!(world.record(at_once).runs > 0, "{}", reason(&world, at_once));
    check_all(&world);
}

#[test]
fn the_begin_of_an_array_is_that_of_its_last_job() {
    let mut world = World::joined("fcfs", 8);
    let array = world.submit(needy(array("1-3%2")));
    let job = world.submit(needy(after(Condition::After { job: array, minutes: 0 })));
    world.begin_all();
    assert_eq!(world.started_jobs(), [array.0 + 1, array.0 + 2]);
    world.end_job(JobId(array.0 + 1), 0);
    world.begin_all();
    assert_eq!(world.started_jobs(), [array.0 + 1, array.0 + 2, array.0 + 3, job.0]);
    check_all(&world);
}

/// Regression: `cancel` of an array that was over said that one of its jobs had ended.
#[test]
fn an_array_that_is_over_is_told_as_a_whole() {
    let mut world = World::joined("fcfs", 8);
    let array = world.submit(needy(array("0-1")));
    world.finish();
    let refused = world.act(|core, now| core.cancel(now, USER, array, None)).expect_err("over");
    assert_eq!(refused.code, ErrorCode::JobEnded);
    assert_eq!(refused.message, format!("job {array} has ended: all jobs of the array are over"));
    let one = JobId(array.0 + 1);
    let refused = world.act(|core, now| core.cancel(now, USER, one, None)).expect_err("over");
    assert_eq!(refused.message, format!("job {array}_0 has ended: COMPLETED"));
}

#[test]
fn jobs_of_an_array_follow_those_of_the_same_index() {
    let mut world = World::joined("fcfs", 8);
    let first = world.submit(needy(array("2-6:2")));
    let corresponding =
        |text| Needs { array: array(text).array, ..after(Condition::AfterCorr(first)) };
    let second = world.submit(needy(corresponding("6,2,4")));
    let task = |array: JobId, offset: u64| JobId(array.0 + offset);
    world.end_job(task(first, 2), 0);
    assert!(world.record(task(second, 2)).runs > 0, "4 follows 4");
    assert_eq!([1, 3].map(|offset| world.record(task(second, offset)).runs), [0, 0]);
    world.restart(|_| false, |_| false);
    world.end_job(task(first, 1), 1);
    let reason = world.core.explain(world.now, task(second, 1)).unwrap().reason;
    assert!(reason.contains("aftercorr:1 can never be"), "{reason}");
    world.end_job(task(first, 3), 0);
    assert!(world.record(task(second, 3)).runs > 0);
    let refused = world.act(|core, now| core.submit(now, USER, needy(corresponding("2-5"))));
    let refused = refused.expect_err("there is no 3");
    assert_eq!(refused.message, "array 1 has no job of index 3");
    // A job outside of an array waits for the whole array.
    let one = world.submit(needy(after(Condition::AfterCorr(task(first, 2)))));
    let whole = world.submit(needy(after(Condition::AfterCorr(first))));
    assert!(world.record(one).runs > 0);
    let reason = world.core.explain(world.now, whole).unwrap().reason;
    assert!(reason.contains("afterok:1 can never be"), "{reason}");
    check_all(&world);
}

#[test]
fn thousands_of_conditions_are_one_dependency_and_their_memory_is_bounded() {
    let mut world = World::joined("fcfs", 8);
    let held = Needs { hold: true, ..Needs::default() };
    let on: Vec<JobId> = (0..1500).map(|_| world.submit(needy(held.clone()))).collect();
    let needs = |conditions| {
        let dependency = Some(Dependency { any: false, conditions });
        needy(Needs { dependency, ..Needs::default() })
    };
    let all = world.submit(needs(on.iter().copied().map(Condition::AfterAny).collect()));
    world.act(|core, now| core.cancel_all(now, USER, &on, None, &[]));
    assert!(world.record(all).runs > 0);
    let most = || needs(vec![Condition::AfterAny(on[0]); Dependency::MAX_CONDITIONS]);
    let mut submit = |spec| world.act(|core, now| core.submit(now, USER, spec));
    let error = submit(needs(vec![Condition::AfterAny(on[0]); Dependency::MAX_CONDITIONS + 1]));
    assert_eq!(error.expect_err("one too many").code, ErrorCode::BadRequest);
    let refused = (0..20).find_map(|_| submit(JobSpec { procs: 8, ..most() }).err());
    assert_eq!(refused.map(|error| error.code), Some(ErrorCode::QueueFull));
}

#[test]
fn a_job_taken_out_of_its_queue_lets_the_next_one_start() {
    for sched in ["fcfs", "gang"] {
        let mut world = World::joined(sched, 1);
        let first = world.submit(spec(8, false, false));
        let (second, third) =
            (world.submit(spec(8, false, false)), world.submit(spec(8, false, false)));
        world.act(|core, now| core.hold(now, USER, second)).expect("it waits");
        check_all(&world);
        world.end_job(first, 0);
        world.edge();
        assert_eq!(world.started_jobs(), [first.0, third.0], "{sched}");
        world.finish();
        check_all(&world);
    }
}

#[test]
fn a_job_begins_at_its_time_and_not_before_also_over_a_restart() {
    let mut world = World::joined("fcfs", 8);
    let later = jiff::SignedDuration::from_secs(3 * 86_400);
    let begin = Some(world.core.wall(world.now) + later);
    let job = world.submit(needy(Needs { begin, ..Needs::default() }));
    world.restart(|_| false, |_| false);
    let mut timers = 0;
    while world.started_jobs().is_empty() {
        assert!(world.core.explain(world.now, job).unwrap().reason.contains("BeginTime"));
        assert_eq!(world.timers_of_jobs(JobTimer::Begin).len(), 1);
        world.timer();
        timers += 1;
    }
    assert_eq!(timers, 3, "the clock is read once a day");
    check_all(&world);
    assert!(world.now.since_origin() >= Duration::from_secs(3 * 86_400));
}

#[test]
fn dependents_hear_of_ends_that_are_forgotten_before_they_start() {
    let mut world = World::joined("fcfs", 8);
    world.core.jobs.set_history_limit(1);
    let (bad, good) = (world.submit(spec(1, false, false)), world.submit(spec(1, false, false)));
    let on = |condition| Needs { hold: true, ..after(condition) };
    let after_bad = world.submit(needy(on(Condition::AfterNotOk(bad))));
    let after_good = world.submit(needy(on(Condition::AfterOk(good))));
    let never = world.submit(needy(after(Condition::AfterOk(bad))));
    world.end_job_unchecked(bad, 1);
    world.end_job_unchecked(good, 0);
    assert!(!world.core.jobs.contains_key(&bad), "it is forgotten");
    let reason = world.core.explain(world.now, never).unwrap().reason;
    assert!(reason.contains("DependencyNeverSatisfied"), "{reason}");
    let unknown =
        world.act(|core, now| core.submit(now, USER, needy(after(Condition::AfterOk(bad)))));
    assert_eq!(unknown.expect_err("it is forgotten").code, ErrorCode::NoSuchJob);
    for job in [after_bad, after_good] {
        world.act(|core, now| core.release_hold(now, USER, job)).expect("it is held");
        assert!(world.started_jobs().contains(&job.0));
    }
}

/// A client that waited for an array got only the jobs that were remembered, and their status
/// alone.
#[test]
fn of_an_array_it_is_known_how_those_of_its_jobs_ended_that_are_forgotten() {
    let mut world = World::joined("fcfs", 8);
    world.core.jobs.set_history_limit(2);
    let all = world.submit(needy(array("0-4")));
    assert_eq!(world.core.forgotten_of(&[all]), []);
    for (offset, code) in [(1, 0), (2, 7), (3, 3), (4, 0)] {
        world.end_job_unchecked(JobId(all.0 + offset), code);
    }
    let told = ForgottenJobs { array: all, size: 5, jobs: 2, failed: 1, exit_code: 7 };
    assert_eq!(world.core.forgotten_of(&[all, JobId(99)]), std::slice::from_ref(&told));
    let (ended, left) = world.core.waited_for(world.now, &[all]).expect("it is known");
    assert_eq!(ended.iter().map(|job| job.exit_code).collect::<Vec<_>>(), [Some(3), Some(0)]);
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [JobId(all.0 + 5)]);
    let other = world.submit(spec(1, false, false));
    assert_eq!(world.core.forgotten_of(&[other]), []);
}

#[test]
fn a_long_chain_of_jobs_that_can_never_start_ends_without_end_of_the_stack() {
    let mut world = World::joined("fcfs", 8);
    let mut last = world.submit(spec(1, false, false));
    let first = last;
    for _ in 0..5_000 {
        let needs = Needs { kill_on_invalid_dep: true, ..after(Condition::AfterOk(last)) };
        last = world.submit(needy(needs));
    }
    world.end_job_unchecked(first, 1);
    assert_eq!(world.unfinished(), []);
    assert_eq!(world.record(last).state(), JobState::Cancelled);
}

#[test]
fn an_array_runs_no_more_at_once_than_it_may_and_is_ended_as_a_whole() {
    let mut world = World::joined("fcfs", 8);
    let all = world.submit(needy(array("0-8:2%2")));
    assert_eq!(world.started_jobs(), [all.0 + 1, all.0 + 2]);
    let reason = world.core.explain(world.now, JobId(all.0 + 4)).unwrap().reason;
    assert!(reason.contains("JobArrayTaskLimit"), "{reason}");
    let next = world.submit(needy(after(Condition::AfterNotOk(all))));
    assert!(next.0 > all.0 + 5, "the numbers of its jobs are theirs");
    world.end_job(JobId(all.0 + 1), 0);
    assert_eq!(world.started_jobs().len(), 3);
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert_eq!(world.started_jobs().len(), 3);
    world.cancel(all);
    assert_eq!(world.started_jobs().len(), 3, "none starts because another goes");
    world.finish();
    check_all(&world);
    assert_eq!(world.record(next).state(), JobState::Completed);
    let journal =
        world.journal.iter().filter_map(Entry::of_job).filter(|(job, _)| *job == all).count();
    assert_eq!(journal, 1, "one entry makes all of it");
    let too_many = world.act(|core, now| core.submit(now, USER, needy(array("0-100"))));
    assert_eq!(too_many.expect_err("array_max is 100").code, ErrorCode::TooLarge);
    world.core.config.edit().array_max = 0;
    let none = world.act(|core, now| core.submit(now, USER, needy(array("0-1"))));
    assert_eq!(none.expect_err("none at all").message, "this cluster takes no arrays of jobs");
}

#[test]
fn singletons_of_a_name_run_one_after_the_other() {
    let mut world = World::joined("fcfs", 8);
    let jobs: Vec<JobId> =
        (0..3).map(|_| world.submit(needy(after(Condition::Singleton)))).collect();
    for (index, job) in jobs.iter().enumerate() {
        assert_eq!(world.started_jobs().len(), index + 1);
        world.end_job(*job, 1);
    }
}
