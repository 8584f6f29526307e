//! A cluster that `storm up` keeps: two jobs that alternate, every listing as a script reads it,
//! and its end.

use crate::scratch::{STORM, Scratch, stderr, stdout, sweep3d, told};
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

/// Long enough for the second job to arrive while the first runs.
const STEPS: &str = "8";

/// Most attempts to be faster than a command.
const MAX_TRIES: usize = 100;
/// Most searches for processes that are ending; each takes milliseconds.
const MAX_LOOKS: usize = 10_000;

fn submit(scratch: &Scratch, words: &str) -> u64 {
    let id = scratch.prints(&format!("submit -q {words}"));
    id.trim().parse().unwrap_or_else(|error| panic!("{id}: {error}"))
}

fn time(job: &Value, key: &str) -> Timestamp {
    let text = job[key].as_str().unwrap_or_else(|| panic!("no {key} in {job}"));
    text.parse().unwrap_or_else(|error| panic!("{key} is {text}: {error}"))
}

#[test]
fn two_jobs_at_once_take_turns_and_both_are_right() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 1 --quantum 5ms");
    let ids = [0, 1].map(|_| {
        let mut command = scratch.storm(["submit", "-q", "-n", "2", "--sched", "gang"]);
        let done = command.arg(sweep3d()).args(["--steps", STEPS]).output().expect("storm starts");
        assert!(done.status.success(), "{}", told(&done));
        let id = stdout(&done);
        id.trim().parse::<u64>().unwrap_or_else(|error| panic!("{id}: {error}"))
    });
    let jobs = scratch.wait_for("hist", |ended| {
        let find = |id| ended.as_array()?.iter().find(|job| job["id"] == id).cloned();
        Some([find(ids[0])?, find(ids[1])?])
    });
    for (id, job) in ids.iter().zip(&jobs) {
        assert_eq!(job["state"], "COMPLETED", "{job}");
        assert_eq!(job["node_list"], "n[1-2]", "{job}");
        let written = scratch.work().join(format!("storm-{id}.out"));
        let written = fs::read_to_string(written).expect("the output is written");
        assert!(written.contains("answer: OK"), "{written}");
    }
    assert_ne!(jobs[0]["row"], jobs[1]["row"], "they had a row each: {jobs:?}");
    let [first, second] = &jobs;
    assert!(time(first, "started") < time(second, "ended"), "{jobs:?}");
    assert!(time(second, "started") < time(first, "ended"), "{jobs:?}");
}

#[test]
fn every_listing_can_be_read_by_a_script() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 1 --sched gang,fcfs");
    let runs = submit(&scratch, "--sched fcfs sleep 600");
    let waits = submit(&scratch, "--sched fcfs sleep 600");
    scratch.wait_for(&format!("show {runs}"), |job| (job["state"] == "RUNNING").then_some(()));
    let queue = scratch.json("queue");
    assert_eq!(queue.as_array().map(Vec::len), Some(2), "{queue}");
    let why = scratch.json(&format!("explain {waits}"));
    assert_eq!(why["state"], "PENDING", "{why}");
    assert!(why["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{why}");
    assert_eq!(why["held_by"][0]["job"], runs, "{why}");
    assert!(!scratch.prints(&format!("explain {waits}")).is_empty());
    let nodes = scratch.json("nodes");
    assert_eq!(nodes.as_array().map(Vec::len), Some(2), "{nodes}");
    scratch.json(&format!("cancel {waits} {runs}"));
    let ended =
        scratch.wait_for("hist", |ended| ended.as_array().filter(|jobs| jobs.len() == 2).cloned());
    assert!(ended.iter().all(|job| job["state"] == "CANCELLED"), "{ended:?}");
    assert_eq!(scratch.json("queue").as_array().map(Vec::len), Some(0));
    for (states, of_these) in [("CANCELLED,FAILED", 2), ("FAILED,TIMEOUT", 0)] {
        let listed = scratch.json(&format!("hist --state {states}"));
        assert_eq!(listed.as_array().map(Vec::len), Some(of_these), "{states}: {listed}");
    }
    assert_eq!(scratch.json("version")["version"], env!("CARGO_PKG_VERSION"));
    for words in ["queue", "queue -a", "hist", "nodes", "nodes -l", "version"] {
        scratch.prints(words);
    }
}

#[test]
fn impossible_values_are_refused_with_the_possible_ones() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 1");
    let refused = scratch.does("submit --sched nosuch true");
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    let said = stderr(&refused);
    assert!(said.contains("nosuch") && said.contains("gang on n[1-2]"), "{said}");
    let unknown = scratch.does("show 4711");
    assert_eq!(unknown.status.code(), Some(1), "{}", told(&unknown));
    assert!(stderr(&unknown).contains("4711"), "{}", told(&unknown));
    // If several jobs have the same mistake, the hint is printed once.
    for verb in ["cancel", "hold", "release"] {
        let unknown = scratch.does(&format!("{verb} 77 78"));
        assert_eq!(unknown.status.code(), Some(1), "{}", told(&unknown));
        assert_eq!(stdout(&unknown), "");
        let said = stderr(&unknown);
        assert!(
            said.contains("there is no job 77") && said.contains("there is no job 78"),
            "{said}"
        );
        assert_eq!(said.matches("try: storm queue and storm hist").count(), 1, "{said}");
    }
    let again = scratch.does("up --nodes 2");
    assert_eq!(again.status.code(), Some(1), "a second cluster: {}", told(&again));
}

#[test]
fn the_end_leaves_nothing() {
    let scratch = Scratch::make();
    let up = scratch.json("up --nodes 2 --pes 1");
    let directory = up["runtime_dir"].as_str().expect("it tells where").to_owned();
    assert!(Path::new(&directory).exists());
    let journal = fs::metadata(Path::new(&directory).join("journal.redb")).expect("it is kept");
    assert_eq!(journal.mode() & 0o777, 0o600, "users' environments are in it");
    let job = submit(&scratch, "-n 2 sleep 600");
    scratch.wait_for(&format!("show {job}"), |job| (job["state"] == "RUNNING").then_some(()));
    let alive = scratch.processes();
    assert!(alive.iter().any(|line| line.starts_with(STORM)), "the daemons are seen: {alive:?}");
    assert!(alive.iter().any(|line| line.contains("sleep")), "the ranks are seen: {alive:?}");
    scratch.prints("down");
    assert!(!Path::new(&directory).exists(), "{directory} is left");
    scratch.assert_nothing_runs();
    let none = scratch.does("queue");
    assert_eq!(none.status.code(), Some(1), "there is no cluster: {}", told(&none));
}

#[test]
fn a_cluster_that_died_is_not_taken_for_none() {
    let scratch = Scratch::make();
    let up = scratch.json("up --nodes 1 --pes 2");
    let pid = up["process"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = Pid::from_raw(pid.expect("it tells which process"));
    let job = submit(&scratch, "sleep 600");
    let followers = ["run sleep 600", &format!("wait {job}")].map(|words| {
        let mut follower = scratch.storm(words.split(' '));
        follower.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    });
    scratch.wait_for("queue", |queue| {
        let running = queue.as_array()?.iter().filter(|job| job["state"] == "RUNNING").count();
        (running == 2).then_some(())
    });
    kill(pid, Signal::SIGKILL).expect("it is ours");
    for follower in followers {
        let ended = follower.wait_with_output().expect("it ends");
        let said = stderr(&ended);
        assert!(ended.status.code() == Some(125) && said.contains("has died"), "{}", told(&ended));
    }
    // While the manager is ending, it does not answer.
    let said = std::iter::repeat_with(|| stderr(&scratch.does("queue"))).take(1000);
    let said = said.into_iter().find(|said| said.contains("has died")).expect("it is said");
    assert!(said.contains(&pid.to_string()) && said.contains("mm.log"), "{said}");
    let run = scratch.does("run true");
    assert!(!run.status.success() && stderr(&run).contains("has died"), "{}", told(&run));
    scratch.prints("down");
    assert!(stderr(&scratch.does("queue")).contains("no cluster"), "it is forgotten");
    // Nodes notice by themselves that their manager has died.
    let gone =
        std::iter::repeat_with(|| scratch.processes().is_empty()).take(1000).any(|gone| gone);
    assert!(gone, "{:?}", scratch.processes());
}

/// Whether a process has a child with this argument. Searching all processes may take longer than
/// the child lives.
fn has_child(parent: u32, argument: &str) -> bool {
    // The children of each thread; a thread that ends meanwhile has none.
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    children.flatten().any(|children| {
        children.split_whitespace().any(|child| {
            let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.split('\0').any(|word| word == argument)
        })
    })
}

/// Ends an `up` whose manager has started. Returns whether it was in time; if not, there is a
/// record, and the cluster is ended.
fn ended_by(signal: Signal, scratch: &Scratch) -> bool {
    // Starting this many nodes takes longer than noticing the first process, even on a busy
    // machine.
    let mut up = scratch.storm(["up", "--nodes", "128"]).spawn().expect("storm starts");
    let up_pid = Pid::from_raw(up.id().cast_signed());
    while !has_child(up.id(), "mm") && up.try_wait().expect("our child").is_none() {}
    // The process may have ended by itself, but is not reaped yet.
    let _ = kill(up_pid, signal);
    up.wait().expect("our child");
    told(&scratch.does("down")).contains("No cluster is kept up")
}

/// Regression: a cluster whose `up` was killed or interrupted before it was recorded ran for ever,
/// because no record named it.
#[test]
fn an_up_that_is_killed_leaves_no_cluster() {
    let scratch = Scratch::make();
    // SIGINT has the same effect, but is ignored where a script runs these tests in the background.
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let in_time = std::iter::repeat_with(|| ended_by(signal, &scratch)).take(MAX_TRIES);
        assert!(in_time.into_iter().any(|in_time| in_time), "it was too fast each time");
        let left = std::iter::repeat_with(|| scratch.processes()).take(MAX_LOOKS);
        assert!(left.into_iter().any(|left| left.is_empty()), "{:?}", scratch.processes());
    }
    scratch.prints("up --nodes 1");
    scratch.prints("run true");
}

#[test]
fn more_than_an_own_cluster_can_do_is_refused_with_what_can() {
    let scratch = Scratch::make();
    let few = scratch.does("up --nodes 2 --sched gang,fcfs,local");
    assert_eq!(few.status.code(), Some(2), "{}", told(&few));
    assert!(stderr(&few).contains("3 policies need at least 3 nodes"), "{}", told(&few));
    for words in ["up --sched gagn", "run --sched gagn true"] {
        let unknown = scratch.does(words);
        assert_eq!(unknown.status.code(), Some(2), "{}", told(&unknown));
        assert!(stderr(&unknown).contains("\"gagn\": use one of"), "{}", told(&unknown));
    }
    let many = scratch.does("run -n 300 true");
    assert_eq!(many.status.code(), Some(1), "{}", told(&many));
    assert!(stderr(&many).contains("--nodes 75"), "{}", told(&many));
}

#[test]
fn a_file_where_the_socket_should_be_is_left_alone() {
    let scratch = Scratch::make();
    let file = scratch.work().join("precious");
    fs::write(&file, "data").expect("written");
    let config = format!(
        "listen = \"127.0.0.1:0\"\nsocket = \"{0}/precious\"\nstate-dir = \"{0}/state\"\n\
         [[nodes]]\nnames = \"n1\"\npes = 1\n",
        scratch.work().display()
    );
    fs::write(scratch.work().join("storm.toml"), config).expect("written");
    let refused = scratch.does("mm --config storm.toml");
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(stderr(&refused).contains("not a socket"), "{}", told(&refused));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "data");
}

#[test]
fn jobs_do_not_wait_for_the_edge_of_a_slice_that_nobody_uses() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 2 --quantum 1h");
    let until = |id: u64, state: &str| {
        scratch.wait_for(&format!("show {id}"), |job| (job["state"] == state).then_some(()));
    };
    let first = submit(&scratch, "-n 4 sleep 1000");
    until(first, "RUNNING");
    let [second, third] = [0, 1].map(|_| submit(&scratch, "-n 4 sleep 1000"));
    let small = submit(&scratch, "-n 1 true");
    scratch.prints(&format!("cancel {first}"));
    until(second, "RUNNING");
    // Not only by number.
    let shown = scratch.json(&format!("show {first}"));
    let by = format!("cancelled by {} ({})", shown["user"]["name"], shown["user"]["uid"]);
    let logged = |entry: &Value| entry["text"] == by.replace('"', "");
    assert!(shown["log"].as_array().is_some_and(|log| log.iter().any(logged)), "{shown}");
    // Into the columns of the running row, or of a row that shares them.
    scratch.prints(&format!("cancel {second}"));
    until(third, "RUNNING");
    scratch.prints(&format!("cancel {third}"));
    until(small, "COMPLETED");
    let idle =
        |nodes: &Value| nodes.as_array()?.iter().all(|node| node["state"] == "IDLE").then_some(());
    scratch.wait_for("nodes", idle);
    scratch.prints("down");
}

#[test]
fn a_runtime_directory_that_cannot_be_used_is_complained_of() {
    let scratch = Scratch::make();
    let mut command = scratch.storm(["queue"]);
    let done = command.env("XDG_RUNTIME_DIR", "/no/where").output().expect("storm starts");
    let said = stderr(&done);
    assert!(said.contains("XDG_RUNTIME_DIR, /no/where, is no directory"), "{said}");
}
