//! `storm sim` as users see it: its output in each form, and its messages and files when a run
//! fails or is interrupted.

use crate::scratch::{Scratch, stderr, told};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;

/// Most checks whether a process waits for signals: many seconds.
const MAX_LOOKS: u32 = 10_000_000;

/// Two nodes and two jobs, the second of which waits for the first.
fn scenario(limit: &str) -> String {
    format!(
        "limit = \"{limit}\"\n[machine]\nprofile = \"plain\"\nnodes = 2\npes = 1\nmpl = 1\n\
         [[job]]\nname = \"first\"\napplication = {{ kind = \"compute\", time = \"2s\" }}\n\
         [[job]]\nname = \"second\"\nat = \"10ms\"\n\
         application = {{ kind = \"compute\", time = \"1ms\" }}\n"
    )
}

/// Directories with a scenario that passes and one whose jobs do not end.
fn place() -> Scratch {
    let scratch = Scratch::make();
    for (name, limit) in [("good.toml", "60s"), ("bad.toml", "1s")] {
        std::fs::write(scratch.work().join(name), scenario(limit)).expect("it can be written");
    }
    scratch
}

#[test]
fn a_run_is_told_as_a_table_as_json_and_in_few_words() {
    let scratch = place();
    let table = scratch.prints("sim good.toml");
    let header = table.lines().next().expect("a header");
    assert!(header.contains("SLOWDOWN") && header.ends_with("REASON"), "{table}");
    assert_eq!(scratch.prints("sim good.toml -q"), "1 COMPLETED\n2 COMPLETED\n");
    let json = scratch.json("sim good.toml --seed 4");
    assert_eq!((&json["seed"], &json["failed"]), (&Value::from(4), &Value::Null));
    assert_eq!(json["jobs"][1]["state"], "COMPLETED");
}

#[test]
fn the_example_of_the_help_runs_as_it_is_printed() {
    let scratch = Scratch::make();
    let help = scratch.prints("sim --help");
    let example = help.split("cat > ").nth(1).and_then(|rest| rest.split("\n\n").next());
    let script = format!("set -e\ncat > {}", example.expect("there is an example"));
    let path = std::path::Path::new(crate::scratch::STORM).parent().expect("in a directory");
    let path = format!("{}:{}", path.display(), std::env::var("PATH").expect("a path"));
    let done = scratch.command("sh").args(["-c", &script]).env("PATH", path).output().unwrap();
    assert!(done.status.success(), "{}", told(&done));
    assert!(told(&done).contains("COMPLETED"), "{}", told(&done));
}

#[test]
fn a_failed_run_names_its_jobs_its_seed_and_how_to_repeat_it_and_leaves_its_trace() {
    let scratch = place();
    let done = scratch.does("sim bad.toml --seed 5 --trace out.json");
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    let said = stderr(&done);
    for word in [
        "seed 5 fails",
        "2 jobs have not ended",
        "job 1 (first), RUNNING",
        "job 2 (second), PENDING",
        "storm sim bad.toml --seed 5",
    ] {
        assert!(said.contains(word), "no {word:?}: {}", told(&done));
    }
    let table = String::from_utf8_lossy(&done.stdout);
    assert!(table.contains("RUNNING") && table.contains("it runs on n[1-2]"), "{table}");
    let trace = std::fs::read(scratch.work().join("out.json")).expect("the trace is there");
    let trace: Value = serde_json::from_slice(&trace).expect("it is JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| !events.is_empty()));
    let json = scratch.does("sim bad.toml --seed 5 --json");
    assert_eq!(json.status.code(), Some(1), "{}", told(&json));
    let document: Value = serde_json::from_slice(&json.stdout).expect("one document");
    assert_eq!(document["failed"]["repeat"], "storm sim bad.toml --seed 5");
    assert_eq!(document["jobs"][0]["slowdown"], Value::Null);
}

#[test]
fn a_trace_goes_to_standard_output_and_the_report_beside_it() {
    let scratch = place();
    let done = scratch.does("sim good.toml --trace -");
    assert!(done.status.success(), "{}", told(&done));
    let trace: Value = serde_json::from_slice(&done.stdout).expect("it is nothing but the trace");
    assert!(trace["traceEvents"].is_array());
    assert!(stderr(&done).contains("COMPLETED"), "{}", told(&done));
}

#[test]
fn many_seeds_are_one_document_and_name_those_that_fail() {
    let scratch = place();
    let good = scratch.json("sim good.toml --seeds 0..3");
    assert_eq!((&good["run"], &good["failed"]), (&3.into(), &Value::Array(Vec::new())));
    assert_eq!(good["interrupted"], false);
    let bad = scratch.does("sim bad.toml --seeds 3..5 --json");
    assert_eq!(bad.status.code(), Some(1), "{}", told(&bad));
    let document: Value = serde_json::from_slice(&bad.stdout).expect("one document");
    let seeds: Vec<_> = document["failed"].as_array().expect("a list").iter().collect();
    assert_eq!((&seeds[0]["seed"], &seeds[1]["seed"]), (&3.into(), &4.into()));
    assert_eq!(seeds[0]["repeat"], "storm sim bad.toml --seed 3");
    let quiet = scratch.does("sim bad.toml --seeds 3..5 -q");
    assert_eq!(quiet.stdout, b"3\n4\n");
}

#[test]
fn many_seeds_that_are_interrupted_tell_what_there_is() {
    let scratch = place();
    // More seeds than can be run before the signal arrives, or ever.
    let mut command = scratch.storm(["sim", "bad.toml", "--seeds", "0..1000000000", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("storm starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let mut looks = 0..MAX_LOOKS;
    while !catches_sigint(pid) {
        assert!(looks.next().is_some(), "it does not wait for signals");
        std::thread::yield_now();
    }
    kill(pid, Signal::SIGINT).expect("it runs");
    let mut text = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut text).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}");
    let document: Value = serde_json::from_str(&text).expect("one document");
    assert_eq!(document["interrupted"], true);
    let failed = document["failed"].as_array().map(Vec::len);
    assert_eq!(failed.map(|count| count as u64), document["run"].as_u64());
}

/// Whether a process has a handler for SIGINT: bit 1 of `SigCgt` of proc(5).
fn catches_sigint(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (Signal::SIGINT as u64 - 1)) != 0)
}
