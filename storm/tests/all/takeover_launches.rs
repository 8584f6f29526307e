//! Node Managers that end while jobs are sent their files or are launched: real daemons and
//! processes (`docs/decisions/0141-cut-launches-are-done-again.md`).

use crate::faults::phase::Phase;
use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;

/// More ranks than a stopped keeper has room for messages.
const MANY: u32 = 400;

fn log_of(job: &Value) -> Vec<String> {
    let entries = job["log"].as_array().expect("a log").iter();
    entries.map(|entry| entry["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The job's user did not ask for a requeue. The job waits although one node does not return for a
/// while.
#[test]
fn a_job_that_is_being_sent_its_files_is_launched_again() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let settings = "partitions = [{ name = \"main\", sched = \"fcfs\" }]\n\
                        timeouts = { node-hung = \"1h\" }";
        let mut cluster = RealCluster::start(2, settings);
        let stop = || cluster.signal_node(2, Signal::SIGSTOP);
        let job = Phase::Transfer.enter(&cluster.caller(), stop);
        match signal {
            Signal::SIGKILL => cluster.kill_node(1),
            signal => cluster.end_node(1, signal),
        }
        cluster.caller().until_down("n1");
        cluster.signal_node(2, Signal::SIGCONT);
        assert_eq!(cluster.caller().until(job, "PENDING")["node_list"], "", "it is placed nowhere");
        cluster.start_node(1);
        let ended = cluster.caller().until(job, "COMPLETED");
        assert_eq!(ended["runs"], 2, "{ended}");
        let told = "the Node Manager of n1 ended while the job's files were sent to it";
        assert!(log_of(&ended).iter().any(|text| text == told), "{ended}");
        cluster.caller().until_idle(2);
        cluster.end();
    }
}

/// The keeper is stopped while the ranks start, and the Node Manager is killed before the keeper
/// knows all of them.
#[test]
fn a_launch_that_the_keeper_has_not_heard_of_is_done_again() {
    let mut cluster = RealCluster::without_manager(1, "");
    cluster.configure("", &format!("[[nodes]]\nnames = \"n1\"\npes = {MANY}\n"));
    cluster.start_manager();
    cluster.start_node_called(1, "n1", MANY);
    cluster.caller().until_idle(1);
    // The keeper has made the processes that become the ranks.
    cluster.caller().wait_for("queue", |_| {
        let lines = cluster.scratch.processes();
        let launchers = lines.iter().filter(|line| line.contains("storm: launcher n1"));
        (launchers.count() >= MANY as usize).then_some(())
    });
    let keepers = cluster.scratch.pids_of("storm: keeper n1");
    let keeper = Pid::from_raw(keepers.first().expect("a keeper").0);
    kill(keeper, Signal::SIGSTOP).expect("it lives");
    let script = "echo >> began-$STORM_RANK; while [ ! -e go ]; do sleep 3; done";
    let options = format!("-n {MANY} --no-bcast -o /dev/null");
    let job = cluster.caller().submit(&options, &["/bin/sh", "-c", script]).expect("a manager");
    let began = |rank: u32| cluster.scratch.work().join(format!("began-{rank}")).exists();
    cluster.caller().wait_for("queue", |_| (0..MANY).all(began).then_some(()));
    let shown = cluster.caller().wait_for(&format!("show {job}"), |job| Some(job.clone()));
    assert_eq!(shown["state"], "PENDING", "all ranks execute, and the keeper lacks some: {shown}");
    cluster.kill_node(1);
    cluster.caller().until_down("n1");
    kill(keeper, Signal::SIGCONT).expect("it lives");
    cluster.start_node_called(1, "n1", MANY);
    // The first run is shown as running while its ranks are being ended.
    let again = cluster.caller().wait_for(&format!("show {job}"), |job| {
        (job["state"] == "RUNNING" && job["runs"] == 2).then(|| job.clone())
    });
    let told = "the Node Manager of n1 ended while it launched the ranks";
    assert!(log_of(&again).iter().any(|text| text == told), "{again}");
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(job, "COMPLETED");
    cluster.caller().until_idle(1);
    cluster.end();
}
