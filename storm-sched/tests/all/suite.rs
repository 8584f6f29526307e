//! The policies of this crate in the policy suite.

use std::ops::Range;

use storm_sched::policies::{Bcs, Conservative, Easy, EasySjbf, Fcfs, Gang, Sjf, fcs, local};
use storm_sched::suite::Invariant;
use storm_sched::{Machine, MatrixQueue, MplLimit, Packing, Policy, PolicyParams, suite};

/// The number of runs of each policy; a few seconds in all.
const SEEDS: u64 = 100;
/// The number of runs of gang scheduling with each of some thirty settings.
const SEEDS_OF_A_MODE: u64 = 15;

/// The seed that the environment names, or all seeds.
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

/// Runs a policy that shares space, and checks that the runs were not empty.
fn space_sharing_holds(
    make: suite::Make<'_>,
    invariants: &dyn Fn() -> Vec<Box<dyn suite::Invariant>>,
) {
    let covered = suite::run_seeds(seeds(), make, invariants);
    let covered = covered.unwrap_or_else(|failure| report(failure));
    assert!(covered.starts > 20 * covered.runs, "{covered:?}");
}

#[test]
fn easy_holds_the_invariants_of_backfilling() {
    let params = PolicyParams::default();
    space_sharing_holds(&|machine| Box::new(Easy::new(machine, &params)), &suite::backfilling);
}

#[test]
fn easy_sjbf_holds_the_invariants_of_backfilling() {
    let params = PolicyParams::default();
    space_sharing_holds(&|machine| Box::new(EasySjbf::new(machine, &params)), &suite::backfilling);
}

#[test]
fn conservative_holds_the_invariants_of_space_sharing_in_any_order() {
    let params = PolicyParams::default();
    space_sharing_holds(
        &|machine| Box::new(Conservative::new(machine, &params)),
        &suite::any_space_sharing,
    );
}

#[test]
fn sjf_holds_the_invariants_of_shortest_first() {
    let params = PolicyParams::default();
    space_sharing_holds(&|machine| Box::new(Sjf::new(machine, &params)), &suite::shortest_first);
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

/// The policy places jobs as gang scheduling does; only the nodes behave differently.
#[test]
fn bcs_holds_the_invariants_of_gang_scheduling() {
    let params = PolicyParams::default();
    let make = |machine| Bcs::boxed(machine, &params);
    let covered = suite::run_seeds(seeds(), &make, &|| suite::gang(params.mpl_limit));
    let covered = covered.unwrap_or_else(|failure| report(failure));
    assert!(covered.starts > 20 * covered.runs, "{covered:?}");
}

/// Only the nodes behave differently, as under bcs.
#[test]
fn fcs_holds_the_invariants_of_gang_scheduling() {
    let params = PolicyParams::default();
    let make = |machine| fcs::boxed(machine, &params);
    assert_eq!(make(Machine::uniform(2, 1).unwrap()).name(), "fcs");
    let covered = suite::run_seeds(seeds(), &make, &|| suite::gang(params.mpl_limit));
    let covered = covered.unwrap_or_else(|failure| report(failure));
    assert!(covered.starts > 20 * covered.runs, "{covered:?}");
}

fn gang_with(params: PolicyParams) -> impl Fn(Machine) -> Box<dyn Policy> {
    move |machine| Box::new(Gang::new(machine, &params))
}

/// Runs gang scheduling with these settings against these invariants.
fn gang_with_holds(
    params: PolicyParams,
    invariants: &dyn Fn(MplLimit) -> Vec<Box<dyn Invariant>>,
) -> suite::Coverage {
    let limit = params.mpl_limit;
    let seeds = seeds();
    let seeds = seeds.start..seeds.end.min(seeds.start + SEEDS_OF_A_MODE);
    let covered = suite::run_seeds(seeds, &gang_with(params), &|| invariants(limit));
    let covered =
        covered.unwrap_or_else(|failure| panic!("{params:?}: {failure}: {}", failure.why));
    assert!(covered.starts > 20 * covered.runs, "{params:?}: {covered:?}");
    covered
}

#[test]
fn gang_holds_its_invariants_with_every_packing_scheme_and_mode() {
    for packing in Packing::ALL {
        for (alternative_scheduling, unification) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let mpl_limit = MplLimit::try_from(4).unwrap();
            let modes = PolicyParams { alternative_scheduling, unification, ..Default::default() };
            let params = PolicyParams { packing, mpl_limit, ..modes };
            let covered = gang_with_holds(params, &suite::gang);
            let changes = alternative_scheduling || unification;
            assert_eq!(covered.row_changes > 0, changes, "{params:?}: {covered:?}");
            assert_eq!(covered.migrations, 0);
        }
    }
}

#[test]
fn gang_holds_its_invariants_when_jobs_pass_the_first_of_the_queue() {
    for packing in Packing::ALL {
        let mpl_limit = MplLimit::try_from(2).unwrap();
        let params = PolicyParams { packing, mpl_limit, ..PolicyParams::default() };
        gang_with_holds(
            PolicyParams { queue: MatrixQueue::Easy, ..params },
            &suite::gang_backfilling,
        );
    }
}

#[test]
fn gang_holds_its_invariants_when_it_repacks() {
    for queue in [MatrixQueue::Fcfs, MatrixQueue::Easy] {
        for alternative_scheduling in [false, true] {
            let mpl_limit = MplLimit::try_from(3).unwrap();
            let modes = PolicyParams { alternative_scheduling, queue, ..Default::default() };
            let params = PolicyParams { mpl_limit, repack: true, ..modes };
            let covered = gang_with_holds(params, &suite::gang_repacking);
            assert!(covered.migrations > 0, "{covered:?}");
        }
    }
}

#[test]
fn local_holds_the_invariants_of_jobs_that_run_at_once() {
    for rows in [1, 2, 8] {
        let mpl_limit = MplLimit::try_from(rows).unwrap();
        for queue in [MatrixQueue::Fcfs, MatrixQueue::Easy] {
            let params = PolicyParams { mpl_limit, queue, ..PolicyParams::default() };
            let make = |machine| local::boxed(machine, &params);
            let invariants = || match queue {
                MatrixQueue::Fcfs => suite::at_once(mpl_limit),
                MatrixQueue::Easy => suite::at_once_backfilling(mpl_limit),
            };
            let covered = suite::run_seeds(seeds(), &make, &invariants);
            let covered = covered.unwrap_or_else(|failure| report(failure));
            assert!(covered.starts > 20 * covered.runs, "{rows} rows: {covered:?}");
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
