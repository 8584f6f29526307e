//! A stopped Node Manager with a job that asked to be queued again: the keeper ends the ranks
//! before they run elsewhere.

use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::Signal;
use std::fs;

/// Holds a lock while it runs, reports if another process holds it, and reports that it runs.
const ALONE: &str = "exec 9>lock
                     flock -n 9 || touch twice
                     while [ ! -e go ]; do
                         date +%s.%N >> beats-$STORM_NODE_ID
                         sleep 0.05
                     done";

#[test]
fn a_job_of_a_node_manager_that_is_stopped_never_runs_twice_at_a_time() {
    let cluster = RealCluster::start(2, "timeouts = { requeue-fence = \"1s\" }");
    let caller = cluster.caller();
    let work = cluster.scratch.work();
    let beats = |node: u32| fs::read_to_string(work.join(format!("beats-{node}")));
    // The file exists a moment before its first line.
    let beats_once = |node| beats(node).is_ok_and(|beats| beats.contains('\n')).then_some(());
    let options = "-n 1 --no-bcast --requeue";
    let job = caller.submit(options, &["/bin/sh", "-c", ALONE]).expect("a manager");
    let places = caller.until(job, "RUNNING");
    let (first, second) = if places["node_list"] == "n1" { (1, 2) } else { (2, 1) };
    caller.wait_for("queue", |_| beats_once(first));
    cluster.signal_node(first, Signal::SIGSTOP);
    let waits = caller.until_because(job, "may still run it");
    assert_eq!(waits["state"], "PENDING", "{waits}");
    let runs = caller.until(job, "RUNNING");
    assert_eq!((&runs["runs"], &runs["node_list"]), (&2.into(), &format!("n{second}").into()));
    caller.wait_for("queue", |_| beats_once(second));
    assert!(!work.join("twice").exists(), "two runs at a time");
    // All have the same number of digits, so the order of texts is that of numbers.
    let (ended, began) = (beats(first).expect("beats"), beats(second).expect("beats"));
    assert!(ended.lines().last() < began.lines().next(), "{ended} {began}");
    cluster.signal_node(first, Signal::SIGCONT);
    caller.wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    fs::write(work.join("go"), "").expect("written");
    caller.until(job, "COMPLETED");
    caller.until_idle(2);
    assert_eq!(beats(first).expect("beats"), ended, "it ran on");
    cluster.end();
}
