//! Limits on descriptors: the number per processing element of a node, and the errors at the limit.
//! The tests limit only the commands that they start.

use crate::scratch::{STORM, Scratch, stderr, stdout, told};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Most descriptors of a Node Manager without places and jobs.
const NODE_MANAGER_MAX: usize = 40;

/// A cluster whose daemons, and some commands, may have only `limit` open descriptors.
struct Few {
    scratch: Scratch,
    limit: u32,
}

impl Few {
    fn up(limit: u32, words: &str) -> Few {
        let few = Few { scratch: Scratch::make(), limit };
        few.prints(&format!("up --nodes 1 {words}"));
        few
    }

    fn storm(&self, words: &str) -> Command {
        let mut command = self.scratch.command("/bin/sh");
        let script = format!("ulimit -n {} && exec \"$@\"", self.limit);
        command.args(["-c", &script, "sh", STORM]).args(words.split_whitespace());
        command
    }

    fn does(&self, words: &str) -> Output {
        self.storm(words).output().expect("a shell starts")
    }

    fn prints(&self, words: &str) -> String {
        let done = self.does(words);
        assert!(done.status.success(), "storm {words}: {}", told(&done));
        String::from_utf8(done.stdout).expect("it is text")
    }

    /// Submits a lasting job without output.
    fn submit(&self, procs: u32) -> u64 {
        let id = self.prints(&format!("submit -q -n {procs} -o /dev/null sleep 600"));
        id.trim().parse().unwrap_or_else(|error| panic!("{id}: {error}"))
    }

    /// Submits a lasting job whose ranks each write a line to a file.
    fn submit_that_says_so(&self, procs: u32) -> u64 {
        let mut command = self.storm(&format!("submit -q -n {procs} -o up-%j sh -c"));
        let done = command.arg("echo up; exec sleep 600").output().expect("a shell starts");
        assert!(done.status.success(), "{}", told(&done));
        let id = stdout(&done);
        id.trim().parse().unwrap_or_else(|error| panic!("{id}: {error}"))
    }

    fn lines_of(&self, job: u64) -> usize {
        let path = self.scratch.work().join(format!("up-{job}"));
        fs::read_to_string(path).unwrap_or_default().lines().count()
    }

    /// Waits until a job is in one of these states, and returns the job.
    fn until(&self, id: u64, states: &[&str]) -> Value {
        self.scratch.wait_for(&format!("show {id}"), |job| {
            states.iter().any(|state| job["state"] == *state).then(|| job.clone())
        })
    }

    fn node_state(&self) -> Value {
        self.scratch.json("nodes")[0]["state"].clone()
    }

    fn node_manager_and_keeper(&self) -> (i32, i32) {
        let (manager, _) = *self.scratch.pids_of("nm").first().expect("a Node Manager");
        let children = fs::read_to_string(format!("/proc/{manager}/task/{manager}/children"));
        let children = children.expect("it lives");
        let is_keeper = |pid: &i32| {
            let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            title.starts_with("storm: keeper")
        };
        let mut pids = children.split_whitespace().map(|pid| pid.parse().expect("a number"));
        (manager, pids.find(is_keeper).expect("a keeper"))
    }

    fn socket(&self) -> PathBuf {
        let (manager, _) = *self.scratch.pids_of("mm").first().expect("a manager");
        let line = fs::read_to_string(format!("/proc/{manager}/cmdline")).expect("it lives");
        let mut words = line.split('\0').skip_while(|word| *word != "--runtime-dir");
        PathBuf::from(words.nth(1).expect("its directory")).join("mm.sock")
    }
}

fn open_of(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count()
}

/// Regression: at a limit of 1024, four jobs of 64 processes took down the node and all jobs.
#[test]
fn four_jobs_of_64_processes_run_together_where_1024_descriptors_are_allowed() {
    let few = Few::up(1024, "--pes 64");
    let (manager, _) = few.node_manager_and_keeper();
    assert!(open_of(manager) <= 64 + NODE_MANAGER_MAX, "{} while idle", open_of(manager));
    let jobs = [(); 4].map(|()| few.submit(64));
    for job in jobs {
        few.until(job, &["RUNNING"]);
    }
    for job in jobs {
        assert_eq!(few.scratch.json(&format!("show {job}"))["state"], "RUNNING");
    }
    assert_eq!(few.node_state(), "ALLOCATED");
    // Two for each rank while there are plenty, and a waiting place.
    assert!(open_of(manager) <= 4 * 64 * 2 + 64 + NODE_MANAGER_MAX, "{}", open_of(manager));
}

#[test]
fn a_launch_without_descriptors_fails_alone_and_later_ones_work() {
    let few = Few::up(160, "--pes 16");
    let (manager, keeper) = few.node_manager_and_keeper();
    let mut running = Vec::new();
    let failed = loop {
        let job = few.submit_that_says_so(16);
        // A job that cannot start is RUNNING until its node has reported.
        let failed = few.scratch.wait_for(&format!("show {job}"), |shown| {
            (shown["state"] == "FAILED" || few.lines_of(job) == 16).then(|| shown.clone())
        });
        if few.lines_of(job) < 16 {
            break failed;
        }
        running.push(job);
        assert!(running.len() < 8, "160 descriptors are enough for all rows");
    };
    assert!(running.len() >= 3, "{running:?}");
    let reason = failed["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("160 descriptors") && reason.contains("LimitNOFILE="), "{failed}");
    for job in &running {
        assert_eq!(few.scratch.json(&format!("show {job}"))["state"], "RUNNING");
    }
    assert_eq!(few.node_state(), "ALLOCATED");
    assert_eq!(few.node_manager_and_keeper(), (manager, keeper));
    for job in running {
        few.prints(&format!("cancel {job}"));
        few.until(job, &["CANCELLED"]);
    }
    for _ in 0..3 {
        let done = few.does("run -n 16 hostname");
        assert!(done.status.success(), "{}", told(&done));
        assert_eq!(done.stdout.iter().filter(|byte| **byte == b'\n').count(), 16);
    }
}

/// A node with more elements than descriptors for waiting processes still runs smaller jobs.
#[test]
fn a_node_of_more_elements_than_descriptors_runs_what_fits() {
    let few = Few::up(100, "--pes 200");
    let done = few.does("run -n 200 hostname");
    assert!(!done.status.success() && stderr(&done).contains("100 descriptors"), "{}", told(&done));
    let done = few.does("run -n 8 hostname");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(few.node_state(), "IDLE");
}

#[test]
fn clients_beyond_the_limit_are_turned_away_and_the_manager_goes_on() {
    let few = Few::up(100, "--pes 2");
    let job = few.submit(2);
    few.until(job, &["RUNNING"]);
    let socket = few.socket();
    let clients: Vec<UnixStream> =
        (0..120).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    // The last client gets the error.
    let mut last = clients.last().expect("some");
    let mut said = [0; 4096];
    let length = last.read(&mut said).expect("an answer");
    let said = String::from_utf8_lossy(&said[..length]);
    assert!(said.contains("too many clients"), "{said}");
    let refused = few.does("queue");
    assert!(stderr(&refused).contains("too many clients"), "{}", told(&refused));
    assert!(stderr(&refused).contains("100 descriptors"), "{}", told(&refused));
    drop(clients);
    let job = few.until(job, &["RUNNING"]);
    assert_eq!(job["state"], "RUNNING");
    assert_eq!(few.node_state(), "ALLOCATED");
}

/// Regression: the command panicked, or asked whether /proc is mounted.
#[test]
fn a_command_without_descriptors_names_the_limit() {
    for limit in [6, 10, 12] {
        let few = Few { scratch: Scratch::make(), limit };
        let done = few.does("run hostname");
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains("Too many open files") && said.contains("ulimit -n"), "{said}");
        assert!(!said.contains("panicked") && !said.contains("mounted"), "{said}");
    }
}
