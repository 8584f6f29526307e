//! Jobs' demands on their nodes as users see them: each option with real processes, and drained
//! nodes.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{Scratch, stderr, stdout, told};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Output;

/// A kept cluster of 2 nodes with 4 processing elements each.
fn cluster(sched: &str) -> Scratch {
    let scratch = Scratch::make();
    scratch.prints(&format!("up --nodes 2 --pes 4 --sched {sched}"));
    scratch
}

fn run(scratch: &Scratch, options: &str, script: &str) -> Output {
    let mut command = scratch.storm(["run"]);
    command.args(options.split_whitespace()).args(["/bin/sh", "-c", script]);
    command.output().expect("storm starts")
}

/// The sorted output lines of the ranks.
fn lines(scratch: &Scratch, options: &str, script: &str) -> Vec<String> {
    let done = run(scratch, options, script);
    assert!(done.status.success(), "{options}: {}", told(&done));
    let mut lines: Vec<String> = stdout(&done).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Submits a job, and returns its number.
fn submit(scratch: &Scratch, options: &str, program: &str) -> u64 {
    let said = scratch.prints(&format!("submit -q {options} {program}"));
    said.trim().parse().expect("a number")
}

/// Submits a job that runs until it is cancelled, and waits until it runs.
fn occupy(scratch: &Scratch, options: &str) -> u64 {
    let job = submit(scratch, options, "sleep 1000");
    scratch.wait_for(&format!("show {job}"), |shown| (shown["state"] == "RUNNING").then_some(()));
    job
}

fn reason(job: &Value) -> &str {
    job["reason"].as_str().unwrap_or_default()
}

#[test]
fn a_process_of_several_elements_has_as_many_cores_and_knows() {
    let scratch = cluster("gang");
    let script = "echo $STORM_CPUS_PER_TASK $(grep -c ^processor /proc/cpuinfo) $(nproc)";
    let cores = std::thread::available_parallelism().expect("the kernel tells").get();
    let bound = |options: &str| -> usize {
        let said = lines(&scratch, options, script);
        said[0].rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number")
    };
    let one = bound("-n 1 --bind core");
    assert_eq!(bound("-n 1 -c 2 --bind core"), (2 * one).min(cores));
    assert_eq!(bound("-n 1 -c 2"), cores, "a rank that is not bound has them all");
    assert!(lines(&scratch, "-n 1 --cpus-per-task 3", script)[0].starts_with("3 "));
    // Two processes of three elements each need both nodes.
    let nodes = lines(&scratch, "-n 2 -c 3", "echo $STORM_NODE_ID");
    assert_eq!(nodes, ["1", "2"]);
    let refused = run(&scratch, "-n 1 -c 5", "true");
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(stderr(&refused).contains("--cpus-per-task 5: the largest node has 4 PEs"));
}

#[test]
fn processes_are_dealt_out_as_many_to_a_node_as_is_said() {
    let scratch = cluster("gang");
    let script = "echo $STORM_NODE_ID $STORM_LOCAL_SIZE $STORM_NTASKS_PER_NODE";
    let dealt = ["1 2 2", "1 2 2", "2 2 2", "2 2 2"];
    assert_eq!(lines(&scratch, "-N 2 --ntasks-per-node 2", script), dealt);
    assert_eq!(lines(&scratch, "-n 4 --ntasks-per-node 2", script), dealt);
    let refused = run(&scratch, "-n 5 -N 2 --ntasks-per-node 2", "true");
    assert!(stderr(&refused).contains("more than 2 on each"), "{}", told(&refused));
}

#[test]
fn an_exclusive_job_waits_for_whole_nodes_and_shares_none() {
    let scratch = cluster("fcfs");
    let first = occupy(&scratch, "-n 1");
    let alone = submit(&scratch, "-n 2 -N 2 --exclusive", "sleep 1000");
    let waits = scratch.json(&format!("show {alone}"));
    assert_eq!(waits["resources"]["exclusive"], true);
    assert_eq!(
        reason(&waits),
        "waits for 1 more node with 1 free PE and no other job: there are 1, 2 are needed"
    );
    scratch.prints(&format!("cancel {first}"));
    scratch.wait_for(&format!("show {alone}"), |shown| (shown["state"] == "RUNNING").then_some(()));
    let nodes = scratch.json("nodes");
    assert!(nodes.as_array().expect("a list").iter().all(|node| node["pes_used"] == 4));
    let behind = submit(&scratch, "-n 1", "true");
    let waits = scratch.json(&format!("show {behind}"));
    assert!(reason(&waits).starts_with("waits for 1 more free PE"), "{waits}");
    scratch.prints(&format!("cancel {alone}"));
}

#[test]
fn memory_is_counted_and_more_than_any_node_has_is_refused() {
    let scratch = cluster("fcfs");
    let refused = run(&scratch, "-n 1 --mem 900T", "true");
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(stderr(&refused).contains("--mem 900 TiB: the largest node has"), "{}", told(&refused));
    let both = run(&scratch, "--mem 1G --mem-per-cpu 1G", "true");
    assert_eq!(both.status.code(), Some(2), "{}", told(&both));
    let said = lines(&scratch, "-n 1 --mem 64", "echo $STORM_MEM_PER_NODE");
    assert_eq!(said, ["64"], "a number without a unit is MiB");
    // Both nodes are taken with all their memory, so the next job waits for memory.
    let first = occupy(&scratch, "-n 2 -N 2 --mem 0");
    let next = submit(&scratch, "-n 1 --mem 1M", "sleep 1000");
    let waits = scratch.json(&format!("show {next}"));
    assert!(reason(&waits).contains("1 MiB of free memory"), "{waits}");
    scratch.prints(&format!("cancel {first}"));
    scratch.wait_for(&format!("show {next}"), |shown| (shown["state"] == "RUNNING").then_some(()));
    scratch.prints(&format!("cancel {next}"));
}

#[test]
fn a_job_that_takes_more_memory_than_it_asked_for_is_ended_with_that_reason() {
    let scratch = cluster("gang");
    let nodes = scratch.json("nodes").to_string();
    // `tail` keeps its whole input, as it has no line feed.
    let script = "head -c 300000000 /dev/zero | tail | wc -c";
    if !nodes.contains("held to the memory") {
        eprintln!("SKIPPED: no memory controller can be used here: {nodes}");
        assert_eq!(lines(&scratch, "-n 1 --mem 64M", script), ["300000000"]);
        return;
    }
    let killed = run(&scratch, "-n 1 --mem 64M", script);
    assert_eq!(killed.status.code(), Some(137), "{}", told(&killed));
    assert!(stderr(&killed).contains("it may have 64 MiB there"), "{}", told(&killed));
    // The next job in the same place has no limit.
    assert_eq!(lines(&scratch, "-n 1", script), ["300000000"]);
    assert_eq!(lines(&scratch, "-n 1 --mem 2G", script), ["300000000"]);
}

/// A plain node n1 and a node g1 with feature gpu and 1 GiB.
fn cluster_with_gpu() -> RealCluster {
    let gpu =
        "[[nodes]]\nnames = \"g1\"\npes = 2\nmemory = \"1GiB\"\nfeatures = [\"gpu\", \"big\"]";
    let mut cluster = RealCluster::without_nodes(1, gpu);
    cluster.start_node(1);
    let (address, dir) = (cluster.manager_address(), cluster.node_dir(2).display().to_string());
    let words = format!("nm --mm {address} --name g1 --pes 2 --config storm.toml --work-dir {dir}");
    cluster.start_node_as(2, &words);
    cluster.caller().until_idle(2);
    cluster
}

/// The output of a command to the cluster, which must succeed.
fn prints(cluster: &RealCluster, words: &str) -> String {
    let done = cluster.caller().storm(words).output().expect("storm starts");
    assert!(done.status.success(), "storm {words}: {}", told(&done));
    stdout(&done)
}

/// The entry of a node in a listing.
fn node(nodes: &Value, name: &str) -> Option<Value> {
    nodes.as_array()?.iter().find(|node| node["name"] == name).cloned()
}

#[test]
fn features_select_nodes_and_drained_nodes_stay_so_over_a_restart() {
    let mut cluster = cluster_with_gpu();
    let where_it_ran = prints(&cluster, "run -n 2 -C gpu&big|ib printenv STORM_NODELIST");
    assert_eq!(where_it_ran, "g1\ng1\n");
    let listed = cluster.caller().wait_for("nodes", |nodes| node(nodes, "g1"));
    assert_eq!(listed["features"], serde_json::json!(["gpu", "big"]));
    assert_eq!(listed["memory_bytes"], 1u64 << 30);
    let refused = cluster.caller().storm("submit -n 1 -C ib true").output().expect("storm starts");
    let said = stderr(&refused);
    assert!(said.contains("has feature ib; there are big and gpu"), "{said}");
    prints(&cluster, "drain g1 --reason disk");
    let drained = |nodes: &Value| node(nodes, "g1").filter(|node| node["state"] == "DRAINED");
    assert_eq!(cluster.caller().wait_for("nodes", drained)["reason"], "disk");
    let job = cluster.caller().submit("-n 1 -C gpu", &["true"]).expect("submitted");
    cluster.caller().until_because(job, "g1 is drained");
    cluster.end_manager(Signal::SIGTERM);
    cluster.start_manager();
    cluster.caller().wait_for("nodes", drained);
    prints(&cluster, "resume g1");
    cluster.caller().until(job, "COMPLETED");
    cluster.end();
}
