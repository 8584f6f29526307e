//! A manager restarts under running jobs with an edited configuration: nodes and partitions are
//! added, removed, reordered, renamed and resized.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use std::fs;

/// Waits until the file `go` is there, and ends with status 3.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done; exit 3";

/// A cluster of two nodes, and a job on both.
fn running(settings: &str, options: &str) -> (RealCluster, u64) {
    let cluster = RealCluster::start(2, settings);
    let job = cluster.caller().submit_script(options, UNTIL_GO).expect("a manager");
    cluster.caller().until(job, "RUNNING");
    (cluster, job)
}

fn nodes(names: &str, pes: u32) -> String {
    format!("[[nodes]]\nnames = \"{names}\"\npes = {pes}\n")
}

fn partition(name: &str, nodes: &str, sched: &str) -> String {
    format!("[[partitions]]\nname = \"{name}\"\nnodes = \"{nodes}\"\nsched = \"{sched}\"\n")
}

/// Checks that the job still runs on the same nodes.
fn assert_runs(cluster: &RealCluster, job: u64) {
    let view = cluster.caller().until(job, "RUNNING");
    assert_eq!((&view["runs"], &view["node_list"]), (&1.into(), &"n[1-2]".into()), "{view}");
}

/// Lets the job end by itself, with its own status.
fn let_go(cluster: &RealCluster, job: u64) {
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    let ended = cluster.caller().until(job, "FAILED");
    assert_eq!((&ended["exit_code"], &ended["runs"]), (&3.into(), &1.into()), "{ended}");
}

fn is_up(cluster: &RealCluster, nodes: usize) {
    cluster.caller().wait_for("nodes", |listed| {
        let is_up =
            |node: &&serde_json::Value| node["state"] != "UNKNOWN" && node["state"] != "DOWN";
        (listed.as_array()?.iter().filter(is_up).count() == nodes).then_some(())
    });
}

/// Regression: all jobs died, as a node was identified by its position.
#[test]
fn a_node_inserted_ahead_of_others_and_a_new_order_touch_no_job() {
    let (mut cluster, job) = running("", "");
    let inserted = nodes("a1", 2) + &nodes("n[1-2]", 2) + &partition("main", "a1,n[1-2]", "gang");
    cluster.restart_with("", &inserted);
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    let used: Vec<String> = cluster.caller().wait_for("nodes", |listed| {
        let of = |node: &serde_json::Value| format!("{} {}", node["name"], node["pes_used"]);
        Some(listed.as_array()?.iter().map(of).collect())
    });
    assert_eq!(used, ["\"a1\" 0", "\"n1\" 1", "\"n2\" 1"]);
    cluster.start_node_called(3, "a1", 2);
    is_up(&cluster, 3);
    let order = nodes("n2", 2) + &nodes("a1", 2) + &nodes("n1", 2);
    cluster.restart_with("", &order);
    is_up(&cluster, 3);
    assert_runs(&cluster, job);
    let done = cluster.caller().storm("run -n 3 -N 3 --no-bcast /bin/echo well").output();
    let done = done.expect("storm starts");
    assert_eq!(stdout(&done), "well\nwell\nwell\n", "{}", told(&done));
    let_go(&cluster, job);
    cluster.end();
}

/// Regression: the Node Manager ended its jobs and itself.
#[test]
fn a_node_that_is_removed_and_put_back_has_kept_its_job() {
    let patient = "timeouts = { recovery = \"60s\" }\n";
    let (mut cluster, job) = running(patient, "");
    cluster.restart_with(patient, &nodes("n1", 2));
    is_up(&cluster, 1);
    assert_runs(&cluster, job);
    cluster.caller().wait_for("queue", |_| {
        let hint = "add it to [[nodes]] of the manager's configuration";
        cluster.log("n2").contains(hint).then_some(())
    });
    let explained = cluster.caller().storm(&format!("explain {job}")).output();
    let explained = stdout(&explained.expect("storm starts"));
    assert!(explained.contains("n2 is not in the configuration any more"), "{explained}");
    cluster.restart_with(patient, &nodes("n[1-2]", 2));
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    let_go(&cluster, job);
    assert_eq!(cluster.log("n2").matches("add it to [[nodes]]").count(), 1, "once per change");
    cluster.end();
}

#[test]
fn a_job_on_a_node_that_is_removed_ends_with_that_reason_or_waits_again() {
    let hasty = "timeouts = { recovery = \"500ms\", requeue-fence = \"1s\" }\n";
    let (mut cluster, job) = running(hasty, "");
    let again = cluster.caller().submit_script("--requeue", UNTIL_GO).expect("a manager");
    cluster.caller().until(again, "RUNNING");
    cluster.restart_with(hasty, &nodes("n1", 2));
    let ended = cluster.caller().until(job, "NODE_FAIL");
    let why = "node n2 is not in the configuration any more";
    assert_eq!(ended["reason"], why, "{ended}");
    let waits = cluster.caller().until(again, "PENDING");
    assert!(waits["log"].to_string().contains(why), "{waits}");
    cluster.end();
}

#[test]
fn a_partition_that_is_renamed_or_divided_keeps_its_jobs() {
    let (mut cluster, job) = running("", "");
    let renamed = nodes("n[1-2]", 2) + &partition("other", "n[1-2]", "fcfs");
    cluster.restart_with("", &renamed);
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    let divided =
        nodes("n[1-2]", 2) + &partition("two", "n2", "gang") + &partition("one", "n1", "fcfs");
    cluster.restart_with("", &divided);
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    let listed = cluster.caller().wait_for("nodes", |listed| Some(listed.to_string()));
    assert!(listed.contains(&format!("job {job} goes on there")), "{listed}");
    let_go(&cluster, job);
    cluster.caller().until_idle(2);
    cluster.end();
}

#[test]
fn nodes_of_more_or_fewer_elements_keep_their_jobs() {
    let (mut cluster, job) = running("", "--cpus-per-task 2");
    cluster.restart_with("", &nodes("n[1-2]", 1));
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    cluster.restart_with("", &nodes("n[1-2]", 64));
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    let listed = cluster.caller().wait_for("nodes", |listed| Some(listed.to_string()));
    assert!(listed.contains("it offers 2 PEs, 64 are configured"), "{listed}");
    assert!(cluster.log("n1").contains("it keeps its jobs and gets no others"));
    cluster.restart_with("", &nodes("n[1-2]", 2));
    is_up(&cluster, 2);
    assert_runs(&cluster, job);
    let_go(&cluster, job);
    cluster.caller().until_idle(2);
    cluster.end();
}

/// Regression: failures on `n0` and `n01` were both reported as `n1`'s.
#[test]
fn a_nodes_reports_use_its_configured_name() {
    for (names, name) in [("n[0-1]", "n0"), ("n[01-04]", "n01")] {
        let mut cluster = RealCluster::without_manager(1, "");
        cluster.configure("", &nodes(names, 2));
        cluster.start_manager();
        cluster.start_node_called(1, name, 2);
        is_up(&cluster, 1);
        let failed = cluster.caller().storm("run -n 1 --no-bcast /dev/null").output();
        let said = stderr(&failed.expect("storm starts"));
        assert!(said.contains(&format!("rank 0 cannot start on {name} (")), "{said}");
        let mut killed = cluster.caller().storm("run -n 2 --no-bcast /bin/sh -c");
        let killed = killed.arg("[ $STORM_RANK = 0 ] && kill -9 $$; sleep 600").output();
        let said = stderr(&killed.expect("storm starts"));
        assert!(said.contains(&format!("rank 0 on {name} was ended by signal 9")), "{said}");
        let log = cluster.log("n1") + &cluster.log("mm");
        assert!(log.contains(&format!("node={name}")), "{log}");
        assert!(!log.contains("n1 ") && !log.contains("n2 "), "{log}");
        cluster.end();
    }
}

/// Regression: a node of 390 could not join, as the ends of so many ranks did not fit a report.
#[test]
fn a_node_of_1024_elements_joins_and_runs_as_many_ranks() {
    let mut cluster = RealCluster::without_manager(1, "");
    for pes in [400, 1024] {
        cluster.configure("", &nodes("n1", pes));
        cluster.start_manager();
        cluster.start_node_called(1, "n1", pes);
        cluster.caller().until_idle(1);
        let done = cluster.caller().storm(&format!("run -n {pes} --no-bcast /bin/echo x")).output();
        let done = done.expect("storm starts");
        assert_eq!(stdout(&done), "x\n".repeat(pes as usize), "{}", stderr(&done));
        // SIGTERM would keep a job for the next Node Manager until the manager knows its end.
        cluster.end_node(1, nix::sys::signal::Signal::SIGINT);
        cluster.end_manager(nix::sys::signal::Signal::SIGTERM);
    }
    cluster.configure("", &nodes("n1", 1025));
    let refused = cluster.scratch.does("mm --config storm.toml");
    assert!(
        stderr(&refused).contains("nodes[0].pes: 1025 is not from 1 to 1024"),
        "{}",
        told(&refused)
    );
    cluster.end();
}
