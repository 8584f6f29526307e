//! Conditions for jobs besides elements, on a cluster of real daemons: holds, times, other jobs,
//! and arrays; and a partition whose policy changes under its jobs.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Waits until the file `go` is there.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done";

/// Submits a shell script of one process, and returns its number.
fn submit(cluster: &RealCluster, options: &str, script: &str) -> u64 {
    let options = format!("--no-bcast {options}");
    cluster.caller().submit(&options, &["/bin/sh", "-c", script]).expect("it is taken")
}

fn time(job: &Value, pointer: &str) -> Timestamp {
    let text = job.pointer(pointer).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {pointer} in {job}"))
}

#[test]
fn a_held_job_waits_for_its_release_and_one_with_a_time_for_that() {
    let mut cluster = RealCluster::start(1, "");
    let held = submit(&cluster, "--hold", "exit 0");
    let late = submit(&cluster, "--begin now+2", "exit 0");
    cluster.caller().until_because(held, "JobHeldUser");
    // Both survive the manager.
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.caller().until_because(held, "JobHeldUser");
    assert_eq!(cluster.says(&format!("release {held}")), format!("Released job {held}\n"));
    cluster.caller().until(held, "COMPLETED");
    let late = cluster.caller().until(late, "COMPLETED");
    assert!(time(&late, "/started") >= time(&late, "/spec/needs/begin"), "{late}");
    // A queued job can be held as well, but not one that has ended.
    let blocker = submit(&cluster, "-n 2 --sched gang", UNTIL_GO);
    let queued = submit(&cluster, "--begin now+1hour", "exit 0");
    cluster.caller().until_because(queued, "BeginTime");
    cluster.says(&format!("hold {queued}"));
    cluster.caller().until_because(queued, "JobHeldUser");
    cluster.caller().cancel(queued);
    assert!(says_of_failure(&cluster, &format!("hold {held}")).contains("has ended"));
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(blocker, "COMPLETED");
    cluster.end();
}

/// The output of a command that fails for one of its jobs.
fn says_of_failure(cluster: &RealCluster, words: &str) -> String {
    let done = cluster.caller().storm(words).output().expect("storm starts");
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    stderr(&done)
}

#[test]
fn jobs_wait_for_the_ends_of_others_and_hear_when_they_never_come() {
    let mut cluster = RealCluster::start(1, "");
    let first = submit(&cluster, "--hold", "exit 3");
    let ok = submit(&cluster, &format!("-d afterok:{first}"), "exit 0");
    let kill = format!("-d afterok:{first} --kill-on-invalid-dep yes");
    let killed = submit(&cluster, &kill, "exit 0");
    let not_ok = submit(&cluster, &format!("-d afternotok:{first}"), "exit 0");
    let any = submit(&cluster, &format!("-d afterok:{first}?afterany:{not_ok}"), "exit 0");
    cluster.caller().until_because(ok, "(Dependency)");
    assert!(cluster.refused("submit -d afterok:99 --no-bcast /bin/true").contains("no job 99"));
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.says(&format!("release {first}"));
    cluster.caller().until(first, "FAILED");
    cluster.caller().until(not_ok, "COMPLETED");
    let any = cluster.caller().until(any, "COMPLETED");
    let not_ok = cluster.caller().until(not_ok, "COMPLETED");
    assert!(time(&any, "/started") >= time(&not_ok, "/ended"), "{any}");
    cluster.caller().until(killed, "CANCELLED");
    cluster.caller().until_because(ok, "DependencyNeverSatisfied");
    cluster.caller().cancel(ok);
    cluster.end();
}

#[test]
fn jobs_follow_the_begin_of_others_and_tasks_those_of_their_index() {
    let mut cluster = RealCluster::start(1, "");
    let go = submit(&cluster, "--hold", UNTIL_GO);
    let begun = submit(&cluster, &format!("-d after:{go}"), "exit 0");
    let later = submit(&cluster, &format!("-d after:{go}+600"), "exit 0");
    let first = submit(&cluster, "--hold --array 1-2", "[ $STORM_ARRAY_TASK_ID = 2 ]");
    let second = submit(&cluster, &format!("-d aftercorr:{first} --array 1-2"), "exit 0");
    cluster.caller().until_because(begun, "after:");
    let refused =
        cluster.refused(&format!("submit -d aftercorr:{first} -a 1-3 --no-bcast /bin/true"));
    assert!(refused.contains(&format!("array {first} has no job of index 3")), "{refused}");
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.says(&format!("release {go} {first}"));
    cluster.caller().until(begun, "COMPLETED");
    cluster.caller().until(go, "RUNNING");
    cluster.caller().until_because(later, &format!("after:{go}+600, which is at "));
    cluster.caller().until_because(second + 1, "can never be");
    cluster.caller().until(second + 2, "COMPLETED");
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(go, "COMPLETED");
    let shown: Value =
        serde_json::from_str(&cluster.says(&format!("show {later} --json"))).expect("JSON");
    let condition = &shown["spec"]["needs"]["dependency"]["conditions"][0];
    assert_eq!(
        *condition,
        serde_json::json!({ "after": { "job": go, "minutes": 600 } }),
        "{shown}"
    );
    cluster.caller().cancel(later);
    cluster.caller().cancel(second);
    cluster.end();
}

#[test]
fn an_array_is_many_jobs_of_one_submission() {
    let cluster = RealCluster::start(2, "");
    let script = "echo $STORM_ARRAY_JOB_ID $STORM_ARRAY_TASK_ID $STORM_ARRAY_TASK_COUNT \
                  $STORM_ARRAY_TASK_MIN $STORM_ARRAY_TASK_MAX; [ $STORM_ARRAY_TASK_ID != 9 ]";
    let array = submit(&cluster, "--hold --array 1-9:2%2", script);
    let after = submit(&cluster, &format!("-d afternotok:{array}"), "exit 0");
    let one = submit(&cluster, &format!("-d afterok:{array}_3"), "exit 0");
    let listed = cluster.says("queue");
    assert!(listed.contains(&format!("{array}_[1-9:2]")), "{listed}");
    cluster.says(&format!("cancel {array}_5"));
    cluster.says(&format!("release {array}"));
    cluster.caller().until(after, "COMPLETED");
    cluster.caller().until(one, "COMPLETED");
    let words = format!("hist {array}");
    let jobs = cluster.caller().wait_for(&words, |jobs| jobs.as_array().cloned());
    let state = |index: u32| {
        let found = jobs.iter().find(|job| job["array"]["index"] == index);
        found.and_then(|job| job["state"].as_str()).unwrap_or("not there")
    };
    let states = [1, 3, 5, 7, 9].map(state);
    assert_eq!(states, ["COMPLETED", "COMPLETED", "CANCELLED", "COMPLETED", "FAILED"]);
    let file = cluster.scratch.work().join(format!("storm-{array}_7.out"));
    let written = fs::read_to_string(file).expect("the output of the job of index 7");
    assert_eq!(written, format!("{array} 7 5 1 9\n"));
    let few = submit(&cluster, "--hold --array 1-3", "exit 0");
    let words = format!("cancel {few}_2 {few}_9 {few}_3");
    let done = cluster.caller().storm(&words).output().expect("storm starts");
    assert_eq!(stdout(&done), format!("Cancelling job {few}_[2-3]\n"));
    let expected = format!(
        "Job {few}_9: there is no job {few}_9\n  try: storm queue --all {few} lists the jobs of the \
         array\n"
    );
    assert_eq!((stderr(&done), done.status.code()), (expected, Some(1)));
    cluster.says(&format!("cancel {few}_1"));
    let many = submit(&cluster, "--hold --array 0-999", "exit 0");
    assert_eq!(cluster.says(&format!("cancel {many}")), format!("Cancelling job {many}\n"));
    assert!(cluster.refused("submit --array 0-99999 --no-bcast /bin/true").contains("array-max"));
    cluster.end();
}

#[test]
fn a_partition_gets_another_policy_with_its_jobs_and_keeps_it() {
    let mut cluster = RealCluster::start(2, "");
    let two_rows = |cluster: &RealCluster| [0, 1].map(|_| submit(cluster, "-n 4", UNTIL_GO));
    let rows = two_rows(&cluster);
    for job in rows {
        cluster.caller().until(job, "RUNNING");
    }
    let partition = cluster
        .caller()
        .wait_for("partition list", |all| all[0]["name"].as_str().map(str::to_owned));
    let show = format!("partition show {partition}");
    cluster.says(&format!("partition set-quantum {partition} 7ms"));
    let refusal = cluster.refused(&format!("partition set-sched {partition} lottery"));
    assert!(refusal.contains("lottery") && refusal.contains("fcfs"), "{refusal}");
    cluster.says(&format!("partition set-sched {partition} fcfs"));
    let queued: Vec<u64> = (0..5).map(|_| submit(&cluster, "-n 3", "exit 0")).collect();
    let shown = cluster.caller().wait_for(&show, |shown| Some(shown.clone()));
    assert_eq!((&shown["sched"], &shown["next_sched"]), (&"gang".into(), &"fcfs".into()));
    assert_eq!(shown["quantum_us"], 7_000, "{shown}");
    cluster.caller().until_because(queued[0], "changes to fcfs");
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.caller().until_because(queued[4], "changes to fcfs");
    cluster.caller().cancel(rows[1]);
    cluster.caller().wait_for(&show, |shown| (shown["sched"] == "fcfs").then_some(()));
    let first = cluster.caller().until(rows[0], "RUNNING");
    assert_eq!(first["runs"], 1, "{first}");
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    let mut starts: Vec<Timestamp> = Vec::new();
    for job in queued {
        starts.push(time(&cluster.caller().until(job, "COMPLETED"), "/started"));
    }
    assert!(starts.is_sorted(), "in the order in which they came: {starts:?}");
    cluster.caller().until(rows[0], "COMPLETED");
    // And back, with a running job.
    fs::remove_file(cluster.scratch.work().join("go")).expect("removed");
    let running = submit(&cluster, "-n 4", UNTIL_GO);
    cluster.caller().until(running, "RUNNING");
    cluster.says(&format!("partition set-sched {partition} gang"));
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    let shown = cluster.caller().wait_for(&show, |shown| Some(shown.clone()));
    assert_eq!((&shown["sched"], &shown["quantum_us"]), (&"gang".into(), &7_000.into()));
    let beside = submit(&cluster, "-n 4", "exit 0");
    cluster.caller().until(beside, "COMPLETED");
    let view = cluster.caller().until(running, "RUNNING");
    assert!(view["ran_s"].is_u64() && view["runs"] == 1, "{view}");
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(running, "COMPLETED");
    cluster.end();
}

#[test]
fn waiting_gives_the_highest_status_and_leaves_jobs_alone() {
    let mut cluster = RealCluster::start(1, "");
    let long = submit(&cluster, "", &format!("{UNTIL_GO}; exit 3"));
    let array = submit(&cluster, "--array 1-2", "exit $STORM_ARRAY_TASK_ID");
    let wait = |words: &str| {
        let mut command = cluster.caller().storm(&format!("wait {words}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("storm starts")
    };
    let both = wait(&format!("--quiet {long} {array}"));
    let interrupted = wait(&long.to_string());
    let done = wait(&array.to_string()).wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(2), "{}", told(&done));
    let late = wait(&format!("{long} --timeout 50ms")).wait_with_output().expect("it ends");
    assert_eq!(late.status.code(), Some(124), "{}", told(&late));
    assert!(stderr(&late).contains("not all of the jobs"), "{}", told(&late));
    let nobody = wait("99").wait_with_output().expect("it ends");
    assert_eq!(nobody.status.code(), Some(1), "{}", told(&nobody));
    // Not SIGINT, which is ignored if the tests run in the background.
    kill(Pid::from_raw(interrupted.id().cast_signed()), Signal::SIGTERM).expect("it waits");
    let done = interrupted.wait_with_output().expect("it ends");
    assert_eq!(done.status.signal(), Some(Signal::SIGTERM as i32), "{}", told(&done));
    cluster.caller().until(long, "RUNNING");
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    let done = both.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(3), "{}", told(&done));
    let listed = format!("{long} FAILED\n{array}_1 FAILED\n{array}_2 FAILED\n");
    assert_eq!(stdout(&done), listed, "{}", told(&done));
    let own = cluster.caller().storm("submit --wait --quiet --wrap").arg("exit 5").output();
    let own = own.expect("storm starts");
    assert_eq!(own.status.code(), Some(5), "{}", told(&own));
    cluster.end();
}
