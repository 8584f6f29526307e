//! Flexible coscheduling on the simulated machine with its live daemons. The synthetic applications
//! of the policy reference (A5) get the classes that the reference gives. Jobs whose loads
//! complement each other need less time together than under gang scheduling.

use storm_rm::ProcessClass::{self, DontCare, Frustrated, NeedsCoscheduling};
use storm_sim::Report;
use storm_sim::scenario::{self, RunOptions, Scenario};

/// Nodes of one processor.
const NODES: u32 = 8;

fn run(sched: &str, seed: u64, further: &str, jobs: &[String]) -> Report {
    let mut text = format!(
        "limit = \"1h\"\n{further}\n[machine]\nprofile = \"plain\"\nnodes = {NODES}\npes = 1\n\
         quantum = \"50ms\"\nmpl = 2\nsched = \"{sched}\"\n"
    );
    for (index, application) in jobs.iter().enumerate() {
        let job = format!("[[job]]\nname = \"job{index}\"\nprocs = {NODES}\n");
        text.push_str(&format!("{job}application = {{ {application} }}\n"));
    }
    let scenario = Scenario::parse(&text).expect("the scenario is sound");
    let options = RunOptions { seed: Some(seed), traces: false };
    let report = scenario::run(&scenario, options).expect("every invariant holds").report;
    assert!(report.jobs.iter().all(|job| job.state == "COMPLETED"), "{report:?}");
    report
}

fn bsp(granularity_us: u32, iterations: u32) -> String {
    format!(
        "kind = \"bulk-synchronous\", iterations = {iterations}, compute = \"{granularity_us}us\""
    )
}

/// Twice the work for half of the ranks.
fn lopsided(granularity_us: u32, iterations: u32, heavy: &str) -> String {
    format!("{}, imbalance-percent = 200, heavy = \"{heavy}\"", bsp(granularity_us, iterations))
}

/// The classes of the first of two equal jobs.
fn classes(application: &str, further: &str) -> Vec<ProcessClass> {
    let jobs = [application.to_owned(), application.to_owned()];
    let report = run("fcs", 1, further, &jobs);
    let classes = report.jobs[0].classes.clone();
    if classes.is_empty() { vec![NeedsCoscheduling; NODES as usize] } else { classes }
}

fn halves(lower: ProcessClass, upper: ProcessClass) -> Vec<ProcessClass> {
    let half = NODES as usize / 2;
    [vec![lower; half], vec![upper; half]].concat()
}

#[test]
fn synthetic_applications_have_the_classes_of_the_reference() {
    // Balanced, of 5 ms and finer.
    assert_eq!(classes(&bsp(5_000, 300), ""), halves(NeedsCoscheduling, NeedsCoscheduling));
    assert_eq!(classes(&bsp(500, 2_000), ""), halves(NeedsCoscheduling, NeedsCoscheduling));
    // Half of the ranks compute twice as long, so the others are frustrated.
    assert_eq!(classes(&lopsided(2_000, 500, "upper"), ""), halves(Frustrated, NeedsCoscheduling));
    assert_eq!(classes(&lopsided(2_000, 500, "lower"), ""), halves(NeedsCoscheduling, Frustrated));
    // Ranks that compute longer than a quarter of a slot are classified as not caring.
    assert_eq!(classes(&lopsided(10_000, 100, "upper"), ""), halves(Frustrated, DontCare));
    assert_eq!(classes(&bsp(500_000, 4), ""), halves(DontCare, DontCare));
    assert_eq!(
        classes("kind = \"compute\", time = \"1s\"", ""),
        halves(NeedsCoscheduling, NeedsCoscheduling),
        "it has no library that says anything"
    );
}

#[test]
fn the_thresholds_are_those_of_the_scenario() {
    let patient = "[machine.flexible]\nwait-percent = 200\n";
    let found = classes(&lopsided(2_000, 500, "upper"), patient);
    assert_eq!(found, halves(NeedsCoscheduling, NeedsCoscheduling));
    let coarse = "[machine.flexible]\ncoarse-min = \"20ms\"\ncoarse-part = 1\n";
    let found = classes(&lopsided(10_000, 100, "upper"), coarse);
    assert_eq!(found, halves(Frustrated, NeedsCoscheduling));
    let text = "[machine]\nprofile = \"plain\"\nnodes = 1\nflexible = { window-slots = 0 }\n\
                [[job]]\nname = \"one\"\napplication = { kind = \"compute\", time = \"1s\" }\n";
    let refused = Scenario::parse(text).expect_err("nobody can be judged by that");
    let mut said = refused.to_string();
    let mut cause = std::error::Error::source(&refused);
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    assert!(said.ends_with("window-slots: 0 is not from 1 to 1000"), "{said}");
}

#[test]
fn the_fastest_of_uneven_ranks_are_frustrated() {
    let uneven = format!("{}, heterogeneity-percent = 300", bsp(2_000, 500));
    assert_eq!(classes(&uneven, ""), halves(Frustrated, NeedsCoscheduling));
}

#[test]
fn on_nodes_of_different_speed_the_fast_are_frustrated() {
    let slow: String = (5..=8)
        .map(|node| {
            format!("[[fault]]\nat = \"0s\"\nkind = \"slow\"\nnode = {node}\npercent = 200\n")
        })
        .collect();
    let found = classes(&bsp(2_000, 500), &slow);
    assert_eq!(found, halves(Frustrated, NeedsCoscheduling));
}

/// Time until both of two jobs are over, in seconds.
fn makespan(sched: &str, seed: u64, jobs: &[String; 2]) -> f64 {
    let report = run(sched, seed, "", jobs);
    let ends = report.jobs.iter().map(|job| job.exec_ms.expect("it ran") / 1e3);
    ends.fold(0.0, f64::max)
}

#[test]
fn jobs_that_complement_each_other_need_less_time_than_under_gang() {
    for seed in 0..3 {
        let jobs = [lopsided(10_000, 200, "lower"), lopsided(10_000, 200, "upper")];
        let (gang, fcs) = (makespan("gang", seed, &jobs), makespan("fcs", seed, &jobs));
        // Ideally three quarters: each node computes 3 of the 4 parts that it takes in turn.
        assert!((0.72..0.9).contains(&(fcs / gang)), "seed {seed}: {fcs} s, under gang {gang} s");
    }
}

#[test]
fn balanced_jobs_need_as_long_as_under_gang() {
    let jobs = [bsp(1_000, 1_000), bsp(1_000, 1_000)];
    let (gang, fcs) = (makespan("gang", 1, &jobs), makespan("fcs", 1, &jobs));
    assert!((0.98..1.02).contains(&(fcs / gang)), "{fcs} s, under gang {gang} s");
}
