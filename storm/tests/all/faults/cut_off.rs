//! A node that is cut off from the network in each phase of a job. Its host continues without
//! receiving anything; hosts are network namespaces.

use super::phase::{Phase, assert_well};
use crate::scratch::Scratch;
use crate::scratch::hosts::Hosts;
use nix::sys::signal::Signal;
use std::fs;

#[test]
fn a_node_that_is_cut_off_ends_its_job_in_every_phase() {
    // The silence of the host is noticed. If the node was stopped before and its host has
    // acknowledged everything, the silence of the node is noticed.
    let settings = Phase::settings("10s");
    Phase::in_each(|phase| {
        let scratch = Scratch::make();
        let Some(hosts) = Hosts::cluster_with(&scratch, 2, 2, &settings) else { return };
        let caller = hosts.caller(&scratch);
        let job = phase.enter(&caller, || hosts.signal(2, Signal::SIGSTOP));
        hosts.cut_off(2);
        phase.assert_end(&caller, job);
        caller.until_down("n2");
        hosts.reconnect(2);
        hosts.signal(2, Signal::SIGCONT);
        assert_well(&caller);
        drop(hosts);
        scratch.assert_nothing_runs();
    });
}

/// Holds a lock while it runs, and reports if another process holds it.
const ALONE: &str = "exec 9>lock
                     flock -n 9 || touch twice
                     touch runs-$STORM_NODE_ID
                     while [ ! -e go ]; do sleep 0.05; done # stubborn";

#[test]
fn a_job_that_asked_to_be_queued_again_never_runs_twice_at_a_time() {
    let scratch = Scratch::make();
    let settings = "timeouts = { requeue-fence = \"1s\" }";
    let Some(hosts) = Hosts::cluster_with(&scratch, 2, 2, settings) else { return };
    let caller = hosts.caller(&scratch);
    let options = "-n 1 --no-bcast --requeue";
    let job = caller.submit(options, &["/bin/sh", "-c", ALONE]).expect("a manager");
    let places = caller.until(job, "RUNNING");
    let (first, second) = if places["node_list"] == "n1" { (1, 2) } else { (2, 1) };
    hosts.cut_off(first);
    let waits = caller.until_because(job, "may still run it");
    assert_eq!(waits["state"], "PENDING", "{waits}");
    let runs = caller.until(job, "RUNNING");
    assert_eq!((&runs["runs"], &runs["node_list"]), (&2.into(), &format!("n{second}").into()));
    caller.wait_for("queue", |_| {
        scratch.work().join(format!("runs-{second}")).exists().then_some(())
    });
    assert!(!scratch.work().join("twice").exists(), "two runs at a time");
    hosts.reconnect(first);
    caller.wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    fs::write(scratch.work().join("go"), "").expect("written");
    caller.until(job, "COMPLETED");
    drop(hosts);
    scratch.assert_nothing_runs();
}
