//! Node Managers that end while jobs are sent their files or are launched: real daemons and
//! processes (`docs/decisions/0141-cut-launches-are-done-again.md`).

use crate::faults::phase::Phase;
use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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

/// Regression: the job ended NODE_FAIL, because the next manager took the node for lost.
#[test]
fn a_launch_whose_node_manager_is_killed_and_its_manager_is_done_again() {
    for manager_first in [false, true] {
        let settings = "partitions = [{ name = \"main\", sched = \"fcfs\" }]\n\
                        timeouts = { node-hung = \"1h\" }";
        let mut cluster = RealCluster::start(2, settings);
        let stop = || cluster.signal_node(2, Signal::SIGSTOP);
        let job = Phase::Transfer.enter(&cluster.caller(), stop);
        cluster.end_manager(Signal::SIGKILL);
        cluster.kill_node(1);
        cluster.signal_node(2, Signal::SIGCONT);
        if manager_first {
            cluster.start_manager();
            cluster.caller().until_because(job, "waits for n1 to come back");
            cluster.start_node(1);
        } else {
            cluster.start_node(1);
            cluster.start_manager();
        }
        let ended = cluster.caller().until(job, "COMPLETED");
        assert_eq!(ended["runs"], 2, "{ended}");
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
    let again = cluster.caller().until(job, "RUNNING");
    assert_eq!(again["runs"], 2, "the first run never counted as begun: {again}");
    let told = "the Node Manager of n1 ended while it launched the ranks";
    assert!(log_of(&again).iter().any(|text| text == told), "{again}");
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(job, "COMPLETED");
    cluster.caller().until_idle(1);
    cluster.end();
}

/// Sets the limit of a process on open descriptors. Returns false if this host has no `prlimit`.
fn limit_descriptors(process: i32, soft: &str) -> bool {
    let words = [format!("--pid={process}"), format!("--nofile={soft}:")];
    match Command::new("prlimit").args(words).status() {
        Ok(status) => {
            assert!(status.success(), "prlimit: {status}");
            true
        }
        Err(_) => false,
    }
}

/// The lowest limit at which a process can open so many more descriptors.
fn limit_with_room(process: i32, more: usize) -> String {
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("it lives").flatten();
    let numbers = open.filter_map(|fd| fd.file_name().to_str()?.parse().ok());
    let numbers: BTreeSet<usize> = numbers.collect();
    (0..).filter(|number| !numbers.contains(number)).nth(more).expect("a number").to_string()
}

/// Regression: the keeper forgot the job, of which its user then heard that the node had died.
#[test]
fn a_job_that_its_keeper_has_no_descriptors_for_ends_with_that_reason_and_all_its_output() {
    for requeue in [false, true] {
        let mut cluster = RealCluster::start(1, "");
        // Both places are made: the keeper opens nothing more by itself.
        cluster.caller().wait_for("queue", |_| {
            let lines = cluster.scratch.processes();
            let launchers = lines.iter().filter(|line| line.contains("storm: launcher n1"));
            (launchers.count() == 4).then_some(())
        });
        let keeper = cluster.scratch.pids_of("storm: keeper n1").first().expect("a keeper").0;
        // The ledger, the output file, a spare one and a rank, but not the other rank.
        if !limit_descriptors(keeper, &limit_with_room(keeper, 8)) {
            eprintln!("no prlimit: NOT tested");
            return cluster.end();
        }
        let words = if requeue { "--requeue" } else { "" };
        let mut command =
            cluster.caller().storm(&format!("run -n 2 --no-bcast {words} /bin/sh -c"));
        command.arg("echo begun; while [ ! -e go ]; do sleep 0.02; done");
        let followed = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut followed = followed.spawn().expect("storm starts");
        let mut lines = BufReader::new(followed.stdout.take().expect("piped")).lines();
        let mut begun = |count: usize| {
            let lines: Vec<String> =
                lines.by_ref().take(count).map(|line| line.expect("text")).collect();
            assert_eq!(lines, vec!["begun"; count]);
        };
        begun(2);
        cluster.caller().until(1, "RUNNING");
        let told = || cluster.log("n1").contains("this job will not outlive this node manager");
        cluster.caller().wait_for("queue", |_| told().then_some(()));
        cluster.kill_node(1);
        cluster.caller().until_down("n1");
        assert!(limit_descriptors(keeper, "1024"));
        cluster.start_node(1);
        let why = "its keeper could not be told of all ranks";
        if requeue {
            begun(2);
            fs::write(cluster.scratch.work().join("go"), "").expect("written");
            let ended = cluster.caller().until(1, "COMPLETED");
            assert_eq!(ended["runs"], 2, "{ended}");
            assert!(log_of(&ended).iter().any(|text| text.contains(why)), "{ended}");
        } else {
            let ended = cluster.caller().until(1, "NODE_FAIL");
            let reason = ended["reason"].as_str().unwrap_or_default();
            assert!(reason.contains(why), "{ended}");
        }
        begun(0);
        assert_eq!(followed.wait().expect("our child").success(), requeue);
        cluster.caller().until_idle(1);
        cluster.end();
    }
}
