//! The policies of this crate under the policy suite.

use std::ops::Range;

use storm_sched::policies::{Conservative, Easy, EasySjbf, Fcfs, Gang, Sjf};
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

/// Runs a policy that shares space, and sees that something happened.
fn holds(make: suite::Make<'_>, invariants: &dyn Fn() -> Vec<Box<dyn suite::Invariant>>) {
    let covered = suite::run_seeds(seeds(), make, invariants);
    let covered = covered.unwrap_or_else(|failure| report(failure));
    assert!(covered.starts > 20 * covered.runs, "{covered:?}");
}

#[test]
fn easy_holds_the_invariants_of_backfilling() {
    let params = PolicyParams::default();
    holds(&|machine| Box::new(Easy::new(machine, &params)), &suite::backfilling);
}

#[test]
fn easy_sjbf_holds_the_invariants_of_backfilling() {
    let params = PolicyParams::default();
    holds(&|machine| Box::new(EasySjbf::new(machine, &params)), &suite::backfilling);
}

#[test]
fn conservative_holds_the_invariants_of_space_sharing_in_any_order() {
    let params = PolicyParams::default();
    holds(&|machine| Box::new(Conservative::new(machine, &params)), &suite::any_space_sharing);
}

#[test]
fn sjf_holds_the_invariants_of_shortest_first() {
    let params = PolicyParams::default();
    holds(&|machine| Box::new(Sjf::new(machine, &params)), &suite::shortest_first);
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
