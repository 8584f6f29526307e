//! A restarted Machine Manager: a fresh policy takes over the jobs that the old one had started,
//! and continues.

use std::time::Duration;

use storm_sched::suite::{self, Workload, World};
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, MplLimit, Policy, PolicyParams, Row, SchedTime,
    registry,
};

/// The number of events before the restart.
const STEPS_BEFORE: usize = 120;

/// A policy and its world after half of a run.
fn half_a_run(name: &str, seed: u64) -> (Box<dyn Policy>, World) {
    let mut workload = Workload::new(seed);
    let machine = workload.machine().clone();
    let mut policy = registry::by_name(name, machine.clone(), &PolicyParams::default()).unwrap();
    let mut world = World::new(machine);
    for _ in 0..STEPS_BEFORE.min(suite::STEPS) {
        let (now, event) = workload.next(&world).unwrap();
        let actions = policy.handle(now, event.clone());
        world.apply(&event, &actions);
    }
    (policy, world)
}

#[test]
fn running_jobs_keep_their_places_and_waiting_jobs_their_order() {
    let mut taken_over = 0;
    for name in registry::names() {
        for seed in 0..50 {
            let (old, world) = half_a_run(name, seed);
            let params = PolicyParams::default();
            let mut new = registry::by_name(name, world.machine.clone(), &params).unwrap();
            for running in world.running.values() {
                let restore = Event::Restore {
                    request: running.request.clone(),
                    placement: running.placement.clone(),
                    row: running.row,
                    ran: Duration::ZERO,
                };
                let actions = new.handle(SchedTime::ZERO, restore);
                let moves = |action: &Action| match action {
                    Action::Activate { .. } | Action::SetRows { .. } => false,
                    Action::Start { .. }
                    | Action::Preempt { .. }
                    | Action::Resume { .. }
                    | Action::Migrate { .. }
                    | Action::Refused(_) => true,
                };
                assert!(!actions.iter().any(moves), "{name}, seed {seed}: {actions:?}");
                taken_over += 1;
            }
            assert_eq!(new.running(), old.running());
            let mut order = Vec::new();
            for request in &world.queue {
                for action in new.handle(SchedTime::ZERO, Event::Submit(request.clone())) {
                    if let Action::Start { job, .. } = action {
                        order.push(job);
                    }
                }
            }
            let waiting: Vec<JobId> = world.queue.iter().map(|request| request.id).collect();
            let left = |job: &JobId| !order.contains(job);
            let kept: Vec<JobId> = waiting.iter().copied().filter(left).collect();
            assert_eq!(new.pending(), kept, "{name}, seed {seed}");
            assert_eq!(waiting, old.pending(), "{name}, seed {seed}");
            new.check().unwrap();
        }
    }
    assert!(taken_over > 100, "{taken_over} jobs were taken over");
}

#[test]
fn a_job_that_cannot_be_taken_over_is_refused_and_nothing_changes() {
    let machine = Machine::uniform(2, 2).unwrap();
    let mut policy = registry::by_name("fcfs", machine.clone(), &PolicyParams::default()).unwrap();
    let request = JobRequest::new(JobId(1), 4);
    let started = policy.handle(SchedTime::ZERO, Event::Submit(request.clone()));
    let Some(Action::Start { placement, .. }) = started.into_iter().next() else {
        panic!("the machine is empty");
    };
    for (job, row) in [(1, Row(0)), (2, Row(0)), (3, Row(1))] {
        let request = JobRequest::new(JobId(job), 4);
        let ran = Duration::ZERO;
        let restore = Event::Restore { request, placement: placement.clone(), row, ran };
        let actions = policy.handle(SchedTime::ZERO, restore);
        assert!(matches!(actions[..], [Action::Refused(_)]), "{actions:?}");
    }
    assert_eq!(policy.running(), [JobId(1)]);
    policy.check().unwrap();
}

#[test]
fn the_time_already_run_counts_in_the_estimate() {
    let limited = |job, procs, secs| {
        JobRequest::new(JobId(job), procs).with_time_limit(Duration::from_secs(secs))
    };
    let now = SchedTime::from_secs(1_000);
    for (name, policy) in [("backfill", 0), ("easy-sjbf", 0), ("conservative", 0), ("gang", 1)] {
        let machine = Machine::uniform(4, 1).unwrap();
        let params = PolicyParams { mpl_limit: MplLimit::ONE, ..PolicyParams::default() };
        let mut old = registry::by_name(name, machine.clone(), &params).unwrap();
        let started = old.handle(SchedTime::ZERO, Event::Submit(limited(1, 4, 600)));
        let Some(Action::Start { placement, row, .. }) = started.into_iter().next() else {
            panic!("{name} does not start it");
        };
        let mut new = registry::by_name(name, machine, &params).unwrap();
        let (request, ran) = (limited(1, 4, 600), Duration::from_secs(500));
        new.handle(now, Event::Restore { request, placement, row, ran });
        new.handle(now, Event::Submit(limited(2, 4, 600)));
        let start = new.estimate(now, JobId(2)).expect("its start is known");
        // Shared time is rounded up to slices.
        let slack = Duration::from_secs(policy);
        let expected = now + Duration::from_secs(100);
        assert!(start >= expected && start <= expected + slack, "{name}: {start}");
        assert_eq!(new.estimate_all(now), [(JobId(2), start)], "{name}");
    }
}

/// A job that is withdrawn and submitted again in one instant has only one promise.
#[test]
fn a_job_submitted_anew_in_the_instant_of_its_withdrawal_holds_nothing_twice() {
    for name in ["fcfs", "easy", "easy-sjbf", "conservative", "sjf"] {
        let machine = Machine::uniform(2, 2).unwrap();
        let mut policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        let time = SchedTime::from_secs;
        for job in 1..=3 {
            policy.handle(time(0), Event::Submit(JobRequest::new(JobId(job), 3)));
        }
        let again = vec![Event::Cancel(JobId(2)), Event::Submit(JobRequest::new(JobId(2), 3))];
        assert_eq!(policy.handle_together(time(1), again), [], "{name}");
        for (end, next) in [(1, 3), (3, 2)] {
            let ended = policy.handle(time(2), Event::Finished(JobId(end)));
            let starts =
                |action: &Action| matches!(action, Action::Start { job, .. } if job.0 == next);
            assert!(ended.iter().any(starts), "{name}: {ended:?}");
        }
    }
}
