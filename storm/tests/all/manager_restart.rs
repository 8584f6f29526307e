//! A manager that is killed with SIGKILL while jobs run, and restarted on its journal, with real
//! daemons and processes.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{STORM, stderr, stdout, told};
use nix::sys::signal::Signal;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Number of times that the manager is killed under the workload.
const KILLS: u32 = 20;
/// Jobs of the workload.
const JOBS: u64 = 40;
/// Most attempts to submit a job while the manager comes and goes.
const MAX_TRIES: usize = 10_000;

/// Waits until the file `go` is there, and ends with status 3.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done; exit 3";

#[test]
fn running_jobs_go_on_over_the_death_of_the_manager() {
    let mut cluster = RealCluster::start(2, "");
    let work = cluster.scratch.work().to_owned();
    let long = cluster.caller().submit_script("", UNTIL_GO).expect("a manager");
    cluster.caller().until(long, "RUNNING");
    let mut followed = cluster
        .caller()
        .storm("run -n 2 --no-bcast /bin/sh -c")
        .arg("echo early; while [ ! -e go ]; do sleep 0.02; done; echo late")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("storm starts");
    let mut early = [0; 12];
    followed.stdout.as_mut().expect("piped").read_exact(&mut early).expect("it writes");
    assert_eq!(&early, b"early\nearly\n");

    cluster.end_manager(Signal::SIGKILL);
    let began = Instant::now();
    cluster.start_manager();
    let next = cluster.caller().submit_script("", "exit 0").expect("a manager");
    cluster.caller().until(next, "COMPLETED");
    let took = began.elapsed();
    let found = cluster.caller().until(long, "RUNNING");
    assert_eq!(found["runs"], 1, "{found}");
    fs::write(work.join("go"), "").expect("written");
    let ended = cluster.caller().until(long, "FAILED");
    assert_eq!((&ended["exit_code"], &ended["runs"]), (&3.into(), &1.into()), "{ended}");
    let done = followed.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(stdout(&done), "late\nlate\n");
    assert!(stderr(&done).contains("the manager is back"), "{}", told(&done));
    println!("a new job was done {took:?} after the start of the manager");
}

#[test]
fn a_manager_that_is_asked_to_end_leaves_the_jobs_and_storm_down_ends_them() {
    let mut cluster = RealCluster::start(2, "");
    let long = cluster.caller().submit_script("", UNTIL_GO).expect("a manager");
    cluster.caller().until(long, "RUNNING");
    let mut attached = cluster.caller().storm("run -n 2 --no-bcast /bin/sh -c");
    let mut attached = attached.arg(UNTIL_GO).stderr(Stdio::piped()).spawn().expect("storm starts");
    let mut told = BufReader::new(attached.stderr.take().expect("piped")).lines();
    cluster.caller().until(long + 1, "RUNNING");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        cluster.end_manager(signal);
        cluster.start_manager();
        let found = cluster.caller().until(long, "RUNNING");
        assert_eq!(found["runs"], 1, "{found}");
        // Only a client that follows again learns of the end.
        let mut lines = told.by_ref().map(|line| line.expect("readable"));
        assert!(lines.any(|line| line.contains("the manager is back")));
    }
    let socket = cluster.scratch.work().join("mm.sock").display().to_string();
    cluster.scratch.prints(&format!("down --socket {socket}"));
    // The first cause is why the cluster was shut down, for followers as well.
    assert_eq!(attached.wait().expect("our child").code(), Some(143));
    cluster.has_ended();
}

/// A random number. A seed would be useless, as a run of real processes cannot be repeated.
fn random_below(bound: u64) -> u64 {
    RandomState::new().build_hasher().finish() % bound
}

#[test]
fn killed_at_random_points_it_loses_no_job_and_runs_none_twice() {
    let mut cluster = RealCluster::start(2, "");
    let work = cluster.scratch.work().to_owned();
    let socket = work.join("mm.sock");
    let submit_one = || {
        for _ in 0..MAX_TRIES {
            let mut command = Command::new(STORM);
            command.current_dir(&work).env("STORM_SOCKET", &socket).stdin(Stdio::null());
            let words = "submit -q -n 2 -N 2 --no-bcast /bin/sh -c";
            command.args(words.split_whitespace()).arg("echo x >> ran-$STORM_JOB_ID; sleep 0.05");
            let done = command.output().expect("storm starts");
            if done.status.success() {
                return stdout(&done).trim().parse::<u64>().expect("a number");
            }
        }
        panic!("no manager takes a job")
    };
    let acknowledged = std::thread::scope(|scope| {
        let submitting = scope.spawn(|| (0..JOBS).map(|_| submit_one()).collect::<Vec<u64>>());
        // Nothing is ever sent; the timeout is a random instant.
        let (_kept, instant) = mpsc::channel::<()>();
        for _ in 0..KILLS {
            let _ = instant.recv_timeout(Duration::from_millis(random_below(150)));
            cluster.end_manager(Signal::SIGKILL);
            cluster.start_manager();
        }
        submitting.join().expect("all are submitted")
    });
    for job in &acknowledged {
        let view = cluster.caller().until(*job, "COMPLETED");
        assert_eq!(view["runs"], 1, "{view}");
    }
    for entry in fs::read_dir(&work).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("ran-") {
            let ran = fs::read_to_string(entry.path()).expect("readable");
            assert_eq!(ran, "x\nx\n", "{name}: two ranks, once each");
        }
    }
    let ran = acknowledged.iter().filter(|job| work.join(format!("ran-{job}")).exists());
    assert_eq!(ran.count(), acknowledged.len());
}
