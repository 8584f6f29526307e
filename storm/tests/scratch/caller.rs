//! Sends commands to a cluster of a test, and waits for results.

use super::{Scratch, stdout, told};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Most queries while a test waits for something: many seconds.
const MAX_QUESTIONS: usize = 10_000;

/// How long a job may take to its end.
const MAX_WAIT: &str = "60s";

/// Final states of a job.
const ENDED: [&str; 5] = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"];

/// Sends commands to the manager behind a socket.
pub(crate) struct Caller<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) socket: PathBuf,
}

impl Caller<'_> {
    /// `storm` with these words.
    pub(crate) fn storm(&self, words: &str) -> Command {
        let mut command = self.scratch.storm(words.split_whitespace());
        command.env("STORM_SOCKET", &self.socket);
        command
    }

    /// Repeats the query until `found` returns a value. The manager may be away meanwhile.
    pub(crate) fn wait_for<T>(&self, words: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        let mut last = String::new();
        for _ in 0..MAX_QUESTIONS {
            let done = self.storm(&format!("{words} --json")).output().expect("storm starts");
            last = told(&done);
            if let Ok(value) = serde_json::from_slice(&done.stdout)
                && let Some(wanted) = found(&value)
            {
                return wanted;
            }
        }
        panic!("storm {words} does not come to it: {last}")
    }

    /// Waits until a job is in a state. Polling slows down the cluster, and a node that does not
    /// answer is silent for seconds, so an end is waited for by `wait`.
    pub(crate) fn until(&self, job: u64, state: &str) -> Value {
        if ENDED.contains(&state) {
            // If the manager goes away meanwhile, the query is repeated.
            let words = format!("wait --quiet --timeout {MAX_WAIT} {job}");
            self.storm(&words).output().expect("storm starts");
        }
        self.wait_for(&format!("show {job}"), |view| (view["state"] == state).then(|| view.clone()))
    }

    /// Waits until the reason of a job's state contains this text.
    pub(crate) fn until_because(&self, job: u64, text: &str) -> Value {
        self.wait_for(&format!("show {job}"), |view| {
            view["reason"].as_str()?.contains(text).then(|| view.clone())
        })
    }

    /// Waits until this many nodes are up and idle.
    pub(crate) fn until_idle(&self, nodes: usize) {
        self.wait_for("nodes", |listed| {
            let idle = |node: &&Value| node["state"] == "IDLE" || node["state"] == "RESERVED";
            (listed.as_array()?.iter().filter(idle).count() == nodes).then_some(())
        });
    }

    /// Waits until a node is down.
    pub(crate) fn until_down(&self, node: &str) {
        self.wait_for("nodes", |listed| {
            let mut nodes = listed.as_array()?.iter();
            nodes.any(|one| one["name"] == node && one["state"] == "DOWN").then_some(())
        });
    }

    /// Waits until no node is down.
    pub(crate) fn until_none_down(&self) {
        self.wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    }

    pub(crate) fn cancel(&self, job: u64) {
        let done = self.storm(&format!("cancel {job}")).output().expect("storm starts");
        assert!(done.status.success(), "{}", told(&done));
    }

    /// Submits a program, and returns its number; `None` if the manager is away.
    pub(crate) fn submit(&self, options: &str, program: &[&str]) -> Option<u64> {
        let mut command = self.storm(&format!("submit -q {options}"));
        let done = command.args(program).output().expect("storm starts");
        done.status.success().then(|| stdout(&done).trim().parse().expect("a number"))
    }

    /// Submits a shell script with a rank on each of two nodes.
    pub(crate) fn submit_script(&self, options: &str, script: &str) -> Option<u64> {
        let options = format!("-n 2 -N 2 --no-bcast {options}");
        self.submit(&options, &["/bin/sh", "-c", script])
    }
}
