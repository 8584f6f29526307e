//! Backfilling over generated logs: the invariants of the policy reference
//! (A1, A2), and the same starts as by brute force.

use std::collections::BTreeMap;

use crate::brute_force::{self, Rule};
use crate::virtual_time::{Log, LogJob, Telling};
use proptest::prelude::*;
use storm_sched::{JobId, Policy, PolicyParams, SchedTime, registry};

const SPACE_SHARING: [&str; 5] = ["fcfs", "backfill", "easy-sjbf", "conservative", "sjf"];

fn logs() -> impl Strategy<Value = Log> {
    (1..=8u32).prop_flat_map(|pes| {
        let job = (0..7u64, 1..14u64, 0..12u64, 1..=pes);
        prop::collection::vec(job, 1..16).prop_map(move |jobs| {
            let mut submit_s = 0;
            let job = |(gap, run_s, more, procs)| {
                // One gap in three is zero, so that several events fall on one instant.
                submit_s += u64::saturating_sub(gap, 2);
                LogJob { submit_s, run_s, estimate_s: run_s + more, procs }
            };
            Log { pes, jobs: jobs.into_iter().map(job).collect() }
        })
    })
}

fn policy(name: &str, log: &Log) -> Box<dyn Policy> {
    registry::by_name(name, log.machine(), &PolicyParams::default()).unwrap()
}

fn starts(name: &str, log: &Log) -> Vec<u64> {
    let mut policy = policy(name, log);
    log.watch(policy.as_mut(), Telling::PerEvent, &mut |_, policy| policy.check().unwrap())
}

/// The most processors in use at a time.
fn most_used(log: &Log, starts: &[u64]) -> u32 {
    let uses = |time: u64| {
        let runs = |(start, job): &(&u64, &LogJob)| (**start..**start + job.run_s).contains(&time);
        starts.iter().zip(&log.jobs).filter(runs).map(|(_, job)| job.procs).sum()
    };
    starts.iter().map(|start| uses(*start)).max().unwrap_or(0)
}

/// The first estimate of each job's start while `of` holds for the job. The function asserts that
/// no estimate was later than the one before.
fn first_estimates(
    name: &str,
    log: &Log,
    of: impl Fn(&[JobId], JobId) -> bool,
) -> (Vec<u64>, BTreeMap<JobId, SchedTime>) {
    let mut policy = policy(name, log);
    let mut first: BTreeMap<JobId, SchedTime> = BTreeMap::new();
    let mut last: BTreeMap<JobId, SchedTime> = BTreeMap::new();
    let starts = log.watch(policy.as_mut(), Telling::PerEvent, &mut |now_s, policy| {
        let now = SchedTime::from_secs(now_s);
        let pending = policy.pending();
        for &job in pending.iter().filter(|job| of(&pending, **job)) {
            let estimate = policy.estimate(now, job).expect("it can be known");
            first.entry(job).or_insert(estimate);
            let before = last.insert(job, estimate);
            assert!(
                before.is_none_or(|before| estimate <= before),
                "{name}: job {job} moved later"
            );
        }
    });
    (starts, first)
}

proptest! {
    #[test]
    fn starts_are_those_of_brute_force(log in logs()) {
        for (name, rule) in [
            ("backfill", Rule::Easy { shortest_first: false }),
            ("easy-sjbf", Rule::Easy { shortest_first: true }),
            ("conservative", Rule::Conservative),
            ("sjf", Rule::ShortestFirst),
        ] {
            prop_assert_eq!(starts(name, &log), brute_force::starts(&log, rule), "{}", name);
        }
    }

    #[test]
    fn no_processor_is_used_twice_and_nobody_starts_before_submission(log in logs()) {
        for name in SPACE_SHARING {
            let starts = starts(name, &log);
            prop_assert!(most_used(&log, &starts) <= log.pes, "{}", name);
            for (start, job) in starts.iter().zip(&log.jobs) {
                prop_assert!(*start >= job.submit_s, "{}", name);
            }
        }
    }

    #[test]
    fn fcfs_starts_in_queue_order(log in logs()) {
        prop_assert!(starts("fcfs", &log).is_sorted());
    }

    #[test]
    fn the_head_starts_at_its_first_estimate_or_earlier(log in logs()) {
        for name in ["fcfs", "backfill", "easy-sjbf"] {
            let is_head = |pending: &[JobId], job| pending.first() == Some(&job);
            let (starts, first) = first_estimates(name, &log, is_head);
            for (job, told) in first {
                let start = SchedTime::from_secs(starts[job.0 as usize - 1]);
                prop_assert!(start <= told, "{}: job {} at {}, told {}", name, job, start, told);
            }
        }
    }

    #[test]
    fn a_reservation_never_moves_later_and_is_kept(log in logs()) {
        let (starts, first) = first_estimates("conservative", &log, |_, _| true);
        for (job, told) in first {
            prop_assert!(SchedTime::from_secs(starts[job.0 as usize - 1]) <= told);
        }
    }

    #[test]
    fn with_true_estimates_backfilling_delays_no_head_beyond_fcfs(log in logs()) {
        // With true run times, EASY promises each job its start once the job is the head.
        // Conservative backfilling promises the start at submission: the start under FCFS, or an
        // earlier one.
        let mut log = log;
        log.jobs.iter_mut().for_each(|job| job.estimate_s = job.run_s);
        let fcfs = starts("fcfs", &log);
        for (start, latest) in starts("conservative", &log).iter().zip(&fcfs) {
            prop_assert!(start <= latest);
        }
    }
}
