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
use storm_sched::{Machine, MplLimit, Packing, PolicyParams, Quantum, SchedTime};

const PES: u32 = 256;
const JOBS: u32 = 1_000;
const LOADS: [f64; 4] = [0.5, 0.7, 0.9, 0.95];
/// Each mean is over these workloads.
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

/// The mean bounded slowdown under these settings, over all seeds.
fn slowdown(traces: &[Trace], name: &str, params: &PolicyParams) -> f64 {
    let of = |trace: &Trace| Summary::of(PES, &run(trace, params).outcomes(trace));
    let sum: f64 = traces.iter().map(|trace| of(trace).avg_bounded_slowdown).sum();
    let mean = sum / traces.len() as f64;
    println!("  {name}: {mean:.2}");
    mean
}

#[test]
fn the_good_schemes_are_buddy_with_alternative_scheduling_and_repacking() {
    for load in LOADS {
        println!("load {load}, {JOBS} jobs, seeds {SEEDS:?}: mean bounded slowdown");
        let traces: Vec<Trace> = SEEDS.iter().map(|seed| trace(load, JOBS, *seed)).collect();
        let of = |packing: Packing, alternates: bool| {
            let name = format!("{packing:?}, alternative scheduling {alternates}");
            slowdown(&traces, &name, &params(packing, alternates))
        };
        let good = of(Packing::Buddy, true);
        let repacking = PolicyParams { repack: true, ..params(Packing::FirstFit, false) };
        let repacking = slowdown(&traces, "repacking", &repacking);
        let alone = Packing::ALL.map(|packing| (packing, of(packing, false)));
        let harmful = alone.iter().find(|(packing, _)| *packing == Packing::LeastLoaded).unwrap().1;
        for (packing, alone) in alone {
            assert!(good < alone, "load {load}: buddy {good}, {packing:?} {alone}");
            assert!(repacking < alone, "load {load}: repacking {repacking}, {packing:?} {alone}");
            let others = packing != Packing::LeastLoaded;
            assert!(!others || 1.5 * alone < harmful, "load {load}: {packing:?} {alone} {harmful}");
            let with = if packing == Packing::Buddy { good } else { of(packing, true) };
            assert!(with < alone, "load {load}: {packing:?} {with}, alone {alone}");
        }
    }
}

#[test]
fn a_saturated_machine_is_used_for_more_than_nine_tenths() {
    for seed in SEEDS {
        let trace = trace(1.5, 2 * JOBS, seed);
        let mpl_limit = MplLimit::try_from(8).unwrap();
        for unification in [false, true] {
            let params =
                PolicyParams { mpl_limit, unification, ..params(Packing::Buddy, true) };
            // Up to the last submission somebody waits; then the machine runs empty.
            let full = trace.jobs().last().unwrap().submit;
            let schedule = run(&trace, &params);
            let used = busy_until(&trace, &schedule, full);
            println!("seed {seed}, unification {unification}: {used:.4} of the machine");
            let whole = Summary::of(PES, &schedule.outcomes(&trace)).utilisation;
            println!("  whole {whole:.4}");
        }
    }
}

/// The part of the machine that was used up to an instant by jobs that had ended
/// by then: less than all that was used.
fn busy_until(trace: &Trace, schedule: &Schedule, end: SchedTime) -> f64 {
    let first = trace.jobs().first().unwrap().submit;
    let ended = schedule.outcomes(trace).into_iter().filter(|job| job.end <= end);
    let work: f64 = ended.map(|job| job.run.as_secs_f64() * f64::from(job.procs)).sum();
    work / (f64::from(PES) * end.since(first).as_secs_f64())
}
