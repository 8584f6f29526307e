//! `storm replay` and `storm workload` as users see them: foreign logs, refusals of unusable logs,
//! and the output files.

use crate::scratch::{Scratch, stderr, told};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

/// Two jobs that fit together and one that waits for both, with all the difficulties of archive
/// logs and one line that cannot be read.
const LOG: &str = "; Version: 2.2\r\n; MaxProcs: 8 (2 nodes)\r\n;\r\n\r\n\
    11 0 -1 100 4 99.5 -1 4 200 -1 1 3 1 -1 -1 -1 -1 -1\r\n\
    12 10 -1 50.0 -1 -1 -1 4 60 -1 0 4 1 -1 -1 -1 -1 -1 extra\r\n\
    13 20 -1 30 8\r\n\
    14 twenty -1 30 8 -1 -1 8 60 -1 1 3 1 -1 -1 -1 -1 -1\r\n\
    15 25 3 -1 -1 -1 -1 2 60 -1 5 3 1 -1 -1 -1 -1 -1\r\n\
    16 26 3 5 9 -1 -1 9 60 -1 1 3 1 -1 -1 -1 -1 -1\r\n";

fn write(path: &Path, content: &[u8]) {
    std::fs::write(path, content).expect("it can be written");
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(content).expect("memory takes it");
    gzip.finish().expect("memory takes it")
}

fn place() -> Scratch {
    let scratch = Scratch::make();
    write(&scratch.work().join("log.swf"), LOG.as_bytes());
    scratch
}

/// The message of a command that must fail with this exit status.
fn refused(scratch: &Scratch, words: &str, status: i32) -> String {
    let done = scratch.does(words);
    assert_eq!(done.status.code(), Some(status), "storm {words}: {}", told(&done));
    stderr(&done)
}

fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
}

#[test]
fn a_log_is_measured_and_damage_told_with_its_line() {
    let scratch = place();
    let done = scratch.does("replay log.swf --sched fcfs --json");
    assert!(done.status.success(), "{}", told(&done));
    assert_says(&stderr(&done), &["log.swf: line 8: field 2 (submit time) is \"twenty\""]);
    let document: Value = serde_json::from_slice(&done.stdout).expect("one object");
    for (key, expected) in [
        ("jobs", Value::from(3)),
        ("dropped", Value::from(2)),
        ("damaged_lines", Value::from(1)),
        ("pes", Value::from(8)),
        // Job 13 waits from 20 to 100 and ends at 130.
        ("makespan_s", Value::from(130.0)),
        ("avg_wait_s", Value::from(80.0 / 3.0)),
        ("avg_response_s", Value::from(260.0 / 3.0)),
        ("avg_bounded_slowdown", Value::from(17.0 / 9.0)),
        ("utilisation", Value::from(840.0 / 1_040.0)),
    ] {
        assert_eq!(document[key], expected, "{key}: {document}");
    }
    assert_eq!(document["dropped_by_reason"]["no_run_time"], 1);
    assert_eq!(document["dropped_by_reason"]["too_many_procs"], 1);
    assert_eq!(document["users"].as_array().map(Vec::len), Some(3));
    let table = scratch.prints("replay log.swf --users");
    assert_says(&table, &["bounded slowdown", "too large for the machine", "USER"]);
}

#[test]
fn a_log_may_be_compressed_or_come_through_a_pipe() {
    let scratch = place();
    let plain = scratch.json("replay log.swf");
    write(&scratch.work().join("packed"), &gzip(LOG.as_bytes()));
    let packed = scratch.json("replay packed");
    assert_eq!(packed["avg_bounded_slowdown"], plain["avg_bounded_slowdown"]);
    let piped = through_stdin(&scratch, &gzip(LOG.as_bytes()));
    let piped: Value = serde_json::from_slice(&piped.stdout).expect("one object");
    assert_eq!(piped["avg_bounded_slowdown"], plain["avg_bounded_slowdown"]);
}

fn through_stdin(scratch: &Scratch, bytes: &[u8]) -> Output {
    let mut command = scratch.storm(["replay", "-", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("storm starts");
    child.stdin.take().expect("it is piped").write_all(bytes).expect("it is read");
    child.wait_with_output().expect("it ends")
}

#[test]
fn unusable_logs_are_refused_with_reason_and_remedy() {
    let scratch = place();
    let work = scratch.work();
    let said = refused(&scratch, "replay log.swf --strict", 1);
    assert_says(&said, &["damaged", "line 6", "19 fields", "without --strict"]);
    let said = refused(&scratch, "replay none.swf", 1);
    assert_says(&said, &["none.swf cannot be read"]);
    let said = refused(&scratch, "replay log.swf --sched gnag", 2);
    assert_says(&said, &["gnag", "fcfs", "gang"]);
    let whole = gzip(&LOG.as_bytes().repeat(50));
    write(&work.join("cut.gz"), &whole[..whole.len() / 2]);
    let said = refused(&scratch, "replay cut.gz", 1);
    assert_says(&said, &["cut.gz cannot be read beyond", "copy it again"]);
    write(&work.join("text"), b"to be or not to be\nthat is the question\n");
    let said = refused(&scratch, "replay text --pes 4", 1);
    assert_says(&said, &["not a log in the Standard Workload Format", "\"to\""]);
    write(&work.join("bare.swf"), b"1 0 -1 10 4\n");
    let said = refused(&scratch, "replay bare.swf", 1);
    assert_says(&said, &["how many processors", "--pes", "largest job has 4"]);
    assert_eq!(scratch.json("replay bare.swf --pes 4")["jobs"], 1);
    let said = refused(&scratch, "replay bare.swf --pes 2", 1);
    assert_says(&said, &["no job", "1 too large for the machine"]);
    write(&work.join("empty.swf"), b"");
    assert_says(&refused(&scratch, "replay empty.swf", 1), &["has no jobs"]);
    for wrong in ["--load 0", "--load x", "--trim 50", "--plot a.bmp", "--mpl-limit 0", "--pes 0"] {
        refused(&scratch, &format!("replay log.swf {wrong}"), 2);
    }
}

/// Regression: only one of the damaged lines was reported, and a useless option was taken silently.
#[test]
fn errors_are_listed_by_line_and_idle_options_are_named() {
    let scratch = place();
    let good = "1 0 -1 10 4 -1 -1 4 -1 -1 1 3 -1 -1 -1 -1 -1 -1\n";
    let damaged = format!("; MaxProcs: 4\n{}", format!("{good}x\n").repeat(12));
    write(&scratch.work().join("damaged.swf"), damaged.as_bytes());
    let said = refused(&scratch, "replay damaged.swf --strict", 1);
    assert_says(&said, &["damaged in 12 of its lines", "line 3", "line 21", "and 2 more"]);
    assert!(!said.contains("line 23"), "{said}");
    let done = scratch.does("replay log.swf --sched fcfs --mpl-limit 4 --quantum 1s");
    let in_vain = ["--mpl-limit has no effect under fcfs", "--quantum has no effect under fcfs"];
    assert_says(&stderr(&done), &in_vain);
    let done = scratch.does("replay log.swf --sched gang --mpl-limit 4 --quantum 1s");
    assert!(!stderr(&done).contains("has no effect"), "{}", told(&done));
    assert_says(&told(&done), &["quantum", "1 s"]);
}

#[test]
fn nodes_are_taken_for_processors_where_a_log_has_no_better() {
    let scratch = place();
    write(&scratch.work().join("nodes.swf"), b"; MaxNodes: 4\n1 0 -1 10 4\n");
    let done = scratch.does("replay nodes.swf");
    assert!(done.status.success(), "{}", told(&done));
    assert_says(&stderr(&done), &["no MaxProcs", "MaxNodes, 4"]);
}

#[test]
fn neither_the_log_nor_one_result_is_written_over() {
    let scratch = place();
    let path = scratch.work().join("log.swf");
    let before = std::fs::read(&path).expect("it is there");
    for line in ["replay log.swf --csv ./log.swf", "replay log.swf --csv a.svg --plot a.svg"] {
        let done = scratch.does(line);
        assert_eq!(done.status.code(), Some(2), "{line}: {}", told(&done));
        assert_says(&stderr(&done), &["would be written over"]);
    }
    assert_eq!(std::fs::read(&path).expect("it is there"), before);
}

#[test]
fn every_start_and_a_plot_are_written() {
    let scratch = place();
    scratch.prints("replay log.swf --csv starts.csv --plot plot.svg --load 0.5");
    let starts = std::fs::read_to_string(scratch.work().join("starts.csv")).expect("it is there");
    let lines: Vec<&str> = starts.lines().collect();
    assert!(lines[0].starts_with("job,user,procs,submit_s,start_s,end_s,wait_s,run_s"));
    assert!(lines[1].starts_with("11,3,4,0,0,100,0,100,200,"), "{starts}");
    assert_eq!(lines.len(), 4);
    let plot = std::fs::read_to_string(scratch.work().join("plot.svg")).expect("it is there");
    assert_says(&plot, &["<svg", "log.swf under fcfs", "processors busy", "jobs waiting"]);
}

#[test]
fn a_dash_is_standard_output_and_a_workload_can_be_json() {
    let scratch = place();
    let starts = scratch.prints("replay log.swf --csv -");
    assert!(starts.starts_with("job,user,procs,submit_s"), "{starts}");
    assert_eq!(starts.lines().count(), 4);
    let log = scratch.prints("workload lublin --pes 64 --jobs 20");
    assert_eq!(log, scratch.prints("workload lublin --pes 64 --jobs 20 -o -"));
    let document = scratch.json("workload lublin --pes 64 --jobs 20");
    assert_eq!((&document["pes"], &document["seed"]), (&64.into(), &1.into()));
    let jobs = document["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 20);
    assert!(jobs.iter().all(|job| job["procs"].as_i64() > Some(0) && job["run_s"].is_i64()));
    assert!(!scratch.work().join("-").exists());
    let said = refused(&scratch, "replay log.swf --pes abc", 2);
    assert_says(&said, &["--pes", "a number of processors"]);
}

#[test]
fn a_generated_workload_is_a_log_of_the_load_that_was_asked_for() {
    let scratch = Scratch::make();
    let first = scratch.prints("workload lublin --pes 64 --jobs 500 --load 0.7 --seed 3");
    assert_eq!(first, scratch.prints("workload lublin --pes 64 --jobs 500 --load 0.7 --seed 3"));
    assert_ne!(first, scratch.prints("workload lublin --pes 64 --jobs 500 --load 0.7 --seed 4"));
    let written = scratch.json("workload lublin --pes 64 --jobs 500 --load 0.7 -o load.swf.gz");
    assert_eq!(written["jobs"], 500);
    let replayed = scratch.json("replay load.swf.gz --sched gang --strict");
    assert_eq!((&replayed["jobs"], &replayed["pes"]), (&500.into(), &64.into()));
    let load = replayed["offered_load"].as_f64().expect("a number");
    assert!((load - 0.7).abs() < 1e-3, "{load}");
    assert!(replayed["time_sharing"]["context_switches"].as_u64() > Some(0));
    assert!(replayed["steady_state"]["avg_wait_s"]["half_width"].as_f64() >= Some(0.0));
    assert_says(&refused(&scratch, "workload lublin --pes 4", 2), &["use 8 to"]);
}

#[test]
fn parameters_of_a_policy_are_given_by_name_and_refused_with_names_and_ranges() {
    let scratch = place();
    let shown = |words: &str| {
        let json = scratch.json(words);
        (json["quantum_s"].clone(), json["avg_response_s"].clone())
    };
    let by_option = shown("replay log.swf --sched gang --quantum 2s --mpl-limit 1");
    let by_name =
        shown("replay log.swf --sched gang --param quantum-us=2000000 --param mpl-limit=1");
    assert_eq!((&by_option.0, &by_option), (&Value::from(2.0), &by_name));
    scratch.prints("replay log.swf --sched gang --repack --param packing=first-fit");
    scratch.prints("replay log.swf --sched gang --param repack=true");
    for (words, said) in [
        ("--sched gang --param quantum=1s", "quantum-us (100 to 3600000000)"),
        ("--sched gang --param mpl-limit=0", "mpl-limit is 1 to 1024"),
        ("--sched gang --param packing=tetris", "first-fit, best-fit, left-right"),
        ("--sched gang --param repack", "NAME=VALUE is expected"),
        ("--sched gang --param mpl-limit=2 --mpl-limit 2", "is given twice"),
        ("--sched gang --repack --live", "cannot be used with"),
    ] {
        assert_says(&refused(&scratch, &format!("replay log.swf {words}"), 2), &[said]);
    }
    let idle = scratch.does("replay log.swf --sched fcfs --repack --param packing=buddy");
    assert_says(&stderr(&idle), &["--repack has no effect under fcfs", "--param packing has"]);
}

#[test]
fn intervals_are_told_by_their_ends_and_hold_possible_values() {
    let scratch = Scratch::make();
    scratch.prints("workload lublin --pes 64 --jobs 200 --load 0.9 --seed 5 -o load.swf");
    let steady = scratch.json("replay load.swf --sched fcfs")["steady_state"].clone();
    for (mean, least) in
        [("avg_bounded_slowdown", 1.0), ("avg_wait_s", 0.0), ("avg_response_s", 0.0)]
    {
        let end = |name: &str| steady[mean][name].as_f64().expect("a number");
        assert!(least <= end("low") && end("low") <= end("mean"), "{steady}");
        assert!(end("mean") <= end("high"), "{steady}");
    }
    let table = scratch.prints("replay load.swf --sched fcfs");
    let line = table.lines().find(|line| line.starts_with("steady state")).expect("a line");
    assert!(line.contains("..") && !line.contains('±'), "{line}");
}

#[test]
fn a_live_replay_stands_beside_virtual_time() {
    let scratch = Scratch::make();
    // Each job takes the whole machine, so that their order does not depend on this host's speed.
    // The second one has the shortest estimate, and `easy` keeps the order.
    let log = "; MaxProcs: 4\n1 0 -1 200 4 -1 -1 4 900\n2 10 -1 100 4 -1 -1 4 300\n\
        3 20 -1 100 4 -1 -1 4 900\n4 30 -1 100 4 -1 -1 4 900\n";
    write(&scratch.work().join("live.swf"), log.as_bytes());
    let words = "replay live.swf --sched easy --live --speedup 1000 --nodes 2";
    let document = scratch.json(words);
    assert_eq!((&document["jobs"], &document["live"]), (&4.into(), &true.into()));
    assert_eq!(document["same_order"], 1.0);
    let starts = document["starts"].as_array().expect("a list");
    let order: Vec<_> = starts.iter().filter_map(|start| start["job"].as_i64()).collect();
    assert_eq!(order, [1, 2, 3, 4]);
    assert_eq!(document["planned"]["makespan_s"], 500.0);
    // They run one after the other. A nap ends as planned, so the first is shorter by its launch.
    assert!(document["makespan_s"].as_f64() >= Some(300.0), "{document}");
    let said = refused(&scratch, "replay live.swf --live --nodes 3", 1);
    assert_says(&said, &["3 nodes", "divisor"]);
    scratch.assert_nothing_runs();
}
