//! The benchmarks with a small workload. The tests check that they run and count, not their
//! results.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a benchmark on two nodes of two. Returns its output.
fn measured(benchmark: &str, arguments: &[&str]) -> Value {
    let storm = Path::new(benchmark).with_file_name("storm");
    assert!(storm.exists(), "{} is missing: `cargo build -p storm`", storm.display());
    let mut command = Command::new(benchmark);
    command.args(["--nodes", "2", "--runs", "1", "--json"]).args(arguments);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn all_ways_to_submit_run_all_their_jobs() {
    let report = measured(env!("CARGO_BIN_EXE_throughput"), &["--pes", "2", "--jobs", "20"]);
    assert_eq!(report["jobs"], 20);
    let cases = report["cases"].as_array().expect("a list");
    let ways: Vec<_> = cases.iter().map(|case| case["way"].as_str().expect("text")).collect();
    assert_eq!(ways, ["one-by-one", "four-clients", "at-once", "array", "followed"]);
    for (case, commands) in cases.iter().zip([20, 20, 0, 0, 2]) {
        assert!(case["jobs_per_s"]["median"].as_f64().expect("a number") > 0.0);
        assert_eq!(case["latency"]["count"].as_u64().unwrap_or(0), commands, "{case}");
    }
    assert_eq!(report["absent"], Value::Array(Vec::new()));
}

#[test]
fn the_memory_of_all_daemons_is_found() {
    let options = ["--pes", "2", "--jobs", "20", "--rest", "0"];
    let report = measured(env!("CARGO_BIN_EXE_memory"), &options);
    for (daemon, count) in [
        ("node_manager_idle", 2),
        ("node_manager_after_jobs", 2),
        ("machine_manager_idle", 1),
        ("machine_manager_queued", 1),
    ] {
        let resident = &report[daemon]["rss_mib"];
        assert_eq!(resident["runs"], count, "{daemon}: {report}");
        assert!(resident["median"].as_f64().expect("a number") > 0.0, "{daemon}: {report}");
    }
}

#[test]
fn a_launch_reports_the_work_of_the_daemons() {
    let cases = measured(env!("CARGO_BIN_EXE_launch"), &["--sizes", "0"]);
    for launch in ["first", "again"] {
        let work = &cases[0][launch]["costs"]["node-manager"]["cpu_ms"];
        assert!(work.as_f64().expect("a number") > 0.0, "{cases}");
    }
}

/// The output of the ping-pong of two ranks with these words.
fn pingpong(words: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pingpong"));
    command.args(["--runs", "1", "--seconds", "0.001", "--json"]).args(words.split(' '));
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["cases"].as_array().expect("a list").clone()
}

#[test]
fn ping_pong_measures_all_sizes() {
    let cases = pingpong("--sizes 1,100000 --waits block,spin-block");
    for (way, wait) in [("node", "block"), ("node", "spin-block"), ("tcp", "spin-block")] {
        let of =
            |case: &&Value| case["way"] == way && case["library"] == format!("storm-mpi {wait}");
        let sizes: Vec<_> = cases.iter().filter(of).map(|case| &case["bytes"]).collect();
        assert_eq!(sizes, [1, 100_000], "{cases:?}");
    }
    assert!(cases.iter().all(|case| case["mib_per_s"].as_f64().expect("a number") > 0.0));
}

#[test]
fn collectives_of_two_ranks_are_measured() {
    let what =
        "barrier,bcast,reduce,allreduce,reduce-scatter,scan,gather,scatter,allgather,alltoall";
    let cases = pingpong(&format!("--sizes 1,70000 --waits block --what {what}"));
    assert_eq!(cases.len(), 2 * 10 * 2, "ways, collectives, lengths: {cases:?}");
    assert!(cases.iter().all(|case| case["us"]["median"].as_f64().expect("a number") > 0.0));
}

#[test]
fn buffered_coscheduling_is_simulated_beside_direct_messages() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bcs"));
    command.args(["--rounds", "20", "--grids", "2x2", "--granularity-us", "2000", "--json"]);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    // Virtual time: the numbers do not depend on this machine.
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |value: &Value| value.as_f64().expect("a number");
    let slices = report["slices"].as_array().expect("a list");
    let kinds: Vec<_> = slices.iter().map(|slice| slice["kind"].as_str().expect("text")).collect();
    assert_eq!(kinds, ["empty", "messages", "barrier", "broadcast", "sum", "both"], "{report}");
    let took: Vec<f64> = slices.iter().map(|slice| number(&slice["took_us"])).collect();
    assert!(took[1..].iter().all(|us| took[0] < *us && *us < 500.0), "{report}");
    assert!((1.0..2.0).contains(&number(&report["ping_pong"][0]["mean_slices"])), "{report}");
    let stencils = report["stencils"].as_array().expect("a list");
    assert_eq!(stencils.len(), 2, "{report}");
    let quick = stencils.iter().find(|case| case["blocking"] == false).expect("one");
    assert!(number(&quick["slowdown_percent"]) < 2.0, "{report}");
    assert!(number(&report["two_jobs"][0]["ratio"]) < 1.0, "{report}");
}

/// Daemons that are killed and stopped at random recover, and nothing is lost or done twice.
#[test]
fn random_deaths_of_daemons_break_no_promise() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(["--seed", "1", "--seconds", "4", "--nodes", "3", "--json"]);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let outcomes: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(outcomes[0]["jobs"].as_u64().is_some_and(|jobs| jobs > 0), "{outcomes}");
    assert!(outcomes[0]["faults"].as_object().is_some_and(|all| !all.is_empty()), "{outcomes}");
}
