//! Jobs in several rows, and rows that are merged, on the simulated machine with its live daemons.
//! Every invariant is checked at every step.

use std::time::Duration;
use storm_sim::scenario::{self, RunOptions, Scenario};

const SEEDS: std::ops::Range<u64> = 0..10;
/// The number of seeds, with three times the jobs and more rows than in the campaign of random
/// faults.
const FAULTY_SEEDS: u64 = 40;

fn job(name: &str, procs: u32, compute_ms: u32) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\nprocs = {procs}\n\
         application = {{ kind = \"compute\", time = \"{compute_ms}ms\" }}\n"
    )
}

/// Time from the launch to the end of each job, under every seed.
fn exec_ms(jobs: &[(&str, u32, u32)], check: impl Fn(&dyn Fn(&str) -> f64)) {
    let machine =
        "[machine]\nprofile = \"plain\"\nnodes = 8\npes = 1\nquantum = \"2ms\"\nmpl = 4\n";
    let jobs: String = jobs.iter().map(|(name, procs, ms)| job(name, *procs, *ms)).collect();
    let scenario = Scenario::parse(&format!("{machine}{jobs}")).expect("the scenario is sound");
    for seed in SEEDS {
        let options = RunOptions { seed: Some(seed), traces: false };
        let outcome = scenario::run(&scenario, options).expect("every invariant holds");
        check(&|name| {
            let job = outcome.report.jobs.iter().find(|job| job.name == name);
            let job = job.expect("it was submitted");
            assert_eq!(job.state, "COMPLETED", "seed {seed}: {job:?}");
            job.exec_ms.expect("it ran")
        });
    }
}

#[test]
fn a_job_runs_in_another_row_too_where_its_columns_idle() {
    let rows = [
        ("short", 4, 10),
        ("right", 4, 120),
        ("whole", 8, 120),
        ("guest", 4, 60),
        ("other", 4, 60),
    ];
    // Once the short job is over, the job in two rows has two of three slices, and the other job
    // has one.
    exec_ms(&rows, |of| {
        let (guest, other) = (of("guest"), of("other"));
        assert!(guest * 1.5 < other, "guest {guest} ms, other {other} ms");
        assert!(guest >= 60.0);
    });
}

#[test]
fn rows_without_a_column_in_common_become_one() {
    let rows = [("left", 4, 10), ("right", 4, 100), ("above", 4, 100), ("beside", 4, 10)];
    // At first they share the time. Later each has all of it.
    exec_ms(&rows, |of| {
        for name in ["right", "above"] {
            let time = of(name);
            assert!((100.0..150.0).contains(&time), "{name}: {time} ms");
        }
    });
}

#[test]
fn many_jobs_in_few_rows_keep_every_promise_under_random_faults() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scenario = Scenario::read(&path.join("scenarios/random-faults.toml")).expect("sound");
    scenario.machine.nodes = 16;
    scenario.machine.mpl = 4;
    let jobs = scenario.generated_jobs.as_mut().expect("it generates jobs");
    jobs.count = 40;
    jobs.mean_interarrival = Duration::from_millis(6);
    for seed in 0..FAULTY_SEEDS {
        let options = RunOptions { seed: Some(seed), traces: false };
        if let Err(failure) = scenario::run(&scenario, options) {
            let causes =
                std::iter::successors(std::error::Error::source(&failure), |it| it.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            panic!("seed {seed}: {failure}: {}", causes.join(": "));
        }
    }
}
