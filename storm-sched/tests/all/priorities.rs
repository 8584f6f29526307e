//! The most urgent waiting job starts next, under every policy that claims it. Conservative
//! backfilling is compared with a plan that is made from scratch (`docs/decisions/0134`).

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, Policy, PolicyParams, Priority, PriorityUse,
    SchedTime, registry,
};

const PES: u32 = 8;

/// A job; times in seconds.
#[derive(Debug, Clone, Copy)]
struct Job {
    submit_s: u64,
    run_s: u64,
    estimate_s: u64,
    procs: u32,
    priority: u32,
    /// A new priority, that many seconds after the submission.
    later: Option<(u64, u32)>,
}

/// The basis of a plan: for each job, when it should have ended and the PEs that it holds.
type Running = BTreeMap<JobId, (u64, u32)>;

fn policy(name: &str, pes: u32) -> Box<dyn Policy> {
    let machine = Machine::uniform(pes, 1).expect("a machine");
    registry::by_name(name, machine, &PolicyParams::default()).expect("a policy")
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let later = prop::option::of((1..9u64, 0..4u32));
    let job = (0..6u64, 1..12u64, 0..10u64, 1..=PES, 0..4u32, later);
    prop::collection::vec(job, 2..14).prop_map(|jobs| {
        let mut submit_s = 0;
        let job = |(gap, run_s, more, procs, priority, later)| {
            submit_s += u64::saturating_sub(gap, 2);
            Job { submit_s, run_s, estimate_s: run_s + more, procs, priority, later }
        };
        jobs.into_iter().map(job).collect()
    })
}

/// Runs the jobs, with ends before all else in an instant. Shows each decision: the time, the jobs
/// that run by estimates, and the policy.
fn run(policy: &mut dyn Policy, jobs: &[Job], watch: &mut dyn FnMut(u64, &Running, &dyn Policy)) {
    let mut events: BTreeMap<(u64, u32, u64), Event> = BTreeMap::new();
    for (job, id) in jobs.iter().zip(1..) {
        let request = JobRequest::new(JobId(id), job.procs)
            .with_time_limit(Duration::from_secs(job.estimate_s))
            .with_priority(Priority(job.priority));
        events.insert((job.submit_s, 1, id), Event::Submit(request));
        if let Some((after, priority)) = job.later {
            let event = Event::Prioritise { job: JobId(id), priority: Priority(priority) };
            events.insert((job.submit_s + after, 2, id), event);
        }
    }
    let mut running = Running::new();
    while let Some(((now_s, ..), event)) = events.pop_first() {
        match &event {
            Event::Prioritise { job, .. } if !policy.pending().contains(job) => continue,
            Event::Finished(job) => drop(running.remove(job)),
            _ => {}
        }
        for action in policy.handle(SchedTime::from_secs(now_s), event) {
            let Action::Start { job, .. } = action else { continue };
            let of = jobs[job.0 as usize - 1];
            running.insert(job, (now_s + of.estimate_s, of.procs));
            events.insert((now_s + of.run_s, 0, job.0), Event::Finished(job));
        }
        policy.check().expect("its own invariants");
        watch(now_s, &running, policy);
    }
    assert_eq!(policy.pending(), [], "jobs were left waiting");
}

/// The start of each waiting job: the earliest second in which it fits, with the jobs planned one
/// after the other in this order.
fn plan(now_s: u64, running: &Running, order: &[JobId], jobs: &[Job]) -> Vec<(JobId, u64)> {
    const HORIZON_S: u64 = 1_000;
    let mut free = vec![PES; HORIZON_S as usize];
    for (end_s, procs) in running.values() {
        let until = (*end_s).max(now_s) as usize;
        free[now_s as usize..until].iter_mut().for_each(|free| *free -= procs);
    }
    let start = |id: &JobId| {
        let job = jobs[id.0 as usize - 1];
        let fits = |from: &u64| {
            free[*from as usize..(from + job.estimate_s) as usize].iter().all(|f| *f >= job.procs)
        };
        let start = (now_s..).find(fits).expect("the machine is empty in the end");
        free[start as usize..(start + job.estimate_s) as usize]
            .iter_mut()
            .for_each(|free| *free -= job.procs);
        (*id, start)
    };
    order.iter().map(start).collect()
}

proptest! {
    #[test]
    fn conservative_plans_in_the_order_of_the_priorities(jobs in jobs()) {
        let mut policy = policy("conservative", PES);
        run(policy.as_mut(), &jobs, &mut |now_s, running, policy| {
            let order = policy.pending();
            if order.is_sorted() {
                // Without priorities promises are kept, and need not be the earliest.
                return;
            }
            let now = SchedTime::from_secs(now_s);
            let mut promised: Vec<(JobId, SchedTime)> = order
                .iter()
                .map(|&job| (job, policy.estimate(now, job).expect("every job has a promise")))
                .collect();
            if running.values().any(|(end_s, _)| *end_s == now_s) {
                // By the estimates a job ends in this instant, but the policy has not got the
                // event. A job whose promised start is this instant is due on its PEs, and keeps
                // its place.
                promised.sort_by_key(|&(_, start)| start != now);
            }
            let order: Vec<JobId> = promised.iter().map(|&(job, _)| job).collect();
            let planned: Vec<(JobId, SchedTime)> = plan(now_s, running, &order, &jobs)
                .into_iter()
                .map(|(job, start_s)| (job, SchedTime::from_secs(start_s)))
                .collect();
            assert_eq!(promised, planned, "at {now_s}, beside {running:?}");
        });
    }

    #[test]
    fn the_most_urgent_of_equal_jobs_starts_first_under_any_policy(
        urgencies in prop::collection::vec((0..4u32, prop::option::of(0..4u32)), 2..12),
        pes in 1..4u32,
    ) {
        for name in registry::names() {
            let mut policy = policy(name, pes);
            let mut started = Vec::new();
            let mut tell = |policy: &mut dyn Policy, now_s: u64, event| {
                for action in policy.handle(SchedTime::from_secs(now_s), event) {
                    if let Action::Start { job, .. } = action {
                        started.push(job);
                    }
                }
                std::mem::take(&mut started)
            };
            let equal = |id, priority| {
                JobRequest::new(JobId(id), pes)
                    .with_time_limit(Duration::from_secs(60))
                    .with_priority(Priority(priority))
            };
            // The matrix of gang scheduling has several rows to fill.
            let mut running = Vec::new();
            let mut filler = 1_000;
            loop {
                let more = tell(policy.as_mut(), 0, Event::Submit(equal(filler, 9)));
                running.extend(more.iter().copied());
                if more.is_empty() {
                    break;
                }
                filler += 1;
            }
            tell(policy.as_mut(), 0, Event::Cancel(JobId(filler)));
            let mut waiting = BTreeMap::new();
            for (&(priority, later), id) in urgencies.iter().zip(1..) {
                let early = tell(policy.as_mut(), id, Event::Submit(equal(id, priority)));
                prop_assert!(early.is_empty(), "{} started {:?} on nothing", name, early);
                let last = later.unwrap_or(priority);
                if last != priority {
                    let event = Event::Prioritise { job: JobId(id), priority: Priority(last) };
                    tell(policy.as_mut(), id, event);
                }
                waiting.insert(JobId(id), last);
            }
            let mut now_s = 20;
            while !waiting.is_empty() {
                let ends = running.pop().expect("somebody runs while others wait");
                for job in tell(policy.as_mut(), now_s, Event::Finished(ends)) {
                    let own = waiting.remove(&job).expect("it waited");
                    let more = waiting.iter().find(|(_, other)| **other > own);
                    prop_assert!(more.is_none(), "{}: {} before {:?}", name, job, more);
                    running.push(job);
                }
                now_s += 1;
            }
        }
    }
}

#[test]
fn a_policy_declares_its_use_of_priorities() {
    for name in registry::names() {
        let expected = match name {
            "sjf" => PriorityUse::AmongEqualLimits,
            "easy-sjbf" => PriorityUse::First,
            _ => PriorityUse::Always,
        };
        assert_eq!(policy(name, PES).priority_use(), expected, "{name}");
    }
}

/// The case from an operator's report.
#[test]
fn conservative_starts_the_urgent_job_before_one_that_was_submitted_earlier() {
    let job = |submit_s, priority| Job {
        submit_s,
        run_s: 10,
        estimate_s: 10,
        procs: PES,
        priority,
        later: None,
    };
    let jobs = [job(0, 0), job(1, 2_600), job(2, 7_600)];
    let mut policy = policy("conservative", PES);
    let mut starts = Vec::new();
    run(policy.as_mut(), &jobs, &mut |_, running, _| {
        starts.extend(running.keys().copied());
        starts.dedup();
    });
    assert_eq!(starts, [JobId(1), JobId(3), JobId(2)]);
}
