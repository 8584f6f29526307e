//! The needs of jobs other than elements, and changes of policies, case by case.

use super::invariants::check_all;
use super::world::{ADMIN, USER, World, spec};
use crate::api::{ErrorCode, ForgottenJobs, JobFilter, JobState, Peer};
use crate::history::History;
use crate::job::Phase;
use crate::manager::{StageOutcome, TimerKind};
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::ExitStatus;
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

fn end(world: &mut World, job: JobId, code: u8) {
    while let Some(part) = world.parts.keys().find(|(_, of, _)| *of == job).copied() {
        world.part_over(part, ExitStatus::Code(code));
    }
    check_all(world);
}

/// All ranks of the jobs that are placed execute, and of those that start because of it.
fn begin(world: &mut World) {
    while !world.starts.is_empty() {
        world.started(0);
    }
    check_all(world);
}

fn starts(world: &World) -> Vec<u64> {
    let started = world.core.jobs.values().filter(|record| record.runs > 0);
    started.map(|record| record.id.0).collect()
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
    assert_eq!(starts(&world), [held.0]);
    assert_eq!(release(&mut world, ADMIN), Err(ErrorCode::BadRequest), "it has started");
    let error = world.act(|core, now| core.hold(now, USER, held)).expect_err("it has started");
    assert_eq!(error.code, ErrorCode::BadRequest);
    end(&mut world, held, 0);
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
    assert!(starts(&world).is_empty());
    world.act(|core, now| core.release_hold(now, USER, first)).expect("it is held");
    assert_eq!(starts(&world), [first.0], "its ranks do not execute yet");
    begin(&mut world);
    assert_eq!(starts(&world), [first.0, soon.0], "it has begun and goes on");
    assert!(reason(&world, later).contains("it waits for after:1+5, which is at "));
    world.act(|core, now| core.cancel(now, USER, second, None)).expect("it waits");
    assert_eq!(starts(&world), [first.0, soon.0, after_cancel.0]);
    world.restart(|_| false, |_| false);
    assert_eq!(starts(&world), [first.0, soon.0, after_cancel.0]);
    let begun = world.record(first).begun.expect("it has");
    // A job that has begun long ago is not waited for anew.
    end(&mut world, first, 0);
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
    begin(&mut world);
    assert_eq!(starts(&world), [array.0 + 1, array.0 + 2]);
    end(&mut world, JobId(array.0 + 1), 0);
    begin(&mut world);
    assert_eq!(starts(&world), [array.0 + 1, array.0 + 2, array.0 + 3, job.0]);
    check_all(&world);
}

#[test]
fn jobs_of_an_array_follow_those_of_the_same_index() {
    let mut world = World::joined("fcfs", 8);
    let first = world.submit(needy(array("2-6:2")));
    let corresponding =
        |text| Needs { array: array(text).array, ..after(Condition::AfterCorr(first)) };
    let second = world.submit(needy(corresponding("6,2,4")));
    let task = |array: JobId, offset: u64| JobId(array.0 + offset);
    end(&mut world, task(first, 2), 0);
    assert!(world.record(task(second, 2)).runs > 0, "4 follows 4");
    assert_eq!([1, 3].map(|offset| world.record(task(second, offset)).runs), [0, 0]);
    world.restart(|_| false, |_| false);
    end(&mut world, task(first, 1), 1);
    let reason = world.core.explain(world.now, task(second, 1)).unwrap().reason;
    assert!(reason.contains("aftercorr:1 can never be"), "{reason}");
    end(&mut world, task(first, 3), 0);
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
        end(&mut world, first, 0);
        world.edge();
        assert_eq!(starts(&world), [first.0, third.0], "{sched}");
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
    while starts(&world).is_empty() {
        assert!(world.core.explain(world.now, job).unwrap().reason.contains("BeginTime"));
        assert_eq!(world.timers.iter().filter(|timer| timer.3 == TimerKind::Begin).count(), 1);
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
    world.core.history = History::new(1);
    let (bad, good) = (world.submit(spec(1, false, false)), world.submit(spec(1, false, false)));
    let on = |condition| Needs { hold: true, ..after(condition) };
    let after_bad = world.submit(needy(on(Condition::AfterNotOk(bad))));
    let after_good = world.submit(needy(on(Condition::AfterOk(good))));
    let never = world.submit(needy(after(Condition::AfterOk(bad))));
    end_in_the_dark(&mut world, bad, 1);
    end_in_the_dark(&mut world, good, 0);
    assert!(!world.core.jobs.contains_key(&bad), "it is forgotten");
    let reason = world.core.explain(world.now, never).unwrap().reason;
    assert!(reason.contains("DependencyNeverSatisfied"), "{reason}");
    let unknown =
        world.act(|core, now| core.submit(now, USER, needy(after(Condition::AfterOk(bad)))));
    assert_eq!(unknown.expect_err("it is forgotten").code, ErrorCode::NoSuchJob);
    for job in [after_bad, after_good] {
        world.act(|core, now| core.release_hold(now, USER, job)).expect("it is held");
        assert!(starts(&world).contains(&job.0));
    }
}

/// A client that waited for an array got only the jobs that were remembered, and their status
/// alone.
#[test]
fn of_an_array_it_is_known_how_those_of_its_jobs_ended_that_are_forgotten() {
    let mut world = World::joined("fcfs", 8);
    world.core.history = History::new(2);
    let all = world.submit(needy(array("0-4")));
    assert_eq!(world.core.forgotten_of(&[all]), []);
    for (offset, code) in [(1, 0), (2, 7), (3, 3), (4, 0)] {
        end_in_the_dark(&mut world, JobId(all.0 + offset), code);
    }
    let told = ForgottenJobs { array: all, size: 5, jobs: 2, failed: 1, exit_code: 7 };
    assert_eq!(world.core.forgotten_of(&[all, JobId(99)]), std::slice::from_ref(&told));
    let (ended, left) = world.core.waited_for(world.now, &[all]).expect("it is known");
    assert_eq!(ended.iter().map(|job| job.exit_code).collect::<Vec<_>>(), [Some(3), Some(0)]);
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [JobId(all.0 + 5)]);
    let other = world.submit(spec(1, false, false));
    assert_eq!(world.core.forgotten_of(&[other]), []);
}

/// Ends a job without comparing with a journal that has forgotten jobs.
fn end_in_the_dark(world: &mut World, job: JobId, code: u8) {
    let part = *world.parts.keys().find(|(_, of, _)| *of == job).expect("it runs");
    world.part_over(part, ExitStatus::Code(code));
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
    end_in_the_dark(&mut world, first, 1);
    assert_eq!(world.unfinished(), []);
    assert_eq!(world.record(last).state(), JobState::Cancelled);
}

#[test]
fn an_array_runs_no_more_at_once_than_it_may_and_is_ended_as_a_whole() {
    let mut world = World::joined("fcfs", 8);
    let all = world.submit(needy(array("0-8:2%2")));
    assert_eq!(starts(&world), [all.0 + 1, all.0 + 2]);
    let reason = world.core.explain(world.now, JobId(all.0 + 4)).unwrap().reason;
    assert!(reason.contains("JobArrayTaskLimit"), "{reason}");
    let next = world.submit(needy(after(Condition::AfterNotOk(all))));
    assert!(next.0 > all.0 + 5, "the numbers of its jobs are theirs");
    end(&mut world, JobId(all.0 + 1), 0);
    assert_eq!(starts(&world).len(), 3);
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert_eq!(starts(&world).len(), 3);
    world.cancel(all);
    assert_eq!(starts(&world).len(), 3, "none starts because another goes");
    world.finish();
    check_all(&world);
    assert_eq!(world.record(next).state(), JobState::Completed);
    let journal = world.journal.iter().filter(|(job, _)| *job == all).count();
    assert_eq!(journal, 1, "one entry makes all of it");
    let too_many = world.act(|core, now| core.submit(now, USER, needy(array("0-100"))));
    assert_eq!(too_many.expect_err("array_max is 100").code, ErrorCode::TooLarge);
    world.core.config.array_max = 0;
    let none = world.act(|core, now| core.submit(now, USER, needy(array("0-1"))));
    assert_eq!(none.expect_err("none at all").message, "this cluster takes no arrays of jobs");
}

#[test]
fn singletons_of_a_name_run_one_after_the_other() {
    let mut world = World::joined("fcfs", 8);
    let jobs: Vec<JobId> =
        (0..3).map(|_| world.submit(needy(after(Condition::Singleton)))).collect();
    for (index, job) in jobs.iter().enumerate() {
        assert_eq!(starts(&world).len(), index + 1);
        end(&mut world, *job, 1);
    }
}

#[test]
fn a_partition_with_three_rows_drains_before_it_shares_space_and_loses_nothing() {
    let mut world = World::joined("gang", 8);
    let [first, next, last] = [0, 1, 2].map(|_| world.submit(spec(8, false, false)));
    world.edge();
    (0..world.starts.len()).for_each(|_| world.started(0));
    let queued: Vec<JobId> = (0..4).map(|_| world.submit(spec(5, false, false))).collect();
    let set = |world: &mut World, sched| {
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
        check_all(world);
        set.expect("there is one")
    };
    let refused = world.act(|core, now| core.set_partition(now, USER, "all", Some("fcfs"), None));
    assert_eq!(refused.expect_err("a user may not").code, ErrorCode::NotPermitted);
    let view = set(&mut world, "fcfs");
    assert_eq!((view.sched.as_str(), view.next_sched.as_deref()), ("gang", Some("fcfs")));
    let reason = world.core.explain(world.now, queued[0]).unwrap().reason;
    assert!(reason.contains("changes to fcfs"), "{reason}");
    let quantum = Some(Duration::from_millis(3));
    let refused = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
    let said = refused.expect_err("the policy to come has no slices").message;
    assert_eq!(said, "partition all is changing to fcfs, which cuts no time slices");
    world.edge();
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert!(world.core.slice(super::world::PARTITION).is_some(), "the rows go on");
    for job in [first, next] {
        assert_eq!(world.core.list_partitions()[0].sched, "gang");
        end(&mut world, job, 0);
        world.edge();
    }
    check_all(&world);
    let view = &world.core.list_partitions()[0];
    assert_eq!((view.sched.as_str(), view.next_sched.as_deref()), ("fcfs", None));
    assert_eq!(world.record(last).row.map(|row| row.0), Some(0), "it was in another");
    assert!(matches!(world.record(last).phase, Phase::Running | Phase::Starting));
    world.restart(|_| false, |_| false);
    assert_eq!(world.core.list_partitions()[0].sched, "fcfs");
    end(&mut world, last, 0);
    assert_eq!(starts(&world).len(), 4, "space is shared: one after the other");
    set(&mut world, "gang");
    assert!(starts(&world).len() > 4, "time is shared");
    world.node_down(NodeId(1));
    world.finish();
    check_all(&world);
    assert!(queued.iter().all(|job| matches!(world.record(*job).phase, Phase::Ended(_))));
}

#[test]
fn a_change_back_before_the_drain_is_over_takes_effect_at_once() {
    let mut world = World::joined("gang", 8);
    for _ in 0..2 {
        world.submit(spec(8, false, false));
    }
    world.edge();
    let queued = world.submit(spec(1, false, false));
    for sched in ["fcfs", "gang"] {
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
        set.expect("there is one");
        check_all(&world);
    }
    world.edge();
    assert!(starts(&world).contains(&queued.0));
    let quantum = Some(Duration::from_micros(1));
    let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
    assert_eq!(set.expect_err("too short").code, ErrorCode::BadRequest);
    let quantum = Some(Duration::from_millis(3));
    let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
    assert_eq!(set.expect("in range").quantum_us, Some(3_000));
    assert_eq!(world.core.slice(super::world::PARTITION), quantum);
}

#[test]
fn from_and_to_slices_of_communication_a_partition_changes_when_its_jobs_have_ended() {
    for [former, next] in [["bcs", "gang"], ["fcfs", "bcs"]] {
        let mut world = World::joined(former, 8);
        let set = |world: &mut World, sched| {
            let set =
                world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
            check_all(world);
            let view = set.expect("there is one");
            (view.sched, view.next_sched)
        };
        let running = world.submit(spec(8, false, false));
        world.started(0);
        assert_eq!(set(&mut world, next), (former.to_owned(), Some(next.to_owned())));
        assert_eq!(set(&mut world, former), (former.to_owned(), None), "it is taken back");
        set(&mut world, next);
        let queued = world.submit(spec(1, false, false));
        let reason = world.core.explain(world.now, queued).unwrap().reason;
        assert!(reason.contains("as soon as its jobs have ended"), "{reason}");
        end(&mut world, running, 0);
        assert_eq!(world.core.list_partitions()[0].sched, next);
        assert!(starts(&world).contains(&queued.0), "under the new policy");
        assert_eq!(set(&mut world, "sjf").1.is_some(), next == "bcs", "by the same rule");
        world.finish();
    }
}

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

/// `explain` said that there was no room, and not which jobs had it.
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

/// An ended job was listed under the present policy of its partition.
#[test]
fn an_ended_job_keeps_the_policy_under_which_it_ended() {
    let mut world = World::joined("gang", 4);
    let set = |world: &mut World, sched| {
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", Some(sched), None));
        set.expect("there is such a policy");
    };
    let ended = |world: &mut World| {
        let mut spec = spec(1, false, false);
        spec.needs.hold = true;
        let job = world.submit(spec);
        assert!(world.cancel(job));
        job
    };
    let first = ended(&mut world);
    set(&mut world, "fcfs");
    let jobs = [first, ended(&mut world)];
    set(&mut world, "sjf");
    for _ in 0..2 {
        let shown = jobs.map(|job| world.act(|core, now| core.show(now, job)));
        let shown = shown.map(|job| job.expect("it is known").view.sched);
        assert_eq!(shown, ["gang", "fcfs"]);
        world.restart(|_| false, |_| false);
    }
}
