//! Jobs that get the PEs of others: every policy that shares space under the suite, with
//! reservations and without.

use std::sync::Arc;
use std::time::Duration;

use storm_sched::suite::{self, Coverage, Invariant, Workload};
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, Pe, Placement, PolicyParams, Precedence,
    PreemptMode, QosId, SchedTime, Slot, registry,
};

/// Runs of each policy, without reservations and with them.
const SEEDS: u64 = 60;
/// Policies that share space.
const POLICIES: [&str; 5] = ["fcfs", "easy", "easy-sjbf", "conservative", "sjf"];

/// What the policies did, each in as many runs; panics when one broke an invariant.
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
fn whoever_is_preempted_is_so_lawfully_under_every_policy_that_shares_space() {
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

/// A job that was suspended before the manager was started anew goes on when the other one
/// has ended, and not before.
#[test]
fn a_suspended_job_is_taken_over_as_such() {
    let machine = Machine::uniform(2, 2).unwrap();
    let all = Placement::new(&machine, (0..4).map(Pe).collect()).unwrap();
    let restore = |job: u64, qos: u16, preempts: Vec<QosId>| {
        let mode = Some(PreemptMode::Suspend);
        let precedence = Arc::new(Precedence { qos: QosId(qos), preempts, mode });
        let request = JobRequest::new(JobId(job), 4).with_precedence(precedence);
        Event::Restore { request, placement: all.clone(), slot: Slot(0), ran: Duration::ZERO }
    };
    for name in POLICIES {
        let params = PolicyParams::default();
        let mut policy = registry::by_name(name, machine.clone(), &params).unwrap();
        let events =
            vec![restore(1, 1, vec![]), Event::Suspended(JobId(1)), restore(2, 2, vec![QosId(1)])];
        let taken = policy.handle_together(SchedTime::ZERO, events);
        assert_eq!(taken, [Action::Activate { slot: Slot(0) }], "{name}");
        let ended = policy.handle(SchedTime::from_secs(1), Event::Finished(JobId(2)));
        let expected = [Action::Resume { job: JobId(1) }, Action::Activate { slot: Slot(0) }];
        assert_eq!(ended, expected, "{name}");
        policy.check().unwrap();
    }
}
