//! Nodes that are away for a restart keep their places in the plans of the policies: real daemons
//! and processes (`docs/decisions/0154-a-node-that-is-away-keeps-its-place.md`).

use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// A job on one node runs until the file `go` exists, one on both nodes waits for it, and one
/// without a limit waits behind that one. Returns the node of the first job.
fn with_head(cluster: &RealCluster) -> u32 {
    let caller = cluster.caller();
    let until_go = ["/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"];
    let first = caller.submit("-n 2 -t 10m --no-bcast", &until_go).expect("a manager");
    let nodes = caller.until(first, "RUNNING")["node_list"].clone();
    for options in ["-n 4 -t 1h --no-bcast", "-n 2 --no-bcast"] {
        caller.submit(options, &["/bin/true"]).expect("a manager");
    }
    assert_eq!(caller.until(3, "PENDING")["runs"], 0);
    nodes.as_str().and_then(|name| name[1..].parse().ok()).expect("n1 or n2")
}

fn state(cluster: &RealCluster, job: u64) -> Value {
    cluster.caller().wait_for(&format!("show {job}"), |view| Some(view["state"].clone()))
}

/// Regression: the third job passed the second one.
#[test]
fn no_job_passes_the_first_one_over_restarts() {
    for sched in ["backfill", "easy-sjbf", "conservative"] {
        let settings = format!("partitions = [{{ name = \"main\", sched = \"{sched}\" }}]");
        let mut cluster = RealCluster::start(2, &settings);
        let node = with_head(&cluster);
        cluster.end_node(node, Signal::SIGTERM);
        cluster.caller().until_because(2, &format!("n{node} is away"));
        assert_eq!(state(&cluster, 3), "PENDING", "{sched}");
        cluster.end_manager(Signal::SIGTERM);
        cluster.start_manager();
        cluster.caller().until_because(2, &format!("n{node} is away"));
        assert_eq!(state(&cluster, 3), "PENDING", "{sched}");
        cluster.start_node(node);
        cluster.caller().until_none_down();
        fs::write(cluster.scratch.work().join("go"), "").expect("written");
        let second = cluster.caller().until(2, "COMPLETED");
        let third = cluster.caller().until(3, "COMPLETED");
        let started = |job: &Value| job["started"].as_str().map(str::to_owned).expect("it ran");
        assert!(started(&second) < started(&third), "{second} {third}");
        cluster.end();
    }
}
