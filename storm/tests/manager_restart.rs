//! A manager that is killed with SIGKILL while jobs run, and started again on its
//! journal: real daemons, a real journal, real processes.

mod scratch;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scratch::{STORM, Scratch, stderr, stdout, told};
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Kills of the manager under the workload.
const KILLS: u32 = 20;
/// Jobs of the workload.
const JOBS: u64 = 40;
/// Tries to submit one job while the manager comes and goes.
const MAX_TRIES: usize = 10_000;

/// A cluster of daemons that a configuration file describes.
struct Cluster {
    scratch: Scratch,
    port: u16,
    manager: Option<Child>,
    nodes: Vec<Child>,
}

impl Cluster {
    fn start(nodes: u32) -> Cluster {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its number").port();
        drop(free);
        let scratch = Scratch::make();
        let work = scratch.work().display().to_string();
        let config = format!(
            "listen = \"127.0.0.1:{port}\"\nsocket = \"{work}/mm.sock\"\n\
             state-dir = \"{work}/state\"\n[[nodes]]\nnames = \"n[1-{nodes}]\"\npes = 2\n"
        );
        fs::write(scratch.work().join("storm.toml"), config).expect("written");
        let mut cluster = Cluster { scratch, port, manager: None, nodes: Vec::new() };
        cluster.start_manager();
        for node in 1..=nodes {
            let daemon = cluster.start_node(node);
            cluster.nodes.push(daemon);
        }
        let count = nodes as usize;
        cluster.wait_for("nodes", |nodes| {
            (nodes.to_string().matches("IDLE").count() == count).then_some(())
        });
        cluster
    }

    fn daemon(&self, words: &str, log: &str) -> Child {
        let open = fs::OpenOptions::new().create(true).append(true).clone();
        let log = open.open(self.scratch.work().join(log)).expect("a log");
        let mut command = self.scratch.storm(words.split_whitespace());
        command.stderr(log).stdout(Stdio::null()).spawn().expect("storm starts")
    }

    fn start_manager(&mut self) {
        let manager = self.daemon("mm --config storm.toml", "mm.log");
        self.manager = Some(manager);
        for _ in 0..MAX_TRIES {
            if self.storm("queue").output().expect("storm starts").status.success() {
                return;
            }
        }
        panic!("no manager: {}", self.log());
    }

    fn start_node(&self, node: u32) -> Child {
        let (port, work) = (self.port, self.scratch.work().display());
        let words =
            format!("nm --mm 127.0.0.1:{port} --name n{node} --pes 2 --work-dir {work}/n{node}");
        self.daemon(&words, "nm.log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.work().join("mm.log")).unwrap_or_default()
    }

    fn kill_manager(&mut self) {
        let mut manager = self.manager.take().expect("a manager");
        manager.kill().expect("it lives");
        manager.wait().expect("it is dead");
    }

    fn storm(&self, words: &str) -> Command {
        let mut command = self.scratch.storm(words.split_whitespace());
        command.env("STORM_SOCKET", self.scratch.work().join("mm.sock"));
        command
    }

    fn wait_for<T>(&self, words: &str, found: impl Fn(&serde_json::Value) -> Option<T>) -> T {
        let mut last = String::new();
        for _ in 0..MAX_TRIES {
            let done = self.storm(&format!("{words} --json")).output().expect("storm starts");
            last = told(&done);
            if let Ok(value) = serde_json::from_slice(&done.stdout)
                && let Some(wanted) = found(&value)
            {
                return wanted;
            }
        }
        panic!("storm {words} does not come to it: {last}\n{}", self.log())
    }

    fn until(&self, job: u64, state: &str) -> serde_json::Value {
        self.wait_for(&format!("show {job}"), |view| (view["state"] == state).then(|| view.clone()))
    }

    /// Submits a shell script to the ranks of two nodes.
    fn submit(&self, options: &str, script: &str) -> Option<u64> {
        let words = format!("submit -q -n 2 -N 2 --no-bcast {options} /bin/sh -c");
        let done = self.storm(&words).arg(script).output().expect("storm starts");
        done.status.success().then(|| stdout(&done).trim().parse().expect("a number"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.nodes.iter_mut().chain(&mut self.manager) {
            let _ = kill(Pid::from_raw(daemon.id().cast_signed()), Signal::SIGTERM);
            let _ = daemon.wait();
        }
    }
}

/// Waits until the file `go` is there, and ends with status 3.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done; exit 3";

#[test]
fn running_jobs_go_on_over_the_death_of_the_manager() {
    let mut cluster = Cluster::start(2);
    let work = cluster.scratch.work().to_owned();
    let long = cluster.submit("", UNTIL_GO).expect("a manager");
    cluster.until(long, "RUNNING");
    let mut followed = cluster
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

    cluster.kill_manager();
    let began = Instant::now();
    cluster.start_manager();
    let next = cluster.submit("", "exit 0").expect("a manager");
    cluster.until(next, "COMPLETED");
    let took = began.elapsed();
    let found = cluster.until(long, "RUNNING");
    assert_eq!(found["runs"], 1, "{found}");
    fs::write(work.join("go"), "").expect("written");
    let ended = cluster.until(long, "FAILED");
    assert_eq!((&ended["exit_code"], &ended["runs"]), (&3.into(), &1.into()), "{ended}");
    let done = followed.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(stdout(&done), "late\nlate\n");
    assert!(stderr(&done).contains("the manager is back"), "{}", told(&done));
    println!("a new job was done {took:?} after the start of the manager");
}

#[test]
fn a_node_manager_that_is_killed_ends_its_job_or_has_it_queued_again() {
    let mut cluster = Cluster::start(2);
    let plain = cluster.submit("", UNTIL_GO).expect("a manager");
    cluster.until(plain, "RUNNING");
    let again = cluster.submit("--requeue", UNTIL_GO).expect("a manager");
    cluster.until(again, "RUNNING");
    let began = Instant::now();
    cluster.nodes[1].kill().expect("it lives");
    let ended = cluster.until(plain, "NODE_FAIL");
    let took = began.elapsed();
    assert!(ended["reason"].as_str().is_some_and(|reason| reason.contains("n2")), "{ended}");
    cluster.nodes[1].wait().expect("it is dead");
    cluster.until(again, "PENDING");
    cluster.nodes[1] = cluster.start_node(2);
    assert_eq!(cluster.until(again, "RUNNING")["runs"], 2);
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.until(again, "FAILED");
    println!("the end of the job was seen {took:?} after the death of its node manager");
}

/// A random number: the seed of a run of real processes would repeat nothing.
fn random_below(bound: u64) -> u64 {
    RandomState::new().build_hasher().finish() % bound
}

#[test]
fn killed_at_random_points_it_loses_no_job_and_runs_none_twice() {
    let mut cluster = Cluster::start(2);
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
        // Nothing is ever sent: what it gives is an instant at random.
        let (_kept, instant) = mpsc::channel::<()>();
        for _ in 0..KILLS {
            let _ = instant.recv_timeout(Duration::from_millis(random_below(150)));
            cluster.kill_manager();
            cluster.start_manager();
        }
        submitting.join().expect("all are submitted")
    });
    for job in &acknowledged {
        let view = cluster.until(*job, "COMPLETED");
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
