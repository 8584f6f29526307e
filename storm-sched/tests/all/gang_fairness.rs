//! Shares of time under gang scheduling. With n rows, each job gets at least an n-th, and equal
//! jobs get equal parts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use storm_sched::policies::Gang;
use storm_sched::{
    Event, JobId, JobRequest, Machine, MplLimit, Packing, Policy, PolicyParams, SchedTime,
};

/// The number of turns of all rows that are watched.
const TURNS: u32 = 60;

/// The number of slices of [`TURNS`] turns in which each job ran, and the number of rows.
fn shares(params: &PolicyParams, procs: &[u32]) -> (BTreeMap<JobId, u32>, u32) {
    let mut gang = Gang::new(Machine::uniform(4, 4).unwrap(), params);
    let handle = |gang: &mut Gang, event| {
        gang.handle(SchedTime::ZERO, event);
        gang.check().unwrap();
    };
    for (job, procs) in (1..).zip(procs) {
        handle(&mut gang, Event::Submit(JobRequest::new(JobId(job), *procs)));
    }
    let rows = gang.rows().len() as u32;
    let mut shares: BTreeMap<JobId, u32> = gang.running().into_iter().map(|job| (job, 0)).collect();
    for _ in 0..TURNS * rows {
        handle(&mut gang, Event::SliceEdge);
        for job in gang.running_now() {
            *shares.get_mut(&job).unwrap() += 1;
        }
    }
    (shares, rows)
}

/// Jain's index: 1 when all shares are equal.
fn jain(shares: &BTreeMap<JobId, u32>) -> f64 {
    let of = |power: i32| shares.values().map(|share| f64::from(*share).powi(power)).sum::<f64>();
    of(1).powi(2) / (shares.len() as f64 * of(2))
}

fn params(packing: Packing, alternative_scheduling: bool, unification: bool) -> PolicyParams {
    let mpl_limit = MplLimit::try_from(6).unwrap();
    PolicyParams { packing, alternative_scheduling, unification, mpl_limit, ..Default::default() }
}

fn schemes() -> impl Strategy<Value = Packing> {
    prop::sample::select(Packing::ALL.to_vec())
}

proptest! {
    #[test]
    fn no_job_gets_less_than_its_share(
        packing in schemes(),
        alternates in any::<bool>(),
        unification in any::<bool>(),
        procs in prop::collection::vec(1..16u32, 1..20),
    ) {
        let (shares, rows) = shares(&params(packing, alternates, unification), &procs);
        prop_assert!(rows <= 6);
        for (job, share) in shares {
            prop_assert!(share >= TURNS, "job {job} ran in {share} slices of {}", TURNS * rows);
        }
    }

    #[test]
    fn equal_jobs_get_equal_shares(packing in schemes(), procs in 1..16u32, jobs in 1..12usize) {
        let (without, _) = shares(&params(packing, false, true), &vec![procs; jobs]);
        prop_assert_eq!(jain(&without), 1.0);
        // Jobs that are guests in the last row, which is not full, get more time, and take turns.
        let (with, _) = shares(&params(packing, true, true), &vec![procs; jobs]);
        prop_assert!(jain(&with) > 0.8, "{with:?}");
    }
}

#[test]
fn guests_that_take_turns_get_equal_shares() {
    // Four rows hold two halves each, and the fifth holds one. The jobs on the other half take
    // turns as guests in the fifth row.
    let (shares, rows) = shares(&params(Packing::Buddy, true, false), &[8; 9]);
    assert_eq!(rows, 5);
    let right: Vec<u32> = [2, 4, 6, 8].map(|job| shares[&JobId(job)]).to_vec();
    assert_eq!(right, [TURNS + TURNS / 4; 4], "{shares:?}");
    let left: Vec<u32> = [1, 3, 5, 7, 9].map(|job| shares[&JobId(job)]).to_vec();
    assert_eq!(left, [TURNS; 5], "{shares:?}");
}
