//! The length of a partition's slices changes while jobs share its time, with real daemons and
//! processes.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// Waits until the file `go` is there.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done";

fn partition(cluster: &RealCluster) -> Value {
    let done = cluster.caller().storm("partition list --json").output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let all: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    all[0].clone()
}

fn set(cluster: &RealCluster, words: &str) -> Result<String, String> {
    let words = format!("partition {words}");
    let done = cluster.caller().storm(&words).output().expect("storm starts");
    if done.status.success() { Ok(stdout(&done)) } else { Err(stderr(&done)) }
}

#[test]
fn jobs_that_share_time_go_on_with_slices_of_another_length() {
    let mut cluster = RealCluster::start(1, "");
    // Each takes both elements of the node, so that they alternate.
    let options = "-n 2 --no-bcast";
    let jobs: Vec<u64> = (0..3)
        .map(|_| cluster.caller().submit(options, &["/bin/sh", "-c", UNTIL_GO]))
        .map(|job| job.expect("it is taken"))
        .collect();
    for job in &jobs {
        cluster.caller().until(*job, "RUNNING");
    }
    assert_eq!(partition(&cluster)["rows_used"], 3);
    for (length, quantum_us) in [("2ms", 2_000), ("300ms", 300_000), ("5ms", 5_000)] {
        let shown = set(&cluster, &format!("set-quantum main {length}")).expect("it is changed");
        let ms = length.trim_end_matches("ms");
        assert!(shown.contains(&format!("{ms} ms")), "{shown}");
        let now = partition(&cluster);
        assert_eq!(now["quantum_us"], quantum_us, "{now}");
        assert_eq!(now["rows_used"], 3, "{now}");
    }
    let short = set(&cluster, "set-quantum main 1us").expect_err("it is too short");
    assert!(short.contains("out of range"), "{short}");
    assert_eq!(partition(&cluster)["quantum_us"], 5_000);
    // The change outlasts the manager, and so do the jobs.
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    assert_eq!(partition(&cluster)["quantum_us"], 5_000);
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    for job in &jobs {
        let ended = cluster.caller().until(*job, "COMPLETED");
        assert_eq!(ended["runs"], 1, "{ended}");
    }
    set(&cluster, "set-sched main fcfs").expect("it is changed");
    let without = set(&cluster, "set-quantum main 2ms").expect_err("it has no slices");
    assert!(without.contains("cuts no time slices"), "{without}");
    cluster.end();
}

#[test]
fn jobs_on_the_same_elements_run_at_once_under_local() {
    let mut cluster = RealCluster::start(1, "");
    // Each rank continues only when those of the other jobs do.
    let together = format!(
        "{UNTIL_GO}; touch here.$STORM_JOB_ID.$STORM_RANK; \
         until [ $(ls here.* | wc -l) -ge 6 ]; do sleep 0.02; done"
    );
    let jobs: Vec<u64> = (0..3)
        .map(|_| cluster.caller().submit("-n 2 --no-bcast", &["/bin/sh", "-c", &together]))
        .map(|job| job.expect("it is taken"))
        .collect();
    for job in &jobs {
        cluster.caller().until(*job, "RUNNING");
    }
    // If the jobs alternated, the test would take minutes.
    set(&cluster, "set-quantum main 60s").expect("it is changed");
    set(&cluster, "set-sched main local").expect("it is changed");
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    let now = partition(&cluster);
    assert_eq!((&now["sched"], &now["rows_used"]), (&"local".into(), &3.into()), "{now}");
    for (sched, what) in [("ics", "how they wait"), ("pb", "never put first"), ("local", "nothing")]
    {
        set(&cluster, &format!("set-sched main {sched}")).expect("it is changed");
        // The change happens when the node is back at the restarted manager.
        let changed = |all: &Value| (all[0]["sched"] == sched).then_some(());
        cluster.caller().wait_for("partition list", changed);
        let explained = cluster.caller().storm(&format!("explain {}", jobs[0])).output();
        let explained = stdout(&explained.expect("storm starts"));
        assert!(explained.contains(&format!("under {sched} ")), "{explained}");
        assert!(explained.contains(what), "{explained}");
    }
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    for job in &jobs {
        let ended = cluster.caller().until(*job, "COMPLETED");
        assert_eq!(ended["runs"], 1, "{ended}");
    }
    // A job that starts there runs at once, too.
    let waits = cluster.caller().submit("-n 2 --no-bcast", &["/bin/sh", "-c", "exec sleep 600"]);
    let waits = waits.expect("it is taken");
    cluster.caller().until(waits, "RUNNING");
    let beside = cluster.caller().submit("-n 2 --no-bcast", &["/bin/true"]).expect("it is taken");
    cluster.caller().until(beside, "COMPLETED");
    cluster.caller().cancel(waits);
    cluster.end();
}

#[test]
fn drained_nodes_are_counted_and_a_job_that_is_not_there_is_an_error() {
    let cluster = RealCluster::start(2, "");
    let storm = |words: &str| cluster.caller().storm(words).output().expect("storm starts");
    assert_eq!(partition(&cluster)["nodes_drained"], 0);
    let drained = storm("drain n2 --reason disk");
    assert!(drained.status.success(), "{}", told(&drained));
    assert_eq!(partition(&cluster)["nodes_drained"], 1);
    let listed = stdout(&storm("partition list"));
    assert!(listed.starts_with("PARTITION") && listed.contains("DRAINED"), "{listed}");
    let unknown = storm("queue 999");
    assert_eq!(unknown.status.code(), Some(1), "{}", told(&unknown));
    assert!(stderr(&unknown).contains("there is no job 999"), "{}", told(&unknown));
    let job = cluster.caller().submit("--no-bcast", &["/bin/true"]).expect("it is taken");
    cluster.caller().until(job, "COMPLETED");
    let known = storm(&format!("queue {job}"));
    assert!(known.status.success(), "{}", told(&known));
    cluster.end();
}
