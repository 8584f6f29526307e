//! Jobs that are requeued, stopped and continued, and whose terms change.

use super::invariants::check_all;
use super::world::{ADMIN, NODES, PES, USER, World, spec};
use crate::ServiceConfig;
use crate::api::{ApiError, ErrorCode, JobChange, JobState};
use crate::job::{JobEventKind, Phase};
use crate::manager::JobTimer;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, Report};
use storm_rm::{Condition, Dependency, JobId, JobSpec, Needs, RowSet};

const LIMIT: Duration = Duration::from_secs(600);

impl World {
    /// One of the changes that users may make, which may be refused.
    pub(super) fn change(&mut self, job: JobId, what: u8) {
        let jobs = [job];
        let on = Dependency { any: false, conditions: vec![Condition::Singleton] };
        let change = match what {
            0 => return drop(self.act(|core, now| core.requeue_all(now, USER, &jobs))),
            1 => return drop(self.act(|core, now| core.stop_all(now, ADMIN, &jobs))),
            2 => return drop(self.act(|core, now| core.continue_all(now, ADMIN, &jobs))),
            3 => JobChange { name: Some("other".to_owned()), ..JobChange::default() },
            4 => JobChange { dependency: Some(on), ..JobChange::default() },
            _ => JobChange { time_limit: Some(Duration::from_millis(40)), ..JobChange::default() },
        };
        self.act(|core, now| core.update_all(now, USER, &jobs, &change));
    }

    fn update(&mut self, job: JobId, change: &JobChange) -> Result<(), ApiError> {
        self.act(|core, now| core.update_all(now, USER, &[job], change)).remove(0)
    }
}

/// A job that has all elements and runs.
fn running(sched: &str, requeue: bool) -> (World, JobId) {
    let mut world = World::joined(sched, 4);
    let plain = spec(NODES * PES, false, requeue);
    let job = world.submit(JobSpec { time_limit: Some(LIMIT), ..plain });
    world.started(0);
    (world, job)
}

#[test]
fn a_requeued_job_ends_everywhere_and_runs_again_from_its_beginning() {
    for requeue in [false, true] {
        let (mut world, job) = running("fcfs", requeue);
        world.act(|core, now| core.requeue_all(now, USER, &[job])).remove(0).unwrap();
        check_all(&world);
        assert_eq!(world.signals.len(), NODES as usize, "it is asked to end");
        assert_eq!(world.record(job).state(), JobState::Running);
        for part in world.parts.keys().copied().collect::<Vec<_>>() {
            world.part_over(part, ExitStatus::Signal(15));
        }
        check_all(&world);
        assert_eq!((world.record(job).runs, world.record(job).state()), (2, JobState::Pending));
        world.started(0);
        // The user may still cancel it while it is being requeued.
        world.act(|core, now| core.requeue_all(now, USER, &[job])).remove(0).unwrap();
        assert!(world.cancel(job));
        world.finish();
        assert_eq!(world.record(job).state(), JobState::Cancelled);
    }
}

#[test]
fn a_job_requeued_with_a_hold_waits_until_it_is_released() {
    let (mut world, job) = running("fcfs", false);
    world.act(|core, now| core.requeue_held_all(now, USER, &[job])).remove(0).unwrap();
    check_all(&world);
    for part in world.parts.keys().copied().collect::<Vec<_>>() {
        world.part_over(part, ExitStatus::Signal(15));
    }
    check_all(&world);
    assert_eq!((world.record(job).runs, world.record(job).state()), (1, JobState::Pending));
    let why = world.core.explain(world.now, job).unwrap().reason;
    assert!(why.contains("JobHeldUser"), "{why}");
    world.act(|core, now| core.release_hold(now, USER, job)).unwrap();
    world.started(0);
    check_all(&world);
    assert_eq!((world.record(job).runs, world.record(job).state()), (2, JobState::Running));
}

#[test]
fn a_node_lost_while_a_job_is_requeued_ends_a_job_that_must_not_run_twice() {
    for (requeue, state) in [(false, JobState::NodeFail), (true, JobState::Completed)] {
        let (mut world, job) = running("fcfs", requeue);
        world.act(|core, now| core.requeue_all(now, USER, &[job])).remove(0).unwrap();
        world.node_down(NodeId(2));
        // The node does not come back before the run is over elsewhere.
        for part in world.parts.keys().copied().collect::<Vec<_>>() {
            world.part_over(part, ExitStatus::Signal(15));
        }
        check_all(&world);
        world.finish();
        assert_eq!(world.record(job).state(), state);
    }
}

#[test]
fn a_stopped_job_keeps_its_elements_and_its_time_stands_still() {
    for sched in ["fcfs", "gang", "backfill"] {
        let (mut world, job) = running(sched, false);
        let refused = world.act(|core, now| core.stop_all(now, USER, &[job])).remove(0);
        assert_eq!(refused.unwrap_err().code, ErrorCode::NotPermitted);
        world.act(|core, now| core.stop_all(now, ADMIN, &[job])).remove(0).unwrap();
        check_all(&world);
        assert!(world.rows.values().all(|rows| *rows == RowSet::NONE));
        assert_eq!(world.record(job).state(), JobState::Suspended);
        let ran = world.core.live.get(job).unwrap().run_time(world.now);
        world.now = world.now + LIMIT;
        // The next manager leaves it stopped.
        world.restart(|_| false, |_| false);
        check_all(&world);
        world.now = world.now + LIMIT;
        let timer = *world.timers_of_jobs(JobTimer::TimeLimit).last().unwrap();
        world.fire(timer);
        assert_eq!(world.core.live.get(job).unwrap().run_time(world.now), ran);
        assert_eq!(world.record(job).state(), JobState::Suspended);
        let told = world.core.explain(world.now, job).unwrap().reason;
        assert!(told.contains("storm resume-job"), "{told}");
        world.act(|core, now| core.continue_all(now, ADMIN, &[job])).remove(0).unwrap();
        check_all(&world);
        assert_eq!(world.record(job).state(), JobState::Running);
        world.finish();
        assert_eq!(world.record(job).state(), JobState::Completed);
    }
}

#[test]
fn an_owner_shortens_a_limit_and_an_administrator_lengthens_it() {
    let (mut world, job) = running("fcfs", false);
    let of = |limit| JobChange { time_limit: Some(limit), ..JobChange::default() };
    let longer = world.update(job, &of(LIMIT * 2)).unwrap_err();
    assert_eq!(longer.code, ErrorCode::NotPermitted);
    world.update(job, &of(LIMIT / 2)).unwrap();
    let begun = world.now;
    let timer = *world.timers_of_jobs(JobTimer::TimeLimit).last().unwrap();
    assert!(world.timers[timer].0 <= begun + LIMIT / 2);
    let log = &world.record(job).log;
    assert!(log.iter().any(|entry| entry.text.contains("time limit 600 s -> 300 s")), "{log:?}");
    let unlimited = JobChange { no_time_limit: true, ..JobChange::default() };
    world.act(|core, now| core.update_all(now, ADMIN, &[job], &unlimited)).remove(0).unwrap();
    assert_eq!(world.record(job).spec.time_limit, None);
    world.restart(|_| false, |_| false);
    assert_eq!(world.record(job).spec.time_limit, None, "the journal has the change");
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
    assert_eq!(world.update(job, &unlimited).unwrap_err().code, ErrorCode::JobEnded);
}

#[test]
fn a_waiting_job_gets_another_name_and_other_jobs_to_wait_for() {
    let (mut world, first) = running("fcfs", false);
    let waits = world.submit(spec(1, false, false));
    let on = |condition| Dependency { any: false, conditions: vec![condition] };
    let itself =
        JobChange { dependency: Some(on(Condition::AfterOk(waits))), ..JobChange::default() };
    assert_eq!(world.update(waits, &itself).unwrap_err().code, ErrorCode::BadRequest);
    let singleton =
        JobChange { dependency: Some(on(Condition::Singleton)), ..JobChange::default() };
    world.update(waits, &singleton).unwrap();
    check_all(&world);
    let told = world.core.explain(world.now, waits).unwrap().reason;
    assert!(told.contains("singleton (Dependency)"), "{told}");
    // Under another name it is the first.
    let renamed = JobChange { name: Some("other".to_owned()), ..JobChange::default() };
    world.update(waits, &renamed).unwrap();
    check_all(&world);
    let told = world.core.explain(world.now, waits).unwrap().reason;
    assert!(!told.contains("Dependency"), "{told}");
    // A job that waits for the first of the name is told when that one gets another.
    let needs = Needs { dependency: Some(on(Condition::Singleton)), ..Needs::default() };
    let second = world.submit(JobSpec { needs, ..spec(1, false, false) });
    world.update(first, &renamed).unwrap();
    check_all(&world);
    let told = world.core.explain(world.now, second).unwrap().reason;
    assert!(!told.contains("Dependency"), "{told}");
    world.finish();
}

#[test]
fn a_job_that_takes_too_much_memory_ends_out_of_memory() {
    let (mut world, job) = running("fcfs", true);
    let incarnation = world.record(job).incarnation;
    let (step, reason) = (world.core.first_step(job), "n1 killed it".to_owned());
    world.report(NodeId(1), Report::OverMemory { step, incarnation, reason });
    check_all(&world);
    world.finish();
    assert_eq!(world.record(job).state(), JobState::OutOfMemory);
    let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it has ended") };
    assert_eq!(outcome.exit_code, 137);
    let unsigned = Command::SignalJob { step, signal: 15 };
    assert!(!world.signals.iter().any(|(_, command)| *command == unsigned));
}

#[test]
fn a_job_whose_partition_is_gone_runs_in_the_one_that_it_is_given() {
    let mut world = World::serving("fcfs", 4, ServiceConfig::default());
    let job = world.submit(spec(1, false, false));
    world.edit = |config| config.partitions[0].name = "others".to_owned();
    world.restart(|_| false, |_| false);
    let told = |world: &World| world.core.explain(world.now, job).unwrap().reason;
    assert!(told(&world).contains("PartitionConfig"), "{}", told(&world));
    let named = JobChange { comment: Some("a".to_owned()), ..JobChange::default() };
    world.update(job, &named).unwrap();
    assert!(told(&world).contains("PartitionConfig"), "{}", told(&world));
    let moved = JobChange { partition: Some("others".to_owned()), ..JobChange::default() };
    world.update(job, &moved).unwrap();
    assert!(!told(&world).contains("configuration"), "{}", told(&world));
    check_all(&world);
}

#[test]
fn a_job_with_another_comment_keeps_its_place_in_the_queue() {
    let (mut world, _) = running("fcfs", false);
    let [first, second] = [0; 2].map(|_| world.submit(spec(NODES * PES, false, false)));
    let comment = JobChange { comment: Some("a".to_owned()), ..JobChange::default() };
    world.update(first, &comment).unwrap();
    check_all(&world);
    for part in world.parts.keys().copied().collect::<Vec<_>>() {
        world.part_over(part, ExitStatus::Code(0));
    }
    assert_eq!([first, second].map(|job| world.record(job).runs), [1, 0]);
    world.finish();
    assert_eq!(world.record(first).spec.remarks.comment.as_deref(), Some("a"));
}

#[test]
fn jobs_of_an_array_share_what_changes_for_all_of_them() {
    let mut world = World::joined("fcfs", 4);
    let mut asked = spec(1, false, false);
    asked.needs.array = Some("1-50".parse().unwrap());
    asked.needs.hold = true;
    asked.step.argv.push("a".repeat(40_000).into());
    let array = world.submit(asked);
    let tasks = || (array.0 + 1..=array.0 + 50).map(JobId);
    for limit in [LIMIT, LIMIT / 2] {
        let change = JobChange { time_limit: Some(limit), ..JobChange::default() };
        world.act(|core, now| core.update_all(now, ADMIN, &[array], &change)).remove(0).unwrap();
        let shared = world.record(JobId(array.0 + 1)).spec.clone();
        assert!(tasks().all(|task| Rc::ptr_eq(&world.record(task).spec, &shared)));
        let held = world.core.jobs.held_bytes_with(&shared);
        assert!(held < 2 * 44_000, "{held} bytes");
    }
    world.restart(|_| false, |_| false);
    let shared = world.record(JobId(array.0 + 1)).spec.clone();
    assert!(tasks().all(|task| Rc::ptr_eq(&world.record(task).spec, &shared)));
    check_all(&world);
}

#[test]
fn jobs_cannot_be_made_to_wait_for_each_other() {
    let (mut world, _) = running("fcfs", false);
    let on = |job| Dependency { any: false, conditions: vec![Condition::AfterOk(job)] };
    let after = |job| Needs { dependency: Some(on(job)), ..Needs::default() };
    let first = world.submit(spec(1, false, false));
    let second = world.submit(JobSpec { needs: after(first), ..spec(1, false, false) });
    let third = world.submit(JobSpec { needs: after(second), ..spec(1, false, false) });
    for other in [second, third] {
        let change = JobChange { dependency: Some(on(other)), ..JobChange::default() };
        let refused = world.update(first, &change).unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadRequest);
        assert!(refused.message.contains("which waits for it"), "{refused:?}");
    }
    let change = JobChange { dependency: Some(on(first)), ..JobChange::default() };
    world.update(third, &change).unwrap();
    check_all(&world);
}

/// Regression: each job of the array looked at all jobs of the other, and the manager stood still.
#[test]
fn arrays_cannot_be_made_to_wait_for_each_other() {
    let mut world = World::joined("fcfs", 4);
    let array = || Needs { array: Some("0-99".parse().unwrap()), hold: true, ..Needs::default() };
    let [one, other] =
        [(); 2].map(|()| world.submit(JobSpec { needs: array(), ..spec(1, false, false) }));
    let after = |job| {
        let conditions = vec![Condition::AfterAny(job)];
        let dependency = Some(Dependency { any: false, conditions });
        JobChange { dependency, ..JobChange::default() }
    };
    world.update(one, &after(other)).unwrap();
    let tasks = || (one.0 + 1..=one.0 + 100).map(JobId);
    let waits = |world: &World, job| world.record(job).spec.needs.dependency.is_some();
    assert!(tasks().all(|task| waits(&world, task)));
    // A job of it, too: the other array waits for all.
    let last = tasks().next_back().unwrap();
    for on in [one, last] {
        let refused = world.update(other, &after(on)).unwrap_err();
        assert!(refused.message.contains("which waits for it"), "{refused:?}");
    }
    // One of the array's jobs waits for the other array already, and no job for this one.
    let held = Needs { hold: true, ..Needs::default() };
    let single = world.submit(JobSpec { needs: held, ..spec(1, false, false) });
    world.update(single, &after(last)).unwrap();
    let outcomes = world.act(|core, now| core.update_all(now, USER, &[one, other], &after(single)));
    assert!(outcomes[0].is_ok(), "the other 99 can wait for it: {outcomes:?}");
    assert!(!waits(&world, JobId(other.0 + 1)), "all jobs of the first wait for it");
    check_all(&world);
}

#[test]
fn a_job_forgets_what_it_heard_of_jobs_that_it_waits_for_no_longer() {
    let (mut world, first) = running("fcfs", false);
    let other = world.submit(spec(1, false, false));
    world.finish();
    let mut needs = Needs { hold: true, ..Needs::default() };
    let on = |job| Dependency { any: false, conditions: vec![Condition::AfterAny(job)] };
    needs.dependency = Some(on(first));
    let job = world.submit(JobSpec { needs, ..spec(1, false, false) });
    let heard = |world: &World| world.record(job).ended_before.keys().copied().collect::<Vec<_>>();
    assert_eq!(heard(&world), [first]);
    let change = JobChange { dependency: Some(on(other)), ..JobChange::default() };
    world.update(job, &change).unwrap();
    assert_eq!(heard(&world), [other]);
    let named = JobChange { name: Some("other".to_owned()), ..JobChange::default() };
    world.update(job, &named).unwrap();
    assert_eq!(heard(&world), [other]);
    let none = JobChange { no_dependency: true, ..JobChange::default() };
    world.update(job, &none).unwrap();
    assert_eq!(heard(&world), []);
    check_all(&world);
}

#[test]
fn the_time_of_a_stopped_job_stands_still_when_its_partition_gets_another_policy() {
    let (mut world, job) = running("fcfs", false);
    world.act(|core, now| core.stop_all(now, ADMIN, &[job])).remove(0).unwrap();
    let ran = world.core.live.get(job).unwrap().run_time(world.now);
    world.act(|core, now| {
        let time = core.live.get(job).unwrap().run_time(now);
        core.append(now, job, JobEventKind::Ran { time });
    });
    world.now = world.now + LIMIT;
    world.restart(|_| false, |_| false);
    assert_eq!(world.core.live.get(job).unwrap().run_time(world.now), ran);
    assert_eq!(world.record(job).ran_at, None);
    check_all(&world);
}

#[test]
fn a_user_does_not_requeue_a_job_without_end() {
    let (mut world, job) = running("fcfs", true);
    let requeue = |world: &mut World, peer| {
        world.act(|core, now| core.requeue_all(now, peer, &[job])).remove(0)
    };
    let mut left = 2_000;
    while requeue(&mut world, USER).is_ok() {
        left -= 1;
        assert!(left > 0, "it is requeued without end");
        for part in world.parts.keys().copied().collect::<Vec<_>>() {
            world.part_over(part, ExitStatus::Signal(15));
        }
        world.started(0);
    }
    assert_eq!(world.record(job).runs, 1_000);
    requeue(&mut world, ADMIN).unwrap();
    check_all(&world);
}

/// Regression: it waited for elements already, and began before the job that took its name.
#[test]
fn a_singleton_waits_for_an_earlier_job_that_takes_its_name() {
    let mut world = World::joined("fcfs", 4);
    let first = world.submit(spec(NODES * PES, false, false));
    world.started(0);
    let [earlier, later] = [(); 2].map(|()| world.submit(spec(1, false, false)));
    world.change(later, 3);
    world.change(later, 4);
    world.change(earlier, 3);
    let reason = |world: &World| world.core.need_reason(world.now, later);
    assert!(reason(&world).is_some_and(|why| why.contains("singleton")), "{:?}", reason(&world));
    world.cancel(first);
    world.finish();
    check_all(&world);
}
