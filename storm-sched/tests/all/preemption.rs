//! Jobs that get the PEs of others: every policy that shares space, and gang scheduling, run in the
//! suite, with and without reservations.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use storm_sched::suite::{self, Coverage, Invariant, Workload};
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, MatrixQueue, MplLimit, NodeIndex, Packing, Pe,
    PendingReason, Placement, PolicyParams, Precedence, PreemptMode, QosId, Reservation,
    ReservationId, Row, SchedTime, registry,
};

/// The number of runs of each policy, without reservations and with them.
const SEEDS: u64 = 60;
/// The policies that share space.
const POLICIES: [&str; 5] = ["fcfs", "easy", "easy-sjbf", "conservative", "sjf"];

/// The actions of the policies, each over equally many runs; panics if one broke an invariant.
fn covered(
    workload: fn(u64) -> Workload,
    invariants: fn() -> Vec<Box<dyn Invariant>>,
) -> Vec<(&'static str, Coverage)> {
    let params = PolicyParams::default();
    let run = |name| {
        let make = |machine| registry::by_name(name, machine, &params).unwrap();
        let run = suite::run_seeds_of(0..SEEDS, workload, &make, &invariants);
        (name, run.map_err(|failure| format!("{failure}: {}", failure.why)))
    };
    let (mut held, mut broken) = (Vec::new(), Vec::new());
    for (name, run) in POLICIES.map(run) {
        match run {
            Ok(coverage) => held.push((name, coverage)),
            Err(why) => broken.push(why),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    held
}

#[test]
fn preemption_is_lawful_under_every_space_sharing_policy() {
    for (name, covered) in covered(Workload::preempting, suite::preempting) {
        assert!(covered.starts > 20 * covered.runs, "{name}: {covered:?}");
        assert!(covered.preemptions > covered.runs, "{name}: {covered:?}");
        assert!(covered.resumptions > covered.runs / 2, "{name}: {covered:?}");
    }
}

#[test]
fn jobs_are_preempted_among_reservations_and_these_are_kept() {
    let both = covered(Workload::reserving_and_preempting, suite::reserving_and_preempting);
    for (name, covered) in both {
        assert!(covered.starts > 15 * covered.runs, "{name}: {covered:?}");
        assert!(covered.preemptions > covered.runs, "{name}: {covered:?}");
        assert!(covered.resumptions > covered.runs / 4, "{name}: {covered:?}");
    }
}

/// The actions of gang scheduling with these settings, summed over workloads of a kind.
fn covered_by_gang(params: PolicyParams, workload: fn(u64) -> Workload, seeds: u64) -> Coverage {
    let limit = params.mpl_limit;
    let make = |machine| registry::by_name("gang", machine, &params).unwrap();
    let invariants = || suite::gang_preempting(limit);
    let run = suite::run_seeds_of(0..seeds, workload, &make, &invariants);
    run.unwrap_or_else(|failure| panic!("{params:?}: {failure}: {}", failure.why))
}

fn of_rows(rows: u32) -> PolicyParams {
    PolicyParams { mpl_limit: MplLimit::try_from(rows).unwrap(), ..PolicyParams::default() }
}

#[test]
fn making_room_is_lawful_under_gang_scheduling() {
    for rows in [1, 2, 4] {
        for workload in [Workload::preempting, Workload::reserving_and_preempting] {
            let covered = covered_by_gang(of_rows(rows), workload, SEEDS);
            assert!(covered.starts > 15 * covered.runs, "{rows}: {covered:?}");
            // With four rows, jobs lack room less often than with one.
            assert!(covered.preemptions > covered.runs / 4, "{rows}: {covered:?}");
            assert_eq!(covered.resumptions, 0);
        }
    }
}

#[test]
fn making_room_is_lawful_under_every_kind_of_gang_scheduling() {
    for packing in Packing::ALL {
        for queue in [MatrixQueue::Fcfs, MatrixQueue::Easy] {
            let modes = PolicyParams { packing, queue, ..of_rows(2) };
            let params = PolicyParams { alternative_scheduling: true, unification: true, ..modes };
            let covered = covered_by_gang(params, Workload::preempting, SEEDS / 6);
            assert!(covered.preemptions > 0, "{params:?}: {covered:?}");
        }
    }
    let params = PolicyParams { repack: true, ..of_rows(2) };
    // Rows of jobs that are moved are new rows.
    let covered = suite::run_seeds_of(
        0..SEEDS / 6,
        Workload::preempting,
        &|machine| registry::by_name("gang", machine, &params).unwrap(),
        &|| {
            vec![
                Box::new(suite::invariants::PreemptionLawful),
                Box::new(suite::invariants::SameState),
            ]
        },
    );
    let covered = covered.unwrap_or_else(|failure| panic!("{failure}: {}", failure.why));
    assert!(covered.migrations > 0 && covered.preemptions > 0, "{covered:?}");
}

/// A job that was suspended before a restart of the manager continues when the other job has ended,
/// and not before.
#[test]
fn a_suspended_job_is_taken_over_as_suspended() {
    let machine = Machine::uniform(2, 2).unwrap();
    let all = Placement::new(&machine, (0..4).map(Pe).collect()).unwrap();
    let restore = |job: u64, qos: u16, preempts: Vec<QosId>| {
        let mode = Some(PreemptMode::Suspend);
        let precedence = Arc::new(Precedence { qos: QosId(qos), preempts, mode });
        let request = JobRequest::new(JobId(job), 4).with_precedence(precedence);
        Event::Restore { request, placement: all.clone(), row: Row(0), ran: Duration::ZERO }
    };
    for name in POLICIES {
        let params = PolicyParams::default();
        let mut policy = registry::by_name(name, machine.clone(), &params).unwrap();
        let events =
            vec![restore(1, 1, vec![]), Event::Suspended(JobId(1)), restore(2, 2, vec![QosId(1)])];
        let taken = policy.handle_together(SchedTime::ZERO, events);
        assert_eq!(taken, [Action::Activate { row: Row(0) }], "{name}");
        let ended = policy.handle(SchedTime::from_secs(1), Event::Finished(JobId(2)));
        let expected = [Action::Resume { job: JobId(1) }, Action::Activate { row: Row(0) }];
        assert_eq!(ended, expected, "{name}");
        policy.check().unwrap();
    }
}

/// A request for all four PEs of a quality that preempts those of lower numbers.
fn of_quality(job: u64, qos: u16) -> JobRequest {
    let preempts = (0..qos).map(QosId).collect();
    let precedence = Precedence { qos: QosId(qos), preempts, mode: Some(PreemptMode::Suspend) };
    JobRequest::new(JobId(job), 4).with_precedence(Arc::new(precedence))
}

/// Suspended jobs lie on top of each other. The first to resume is the job that no other suspended
/// job precedes.
#[test]
fn the_job_stopped_last_resumes_first_if_it_lies_over_others() {
    for name in POLICIES {
        let machine = Machine::uniform(2, 2).unwrap();
        let mut policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        let time = SchedTime::from_secs;
        for qos in 0..3 {
            policy.handle(time(qos), Event::Submit(of_quality(qos, qos as u16)));
        }
        let ended = policy.handle(time(9), Event::Finished(JobId(2)));
        assert!(ended.contains(&Action::Resume { job: JobId(1) }), "{name}: {ended:?}");
        assert!(!ended.contains(&Action::Resume { job: JobId(0) }), "{name}: {ended:?}");
        let ended = policy.handle(time(10), Event::Finished(JobId(1)));
        assert!(ended.contains(&Action::Resume { job: JobId(0) }), "{name}: {ended:?}");
        policy.check().unwrap();
    }
}

/// No job resumes on columns of a job that precedes it and waits for the rest of its own columns.
#[test]
fn no_job_resumes_on_columns_that_a_preceding_job_waits_for() {
    for name in POLICIES {
        let machine = Machine::uniform(2, 2).unwrap();
        let mut policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        let time = SchedTime::from_secs;
        let half = |job, qos| {
            let mut request = of_quality(job, qos);
            request.procs = 2;
            request
        };
        policy.handle(time(0), Event::Submit(half(0, 0)));
        policy.handle(time(1), Event::Submit(half(1, 0)));
        policy.handle(time(2), Event::Submit(of_quality(2, 1)));
        policy.handle(time(3), Event::Submit(half(3, 2)));
        // Two columns are free, but job 2 needs all four of its own.
        let waiting = policy.handle(time(4), Event::Wake);
        assert_eq!(waiting, [], "{name}");
        let ended = policy.handle(time(9), Event::Finished(JobId(3)));
        assert!(ended.contains(&Action::Resume { job: JobId(2) }), "{name}: {ended:?}");
        policy.check().unwrap();
    }
}

/// If idle PEs are kept from a job, its reason names the job that they are kept for. If jobs are
/// ended for a job, its reason names them.
#[test]
fn reasons_name_suspended_jobs_and_jobs_that_make_room() {
    for name in POLICIES {
        let machine = Machine::uniform(2, 2).unwrap();
        let mut policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        let time = SchedTime::from_secs;
        let mut half = of_quality(2, 1);
        half.procs = 2;
        policy.handle(time(0), Event::Submit(of_quality(1, 0)));
        policy.handle(time(1), Event::Submit(half));
        policy.handle(time(2), Event::Submit(JobRequest::new(JobId(3), 1)));
        let reason = policy.explain(time(3), JobId(3)).unwrap().to_string();
        assert!(reason.ends_with("idle ones are kept for suspended job 1"), "{name}: {reason}");
        assert_eq!(policy.explain_all(time(3))[0].1.to_string(), reason, "{name}");

        let machine = Machine::uniform(2, 2).unwrap();
        let mut policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        let cheap = Precedence { mode: Some(PreemptMode::Cancel), ..Precedence::default() };
        let cheap = JobRequest::new(JobId(1), 4).with_precedence(Arc::new(cheap));
        policy.handle(time(0), Event::Submit(cheap));
        policy.handle(time(1), Event::Submit(of_quality(2, 1)));
        let reason = policy.explain(time(2), JobId(2)).unwrap().to_string();
        assert_eq!(reason, "job 1 is being ended to make room for it", "{name}");
    }
}

/// Regression: a job became due in the instant in which an urgent job was submitted, and kept the
/// urgent job from preempting. No later event may follow for hours.
#[test]
fn a_job_due_in_the_same_instant_does_not_prevent_preemption() {
    for name in POLICIES {
        let machine = Machine::uniform(2, 2).unwrap();
        let params =
            PolicyParams { default_estimate_s: NonZeroU32::new(10), ..PolicyParams::default() };
        let mut policy = registry::by_name(name, machine, &params).unwrap();
        let time = SchedTime::from_secs;
        let half = |job, qos| {
            let mut request = of_quality(job, qos);
            request.procs = 2;
            request
        };
        let held = JobRequest::new(JobId(0), 2);
        policy.handle(time(0), Event::Submit(held));
        let long = half(1, 0).with_time_limit(Duration::from_secs(1000));
        policy.handle(time(1), Event::Submit(long));
        // Job 0 has outlived its estimate: job 2 is due on its PEs.
        assert_eq!(policy.handle(time(20), Event::Submit(half(2, 0))), [], "{name}");
        let urgent = policy.handle(time(20), Event::Submit(half(3, 1)));
        let (mode, by) = (PreemptMode::Suspend, JobId(3));
        assert!(
            urgent.contains(&Action::Preempt { job: JobId(1), mode, by }),
            "{name}: {urgent:?}"
        );
        let started = |action: &Action| matches!(action, Action::Start { job, .. } if *job == by);
        assert!(urgent.iter().any(started), "{name}: {urgent:?}");
        policy.check().unwrap();
    }
}

/// The reason of a suspended job names the holder of its elements, and when these are free, the
/// reservation that keeps them from it.
#[test]
fn the_reason_of_a_suspended_job_names_the_jobs_in_its_way() {
    for name in POLICIES {
        let machine = Machine::uniform(2, 2).unwrap();
        let mut policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        let time = SchedTime::from_secs;
        let limited = of_quality(1, 0).with_time_limit(Duration::from_secs(100));
        policy.handle(time(0), Event::Submit(limited));
        assert_eq!(policy.explain_suspended(time(1), JobId(1)), None, "{name}");
        policy.handle(time(1), Event::Submit(of_quality(2, 1)));
        let reason = policy.explain_suspended(time(2), JobId(1)).unwrap().to_string();
        assert_eq!(reason, "job 2 has its processing elements", "{name}");
        let window = Reservation {
            id: ReservationId(7),
            nodes: vec![NodeIndex(1)],
            start: time(50),
            end: time(60),
        };
        policy.handle(time(3), Event::Reserve(window));
        let ended = policy.handle(time(4), Event::Finished(JobId(2)));
        assert!(!ended.contains(&Action::Resume { job: JobId(1) }), "{name}: {ended:?}");
        let reason = policy.explain_suspended(time(5), JobId(1));
        let expected = PendingReason::Reserved {
            reservation: ReservationId(7),
            start: time(50),
            end: time(60),
        };
        assert_eq!(reason, Some(expected), "{name}");
    }
}
