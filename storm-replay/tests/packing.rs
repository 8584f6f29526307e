//! The packing study of gang scheduling (D. G. Feitelson, JSSPP 1996, the
//! paper's reference [5]) under Lublin-Feitelson load: the ordering of the
//! packing schemes, and the utilisation at saturation.
//!
//! `cargo test -p storm-replay --test packing -- --nocapture` prints the tables.

use std::time::Duration;

use storm_replay::lublin::{JobClasses, LublinOptions, generate};
use storm_replay::{Estimates, ReplayOptions, Schedule, Trace, replay};
use storm_sched::metrics::Summary;
use storm_sched::policies::Gang;
use storm_sched::swf::LogJob;
use storm_sched::{Machine, MplLimit, Packing, PolicyParams, Quantum};

const PES: u32 = 256;
const JOBS: u32 = 1_500;
const LOADS: [f64; 3] = [0.6, 0.8, 0.95];
const SEEDS: [u64; 3] = [1, 2, 3];

fn trace(load: f64, jobs: u32, seed: u64) -> Trace {
    let classes = JobClasses::Typeless;
    let options = LublinOptions { pes: PES, jobs, classes, load: Some(load), seed };
    let records = generate(&options).unwrap().records;
    let jobs: Vec<LogJob> = records.iter().map(|record| LogJob::of(record).unwrap()).collect();
    Trace::new(PES, &jobs, Estimates::OfUsers).unwrap()
}

/// Rows enough that no job waits, as in the study.
fn params(packing: Packing, alternative_scheduling: bool) -> PolicyParams {
    PolicyParams {
        packing,
        alternative_scheduling,
        unification: false,
        quantum_us: Quantum::try_from(Duration::from_secs(60)).unwrap(),
        mpl_limit: MplLimit::try_from(512).unwrap(),
        ..PolicyParams::default()
    }
}

fn run(trace: &Trace, params: &PolicyParams) -> Schedule {
    let mut gang = Gang::new(Machine::uniform(PES, 1).unwrap(), params);
    replay(trace, &mut gang, ReplayOptions::default(), &mut |_| {}).unwrap()
}

fn bounded_slowdown(trace: &Trace, params: &PolicyParams) -> f64 {
    Summary::of(PES, &run(trace, params).outcomes(trace)).avg_bounded_slowdown
}

#[test]
fn explore() {
    for load in LOADS {
        let traces: Vec<Trace> = SEEDS.iter().map(|seed| trace(load, JOBS, *seed)).collect();
        let mean = |params: &PolicyParams| {
            traces.iter().map(|trace| bounded_slowdown(trace, params)).sum::<f64>() / SEEDS.len() as f64
        };
        for packing in Packing::ALL {
            for alt in [false, true] {
                println!("load {load} {packing:?} alt {alt}: {:.2}", mean(&params(packing, alt)));
            }
        }
        println!("load {load} buddy+alt+unify {:.2}", mean(&PolicyParams { unification: true, ..params(Packing::Buddy, true) }));
        println!("load {load} repack {:.2}", mean(&PolicyParams { repack: true, ..params(Packing::FirstFit, false) }));
    }
}
