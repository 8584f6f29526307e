//! Steps of scripts outlive the manager and Node Managers, with real daemons and processes
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`, numbers 13, 15 and 16).

use crate::scratch::STORM;
use crate::scratch::real_cluster::RealCluster;
use crate::scratch::stdout;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A program that says where it runs, waits until the file `go` is there, and ends with status 5.
const UNTIL_GO: &str =
    "touch there-$STORM_RANK; while [ ! -e go ]; do sleep 0.02; done; echo went; exit 5";

/// Submits a script over both nodes whose output is in `out`, and returns its number.
fn submit(cluster: &RealCluster, options: &str, lines: &str) -> u64 {
    fs::write(cluster.scratch.work().join("job.sh"), format!("#!/bin/sh\n{lines}\n"))
        .expect("written");
    let words = format!("batch -q -o out -N 2 -n 4 {options} job.sh");
    let mut command = cluster.caller().storm(&words);
    let bin = Path::new(STORM).parent().expect("it is in a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is one"));
    let done = command.env("PATH", path).output().expect("storm starts");
    stdout(&done).trim().parse().expect("a number")
}

fn is_there(cluster: &RealCluster, file: &str) -> bool {
    cluster.scratch.work().join(file).exists()
}

/// Waits until the ranks of the step execute.
fn until_there(cluster: &RealCluster, ranks: u32) {
    let all = || (0..ranks).all(|rank| is_there(cluster, &format!("there-{rank}")));
    cluster.caller().wait_for("queue", |_| all().then_some(()));
}

fn go(cluster: &RealCluster) {
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
}

fn out(cluster: &RealCluster) -> String {
    fs::read_to_string(cluster.scratch.work().join("out")).unwrap_or_default()
}

/// Starts the next Node Manager and waits until its node has joined.
fn start_node(cluster: &mut RealCluster, node: u32) {
    cluster.start_node(node);
    let back = |nodes: &Value| (!nodes.to_string().contains("DOWN")).then_some(());
    cluster.caller().wait_for("nodes", back);
}

/// The lines of `out` that a script wrote, without those of commands about the manager.
fn lines_of_script(cluster: &RealCluster) -> Vec<String> {
    let mut lines: Vec<String> = out(cluster)
        .lines()
        .filter(|line| ["went", "status", "next"].iter().any(|word| line.starts_with(word)))
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_step_outlives_the_manager_and_its_command_returns() {
    let mut cluster = RealCluster::start(2, "");
    let lines =
        format!("storm run -n 4 sh -c '{UNTIL_GO}'\necho status $?\nstorm run -n 2 -N 2 echo next");
    let job = submit(&cluster, "", &lines);
    until_there(&cluster, 4);
    for _ in 0..2 {
        cluster.end_manager(Signal::SIGKILL);
        cluster.start_manager();
    }
    cluster.caller().until(job, "RUNNING");
    go(&cluster);
    let ended = cluster.caller().until(job, "COMPLETED");
    assert_eq!(ended["runs"], 1, "{ended}");
    let all = ["next", "next", "status 5", "went", "went", "went", "went"];
    assert_eq!(lines_of_script(&cluster), all, "{}", out(&cluster));
    cluster.caller().until_idle(2);
    cluster.end();
}

/// A step that waits is in no journal: its command asks again.
#[test]
fn a_step_that_waits_outlives_the_manager_with_its_command() {
    let mut cluster = RealCluster::start(2, "");
    let lines = format!(
        "storm run -n 4 sh -c '{UNTIL_GO}' &\nwhile [ ! -e there-3 ]; do sleep 0.02; done\n\
         storm run -n 4 echo next 2> waits &\nwait"
    );
    let job = submit(&cluster, "", &lines);
    until_there(&cluster, 4);
    let file = cluster.scratch.work().join("waits");
    let waits = || fs::read_to_string(&file).unwrap_or_default();
    cluster.caller().wait_for("queue", |_| waits().contains("waits").then_some(()));
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    go(&cluster);
    cluster.caller().until(job, "COMPLETED");
    let all = ["next", "next", "next", "next", "went", "went", "went", "went"];
    assert_eq!(lines_of_script(&cluster), all, "{}\n{}", out(&cluster), waits());
    cluster.end();
}

#[test]
fn a_step_outlives_each_node_manager_of_its_place() {
    let mut cluster = RealCluster::start(2, "");
    let lines =
        format!("storm run -n 4 sh -c '{UNTIL_GO}'\necho status $?\nstorm run -n 2 -N 2 echo next");
    let job = submit(&cluster, "", &lines);
    until_there(&cluster, 4);
    for node in [2, 1] {
        cluster.kill_node(node);
        cluster.caller().until_down(&format!("n{node}"));
        start_node(&mut cluster, node);
    }
    cluster.caller().until(job, "RUNNING");
    go(&cluster);
    let ended = cluster.caller().until(job, "COMPLETED");
    assert_eq!(ended["runs"], 1, "{ended}");
    let all = ["next", "next", "status 5", "went", "went", "went", "went"];
    assert_eq!(lines_of_script(&cluster), all, "{}", out(&cluster));
    cluster.caller().until_idle(2);
    cluster.end();
}

/// Nodes that have no part of a step come and go, and the steps of the others continue.
#[test]
fn a_step_is_not_touched_by_the_node_manager_of_another_node() {
    let mut cluster = RealCluster::start(2, "");
    let lines = format!(
        "storm run -n 1 sh -c '{UNTIL_GO}' &\nfirst=$!\nstorm run -n 1 -N 1 true\n\
         wait $first\necho status $?\nstorm run -n 4 echo next"
    );
    let job = submit(&cluster, "", &lines);
    until_there(&cluster, 1);
    cluster.kill_node(2);
    cluster.caller().until_down("n2");
    start_node(&mut cluster, 2);
    go(&cluster);
    cluster.caller().until(job, "COMPLETED");
    let all = ["next", "next", "next", "next", "status 5", "went"];
    assert_eq!(lines_of_script(&cluster), all, "{}", out(&cluster));
    cluster.end();
}

#[test]
fn a_script_that_waits_again_starts_its_steps_from_zero() {
    let mut cluster = RealCluster::start(2, "timeouts = { node-return = \"0s\" }");
    let lines = format!(
        "storm run -n 1 sh -c 'echo next $STORM_STEP_ID'\n\
         storm run -n 4 sh -c '{UNTIL_GO}'\necho status $?"
    );
    let job = submit(&cluster, "--requeue", &lines);
    until_there(&cluster, 4);
    for rank in 0..4 {
        let file = format!("there-{rank}");
        fs::remove_file(cluster.scratch.work().join(file)).expect("it is there");
    }
    cluster.kill_node(2);
    cluster.caller().until(job, "PENDING");
    cluster.start_node(2);
    until_there(&cluster, 4);
    go(&cluster);
    let ended = cluster.caller().until(job, "COMPLETED");
    assert_eq!(ended["runs"], 2, "{ended}");
    let lines = lines_of_script(&cluster);
    let zeros = lines.iter().filter(|line| *line == "next 0").count();
    assert_eq!((zeros, lines.contains(&"status 5".to_owned())), (1, true), "{}", out(&cluster));
    cluster.end();
}
