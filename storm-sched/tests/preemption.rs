//! Jobs that get the PEs of others: every policy that shares space under the suite, with
//! reservations and without.

use storm_sched::suite::{self, Coverage, Invariant, Workload};
use storm_sched::{PolicyParams, registry};

/// Runs of each policy.
const SEEDS: u64 = 100;
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
