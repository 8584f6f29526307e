//! Jobs that get the processing elements of others, on a cluster of real daemons. The quality of
//! service decides whether the others are suspended, requeued or cancelled.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, told};
use nix::sys::signal::Signal;
use std::fs;

/// Two nodes whose jobs make room for urgent jobs, in the manner of their quality of service.
fn settings(sched: &str) -> String {
    let mut settings = format!(
        "[[partitions]]\nname = \"all\"\nnodes = \"n[1-2]\"\nsched = \"{sched}\"\n\
         [[qos]]\nname = \"urgent\"\npreempts = [\"suspend\", \"requeue\", \"cancel\"]\n"
    );
    for mode in ["suspend", "requeue", "cancel"] {
        settings += &format!("[[qos]]\nname = \"{mode}\"\npreempt-mode = \"{mode}\"\n");
    }
    settings
}

/// Submits a job for all four elements. Its first rank reports, and then all ranks wait for a file
/// and write another one.
fn submit(cluster: &RealCluster, options: &str, name: &str) -> u64 {
    let script = format!(
        "[ $STORM_RANK != 0 ] || echo run >> {name}.runs; \
         until [ -e {name}.go ]; do sleep 0.02; done; : > {name}.$STORM_RANK.done"
    );
    let options = format!("-n 4 --no-bcast {options}");
    cluster.caller().submit(&options, &["/bin/sh", "-c", &script]).expect("it is taken")
}

fn go(cluster: &RealCluster, name: &str) {
    fs::write(cluster.scratch.work().join(format!("{name}.go")), "").expect("written");
}

/// Number of files that the ranks of a job have written.
fn done(cluster: &RealCluster, name: &str) -> usize {
    let left = |rank: &u32| cluster.scratch.work().join(format!("{name}.{rank}.done")).exists();
    (0..4).filter(left).count()
}

fn runs(cluster: &RealCluster, name: &str) -> usize {
    let path = cluster.scratch.work().join(format!("{name}.runs"));
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn a_suspended_job_does_nothing_until_its_elements_are_free_again() {
    let mut cluster = RealCluster::start(2, &settings("backfill"));
    let patient = submit(&cluster, "--qos suspend", "patient");
    cluster.caller().until(patient, "RUNNING");
    let urgent = submit(&cluster, "--qos urgent", "urgent");
    cluster.caller().until(urgent, "RUNNING");
    let stopped = cluster.caller().until(patient, "SUSPENDED");
    let reason = stopped["reason"].as_str().expect("text");
    assert!(reason.contains(&format!("suspended for job {urgent}")), "{stopped}");

    // The file that it waits for exists, but a suspended job does not see it, even while other jobs
    // start and end.
    go(&cluster, "patient");
    go(&cluster, "more");
    let more = submit(&cluster, "--qos urgent", "more");
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.caller().until(patient, "SUSPENDED");
    go(&cluster, "urgent");
    cluster.caller().until(urgent, "COMPLETED");
    cluster.caller().until(more, "COMPLETED");
    assert_eq!((done(&cluster, "urgent"), done(&cluster, "more")), (4, 4));

    let ended = cluster.caller().until(patient, "COMPLETED");
    assert_eq!((&ended["runs"], runs(&cluster, "patient")), (&1.into(), 1), "{ended}");
    assert_eq!(done(&cluster, "patient"), 4);
    cluster.end();
}

#[test]
fn a_requeued_job_runs_again_and_one_that_did_not_ask_for_it_does_not() {
    let cluster = RealCluster::start(2, &settings("fcfs"));
    let again = submit(&cluster, "--qos requeue --requeue", "again");
    cluster.caller().until(again, "RUNNING");
    let urgent = submit(&cluster, "--qos urgent", "urgent");
    cluster.caller().until(urgent, "RUNNING");
    cluster.caller().until(again, "PENDING");
    go(&cluster, "urgent");
    cluster.caller().until(urgent, "COMPLETED");
    cluster.caller().until(again, "RUNNING");
    let once = submit(&cluster, "--qos urgent", "more");
    go(&cluster, "more");
    cluster.caller().until(once, "COMPLETED");
    go(&cluster, "again");
    let ended = cluster.caller().until(again, "COMPLETED");
    assert_eq!((&ended["runs"], runs(&cluster, "again")), (&3.into(), 3), "{ended}");

    let never = submit(&cluster, "--qos requeue", "never");
    cluster.caller().until(never, "RUNNING");
    let urgent = submit(&cluster, "--qos urgent", "urgent");
    let ended = cluster.caller().until(never, "PREEMPTED");
    assert_eq!((&ended["exit_code"], runs(&cluster, "never")), (&143.into(), 1), "{ended}");
    cluster.caller().until(urgent, "COMPLETED");
    cluster.end();
}

#[test]
fn a_cancelled_job_says_for_whom_it_was() {
    let cluster = RealCluster::start(2, &settings("conservative"));
    let cheap = submit(&cluster, "--qos cancel --requeue", "cheap");
    cluster.caller().until(cheap, "RUNNING");
    go(&cluster, "urgent");
    let urgent = submit(&cluster, "--qos urgent", "urgent");
    cluster.caller().until(urgent, "COMPLETED");
    let ended = cluster.caller().until(cheap, "PREEMPTED");
    assert_eq!(ended["exit_code"], 143, "{ended}");
    let reason = ended["reason"].as_str().expect("text");
    assert_eq!(reason, format!("preempted by job {urgent}"));
    assert_eq!(done(&cluster, "cheap"), 0);
    cluster.end();
}

#[test]
fn qualities_that_would_make_room_for_each_other_are_refused() {
    let cluster = RealCluster::without_nodes(1, "");
    let config = cluster.scratch.work().join("circle.toml");
    let text = fs::read_to_string(cluster.scratch.work().join("storm.toml")).expect("it is there");
    let circle = "[[qos]]\nname = \"a\"\npreempts = [\"b\"]\npreempt-mode = \"cancel\"\n\
                  [[qos]]\nname = \"b\"\npreempts = [\"a\"]\npreempt-mode = \"cancel\"\n";
    fs::write(&config, text + circle).expect("written");
    let done = cluster.caller().storm("mm --config circle.toml").output().expect("it starts");
    assert!(!done.status.success(), "{}", told(&done));
    assert!(stderr(&done).contains("qos[0].preempts"), "{}", told(&done));
    cluster.end();
}
