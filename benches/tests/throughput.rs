//! The benchmark of throughput at work, with a few jobs: that it runs and counts,
//! not what it measures.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const THROUGHPUT: &str = env!("CARGO_BIN_EXE_throughput");

/// Runs it; what it printed.
fn measured(arguments: &[&str]) -> Value {
    let storm = Path::new(THROUGHPUT).with_file_name("storm");
    assert!(storm.exists(), "{} is missing: `cargo build -p storm`", storm.display());
    let mut command = Command::new(THROUGHPUT);
    command.args(["--nodes", "2", "--pes", "2", "--runs", "1", "--json"]).args(arguments);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn all_ways_to_submit_run_all_their_jobs() {
    let report = measured(&["--jobs", "20"]);
    assert_eq!(report["jobs"], 20);
    let cases = report["cases"].as_array().expect("a list");
    let ways: Vec<_> = cases.iter().map(|case| case["way"].as_str().expect("text")).collect();
    assert_eq!(ways, ["one-by-one", "four-clients", "at-once", "followed"]);
    for (case, commands) in cases.iter().zip([20, 20, 0, 2]) {
        assert!(case["jobs_per_s"]["median"].as_f64().expect("a number") > 0.0);
        assert_eq!(case["latency"]["count"].as_u64().unwrap_or(0), commands, "{case}");
    }
    assert_eq!(report["absent"], Value::Array(Vec::new()));
}
