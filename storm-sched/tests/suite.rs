//! The policies of this crate under the policy suite.

use std::ops::Range;

use storm_sched::policies::{Fcfs, Gang};
use storm_sched::{Machine, MplLimit, Policy, PolicyParams, suite};

/// Runs of each policy; a few seconds in all.
const SEEDS: u64 = 100;

/// One seed out of the environment, or all.
fn seeds() -> Range<u64> {
    match std::env::var("STORM_SUITE_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("STORM_SUITE_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    }
}

fn fcfs(machine: Machine) -> Box<dyn Policy> {
    Box::new(Fcfs::new(machine))
}

fn gang(limit: MplLimit) -> impl Fn(Machine) -> Box<dyn Policy> {
    move |machine| {
        let params = PolicyParams { mpl_limit: limit, ..PolicyParams::default() };
        Box::new(Gang::new(machine, &params))
    }
}

fn report(failure: suite::Failure) -> ! {
    panic!("{failure}: {}", failure.why)
}

#[test]
fn fcfs_holds_the_invariants_of_space_sharing() {
    let covered = suite::run_seeds(seeds(), &fcfs, &suite::space_sharing);
    let covered = covered.unwrap_or_else(|failure| report(failure));
    assert!(covered.starts > 20 * covered.runs, "{covered:?}");
    assert!(covered.longest_queue > 5 && covered.refusals > 0, "{covered:?}");
}

#[test]
fn gang_holds_the_invariants_of_gang_scheduling_at_every_limit() {
    for rows in [1, 2, 3, 8] {
        let limit = MplLimit::try_from(rows).unwrap();
        let covered = suite::run_seeds(seeds(), &gang(limit), &|| suite::gang(limit));
        let covered = covered.unwrap_or_else(|failure| report(failure));
        assert!(covered.starts > 20 * covered.runs, "{rows} rows: {covered:?}");
        if covered.runs > 1 {
            assert_eq!(covered.most_rows, rows as usize, "{covered:?}");
        }
    }
}

#[test]
fn one_seed_gives_one_trace() {
    let limit = MplLimit::default();
    let first = suite::run(7, &gang(limit), suite::gang(limit)).unwrap();
    let second = suite::run(7, &gang(limit), suite::gang(limit)).unwrap();
    assert!(!first.is_empty());
    assert_eq!(first, second);
}
