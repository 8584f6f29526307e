//! A job's record has all resources that the job used, however it ended.

use crate::scratch::{Scratch, told};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Works for more than five ticks of the clock, takes 32 MiB, and reports that it has.
const WORK: &str = "x=$(head -c 33554432 /dev/zero | tr '\\0' x); i=0; \
    while [ $i -lt 150000 ]; do i=$((i+1)); done; echo done > worked";
/// More than a waiting script needs, and less than that work.
const WORK_US: u64 = 50_000;
const WORK_KIB: u64 = 32 << 10;

fn cluster() -> Scratch {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 2");
    fs::write(scratch.work().join("work"), format!("#!/bin/sh\n{WORK}\nsleep 1000; true\n"))
        .expect("written");
    fs::write(scratch.work().join("brief"), format!("#!/bin/sh\n{WORK}\n")).expect("written");
    for name in ["work", "brief"] {
        let path = scratch.work().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("ours");
    }
    scratch
}

/// Submits a job and waits until it has worked.
fn submit(scratch: &Scratch, options: &str, script: &str) -> String {
    let mut command = scratch.storm(["submit", "--quiet", "-o", "out"]);
    command.args(options.split_whitespace()).args(["sh", "-c", script]);
    let done = command.output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let job = String::from_utf8(done.stdout).expect("text").trim().to_owned();
    let worked = scratch.work().join("worked");
    let ready = |_: &Value| worked.exists().then_some(());
    scratch.wait_for(&format!("show {job}"), ready);
    job
}

fn ended(scratch: &Scratch, job: &str, state: &str) -> Value {
    scratch.does(&format!("wait {job}"));
    let shown = scratch.json(&format!("show {job}"));
    assert_eq!(shown["state"], state, "{shown}");
    fs::remove_file(scratch.work().join("worked")).expect("it was made");
    shown
}

fn assert_used(shown: &Value, what: &str) {
    let cpu_us = shown["cpu_us"].as_u64().expect("a number");
    assert!(cpu_us >= WORK_US, "{what}: {cpu_us} µs: {shown}");
    let peaks = shown["ranks"].as_array().expect("ranks").iter();
    let peak = peaks.filter_map(|rank| rank["exit"]["max_rss_kib"].as_u64()).max();
    assert!(peak.is_some_and(|peak| peak >= WORK_KIB), "{what}: {peak:?} KiB: {shown}");
}

/// Regression: only the script itself counted, with 4 ms.
#[test]
fn a_script_that_is_cancelled_used_what_its_child_did() {
    let scratch = cluster();
    for script in ["./work; echo end", "setsid ./work; echo end", "./work & wait"] {
        let job = submit(&scratch, "", script);
        scratch.prints(&format!("cancel {job}"));
        assert_used(&ended(&scratch, &job, "CANCELLED"), script);
    }
}

#[test]
fn a_script_whose_time_is_over_used_what_its_child_did() {
    let scratch = cluster();
    let job = submit(&scratch, "-t 15s", "./work; echo end");
    assert_used(&ended(&scratch, &job, "TIMEOUT"), "a time limit");
}

#[test]
fn children_that_nobody_waits_for_count() {
    let scratch = cluster();
    let until_worked = "while ! test -e worked; do :; done";
    for child in ["setsid ./work &", "./work &", "(./brief &);"] {
        // The rank checks the file in a child process, which it waits for and which counts too.
        let job = submit(&scratch, "", &format!("{child} sh -c '{until_worked}' > /dev/null"));
        let shown = ended(&scratch, &job, "COMPLETED");
        assert_used(&shown, child);
    }
}
