//! A Node Manager that is killed, or frozen, in each phase of a job.

use super::phase::{Phase, assert_well};
use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::Signal;
use std::fs;

#[test]
fn a_node_manager_that_is_killed_ends_its_job_in_every_phase() {
    // The death must be noticed, not the earlier stop.
    let settings = Phase::settings("1h");
    Phase::in_each(|phase| {
        let mut cluster = RealCluster::start(2, &settings);
        let job = phase.enter(&cluster.caller(), || cluster.signal_node(2, Signal::SIGSTOP));
        cluster.kill_node(2);
        phase.assert_end(&cluster.caller(), job);
        cluster.start_node(2);
        assert_well(&cluster.caller());
        cluster.end();
    });
}

#[test]
fn a_node_manager_that_is_frozen_ends_its_job_in_every_phase() {
    let settings = Phase::settings("10s");
    Phase::in_each(|phase| {
        let cluster = RealCluster::start(2, &settings);
        let freeze = || cluster.signal_node(2, Signal::SIGSTOP);
        let job = phase.enter(&cluster.caller(), freeze);
        freeze();
        phase.assert_end(&cluster.caller(), job);
        cluster.caller().until_down("n2");
        cluster.signal_node(2, Signal::SIGCONT);
        assert_well(&cluster.caller());
        cluster.end();
    });
}

/// Waits until the file `go` is there, and ends with status 3.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done; exit 3";

#[test]
fn a_job_that_asks_for_it_is_queued_again_when_its_node_manager_is_killed() {
    let mut cluster = RealCluster::start(2, "timeouts = { node-return = \"0s\" }");
    let again = cluster.caller().submit_script("--requeue", UNTIL_GO).expect("a manager");
    cluster.caller().until(again, "RUNNING");
    cluster.kill_node(2);
    cluster.caller().until(again, "PENDING");
    cluster.start_node(2);
    assert_eq!(cluster.caller().until(again, "RUNNING")["runs"], 2);
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(again, "FAILED");
    cluster.end();
}

#[test]
fn a_job_that_asks_for_it_runs_elsewhere_although_its_node_manager_does_not_come_back() {
    // A node that might still run would be waited for this long.
    let mut cluster =
        RealCluster::start(2, "timeouts = { requeue-fence = \"1h\", node-return = \"0s\" }");
    let options = "-n 1 --no-bcast --requeue";
    let again = cluster.caller().submit(options, &["/bin/sh", "-c", UNTIL_GO]);
    let again = again.expect("a manager");
    let first = cluster.caller().until(again, "RUNNING")["node_list"].clone();
    let (dies, other) = if first == "n1" { (1, "n2") } else { (2, "n1") };
    cluster.kill_node(dies);
    let second = cluster.caller().wait_for(&format!("show {again}"), |job| {
        (job["state"] == "RUNNING" && job["runs"] == 2).then(|| job.clone())
    });
    assert_eq!(second["node_list"], other, "{second}");
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(again, "FAILED");
    cluster.start_node(dies);
    cluster.caller().until_idle(2);
    cluster.end();
}
