//! Gang scheduling among qualities of service: which jobs make room for which, case by case.

use std::sync::Arc;
use std::time::Duration;

use storm_sched::{
    Action, Ahead, Event, EventError, JobId, JobRequest, Machine, MatrixQueue, MplLimit,
    PendingReason, Policy, PolicyParams, Precedence, PreemptMode, Priority, QosId, SchedTime,
    policies::Gang,
};

/// Gang scheduling on four PEs, with that many rows.
fn gang(rows: u32) -> Gang {
    let mpl_limit = MplLimit::try_from(rows).unwrap();
    let params = PolicyParams { mpl_limit, ..PolicyParams::default() };
    Gang::new(Machine::uniform(2, 2).unwrap(), &params)
}

/// A job that urgent jobs may preempt.
fn lower(job: u64, procs: u32, mode: PreemptMode) -> JobRequest {
    let precedence = Precedence { qos: QosId(1), preempts: Vec::new(), mode: Some(mode) };
    JobRequest::new(JobId(job), procs).with_precedence(Arc::new(precedence))
}

fn urgent(job: u64, procs: u32) -> JobRequest {
    let precedence = Precedence { qos: QosId(2), preempts: vec![QosId(1)], mode: None };
    JobRequest::new(JobId(job), procs).with_precedence(Arc::new(precedence))
}

fn submit(policy: &mut Gang, request: JobRequest) -> Vec<Action> {
    policy.handle(SchedTime::ZERO, Event::Submit(request))
}

fn finish(policy: &mut Gang, job: u64) -> Vec<Action> {
    policy.handle(SchedTime::from_secs(1), Event::Finished(JobId(job)))
}

fn started(actions: &[Action]) -> Vec<u64> {
    let start = |action: &Action| match action {
        Action::Start { job, .. } => Some(job.0),
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}

fn stopped(actions: &[Action]) -> Vec<(u64, PreemptMode, u64)> {
    let stop = |action: &Action| match action {
        Action::Preempt { job, mode, by } => Some((job.0, *mode, by.0)),
        _ => None,
    };
    actions.iter().filter_map(stop).collect()
}

#[test]
fn the_lowest_and_youngest_job_makes_room_for_the_promised_job_only() {
    let mut policy = gang(2);
    submit(&mut policy, lower(1, 4, PreemptMode::Requeue));
    submit(&mut policy, lower(2, 2, PreemptMode::Cancel));
    submit(&mut policy, lower(3, 2, PreemptMode::Requeue));
    // Job 3 is the youngest, and its room is enough.
    let asked = submit(&mut policy, urgent(4, 2));
    assert_eq!(stopped(&asked), [(3, PreemptMode::Requeue, 4)]);
    assert_eq!(policy.estimate(SchedTime::ZERO, JobId(4)), None);
    // Job 3 still holds its place, and no other job gets it.
    assert_eq!(submit(&mut policy, lower(5, 2, PreemptMode::Cancel)), []);
    let first = finish(&mut policy, 3);
    assert_eq!((started(&first), stopped(&first)), (vec![4], vec![]));
    let mut again = lower(3, 2, PreemptMode::Requeue);
    again.preempted = true;
    assert_eq!(submit(&mut policy, again), []);
    // The preempted job comes before others of its priority.
    assert_eq!(started(&finish(&mut policy, 2)), [3]);
    policy.check().unwrap();
}

#[test]
fn a_job_of_a_lower_priority_makes_room_before_a_younger_one() {
    let mut policy = gang(1);
    submit(&mut policy, lower(1, 2, PreemptMode::Cancel));
    submit(&mut policy, lower(2, 2, PreemptMode::Cancel).with_priority(Priority(9)));
    let asked = submit(&mut policy, urgent(3, 1));
    assert_eq!(stopped(&asked), [(1, PreemptMode::Cancel, 3)]);
    // Job 1 gives up enough room for one more.
    assert_eq!(submit(&mut policy, urgent(4, 1)), []);
    assert_eq!(started(&finish(&mut policy, 1)), [3, 4]);
}

#[test]
fn a_job_suspended_by_slices_makes_no_room() {
    let mut policy = gang(1);
    submit(&mut policy, lower(1, 2, PreemptMode::Suspend));
    submit(&mut policy, lower(2, 2, PreemptMode::Cancel));
    assert_eq!(submit(&mut policy, urgent(3, 4)), []);
    let asked = submit(&mut policy, urgent(4, 2));
    // A job precedes jobs of lower qualities, not jobs of its own.
    assert_eq!(asked, []);
    assert!(policy.heeds_precedence() && !policy.preempts());
    let refused = policy.handle(SchedTime::ZERO, Event::Suspended(JobId(1)));
    assert_eq!(refused, [Action::Refused(EventError::NotSuspended { job: JobId(1) })]);
    let ended = finish(&mut policy, 1);
    assert_eq!(stopped(&ended), [(2, PreemptMode::Cancel, 3)]);
    assert_eq!(started(&finish(&mut policy, 2)), [3]);
}

#[test]
fn a_job_that_cannot_preempt_goes_before_lower_ones() {
    let mut policy = gang(1);
    let plain = |job, procs| JobRequest::new(JobId(job), procs);
    submit(&mut policy, plain(1, 2));
    submit(&mut policy, plain(2, 2));
    submit(&mut policy, lower(3, 2, PreemptMode::Cancel));
    submit(&mut policy, urgent(4, 4));
    // There is room for job 3.
    assert_eq!(finish(&mut policy, 1), []);
    let ahead = Ahead { first: JobId(4), others: 0 };
    let behind = PendingReason::Priority { ahead, shortage: None };
    let now = SchedTime::from_secs(1);
    assert_eq!(policy.explain(now, JobId(3)), Some(behind.clone()));
    let all = policy.explain_all(now);
    assert_eq!(all[0], (JobId(3), behind));
    assert!(matches!(all[1], (JobId(4), PendingReason::Resources(_))), "{all:?}");
    let mut other = policy.clone();
    let withdrawn = other.handle(now, Event::Cancel(JobId(4)));
    assert_eq!(started(&withdrawn), [3]);
    assert_eq!(started(&finish(&mut policy, 2)), [4]);
    assert_eq!(started(&finish(&mut policy, 4)), [3]);
}

#[test]
fn a_withdrawn_job_gives_up_its_promise() {
    let mut policy = gang(1);
    submit(&mut policy, lower(1, 4, PreemptMode::Cancel));
    submit(&mut policy, lower(2, 2, PreemptMode::Cancel));
    assert_eq!(stopped(&submit(&mut policy, urgent(3, 4))).len(), 1);
    assert_eq!(policy.handle(SchedTime::ZERO, Event::Cancel(JobId(3))), []);
    assert_eq!(started(&finish(&mut policy, 1)), [2]);
}

#[test]
fn jobs_that_end_in_time_pass_a_job_that_cannot_start() {
    let queue = MatrixQueue::Easy;
    let params = PolicyParams { mpl_limit: MplLimit::ONE, queue, ..PolicyParams::default() };
    let mut policy = Gang::new(Machine::uniform(2, 2).unwrap(), &params);
    let (long, short) = (Duration::from_secs(1_000), Duration::from_secs(1));
    submit(&mut policy, JobRequest::new(JobId(1), 2).with_time_limit(long));
    assert_eq!(submit(&mut policy, urgent(2, 4).with_time_limit(long)), []);
    let cancel = PreemptMode::Cancel;
    assert_eq!(submit(&mut policy, lower(3, 1, cancel).with_time_limit(long + long)), []);
    assert_eq!(started(&submit(&mut policy, lower(4, 1, cancel).with_time_limit(short))), [4]);
}
