//! Jobs that share processors without strobes, on the simulated machine with its live daemons. They
//! get equal shares. The more often their ranks wait for each other, the slower they are.

use storm_sim::scenario::{self, RunOptions, Scenario};

const SEEDS: std::ops::Range<u64> = 0..5;
/// Nodes of one processor.
const NODES: u32 = 8;

/// The time from the launch of the first to the end of the last of two equal jobs on all nodes, as
/// a multiple of their computing time.
fn slowdown(sched: &str, seed: u64, application: &str, work_ms: f64) -> f64 {
    let machine = format!(
        "[machine]\nprofile = \"plain\"\nnodes = {NODES}\npes = 1\nquantum = \"20ms\"\n\
         mpl = 2\nsched = \"{sched}\"\n"
    );
    let job = |name: &str| {
        format!("[[job]]\nname = \"{name}\"\nprocs = {NODES}\napplication = {{ {application} }}\n")
    };
    let text = format!("{machine}{}{}", job("one"), job("two"));
    let scenario = Scenario::parse(&text).expect("the scenario is sound");
    let options = RunOptions { seed: Some(seed), traces: false };
    let outcome = scenario::run(&scenario, options).expect("every invariant holds");
    let times = outcome.report.jobs.iter().map(|job| {
        assert_eq!(job.state, "COMPLETED", "seed {seed}: {job:?}");
        job.exec_ms.expect("it ran")
    });
    times.fold(0.0, f64::max) / (2.0 * work_ms)
}

fn bsp(granularity_us: u32, iterations: u32) -> (String, f64) {
    let application = format!(
        "kind = \"bulk-synchronous\", iterations = {iterations}, compute = \"{granularity_us}us\""
    );
    (application, f64::from(granularity_us * iterations) / 1000.0)
}

#[test]
fn jobs_that_only_compute_have_equal_shares_under_local() {
    for seed in SEEDS {
        let slowdown = slowdown("local", seed, "kind = \"compute\", time = \"60ms\"", 60.0);
        assert!((0.99..1.1).contains(&slowdown), "seed {seed}: {slowdown}");
    }
}

#[test]
fn ranks_that_wait_often_need_each_other_at_the_same_time() {
    // The turns of the nodes end at random times, so some seeds are luckier than others.
    let mean = |sched: &str, (application, work): (String, f64)| {
        let slowdowns = SEEDS.map(|seed| slowdown(sched, seed, &application, work));
        slowdowns.sum::<f64>() / SEEDS.count() as f64
    };
    let (gang, local) = (mean("gang", bsp(100, 400)), mean("local", bsp(100, 400)));
    assert!(gang < 1.2, "{gang}");
    assert!(local > 2.0 * gang, "local {local}, gang {gang}");
    // Ranks that sleep while they wait leave the processor to the other job (A6: 1.1 to 1.4).
    let ics = mean("ics", bsp(100, 400));
    assert!(ics < 1.5, "ics {ics}");
    let pb = mean("pb", bsp(100, 400));
    assert!(pb < local, "pb {pb}, local {local}");
    let local = mean("local", bsp(100_000, 4));
    assert!(local < 1.5, "{local}");
}
