//! Further facts of a job, for listings that ask for them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::message::ExitStatus;
use storm_rm::{FirstStep, OsBytes, OutputSpec, Rank};

/// The facts. A listing has them only on request: most readers need none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAttributes {
    /// The group of its processes.
    pub gid: u32,
    /// The account that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its quality of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The reservation that it was submitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Subtracted from its priority.
    pub nice: i32,
    /// The first step, which runs in its place.
    pub first: FirstStep,
    /// The program: a path, or the name of a shipped file.
    pub program: OsBytes,
    /// Its working directory.
    pub cwd: OsBytes,
    /// Where its output is written.
    pub output: OutputSpec,
    /// Whether it may run twice.
    pub requeue: bool,
    /// How often it was started.
    pub runs: u32,
    /// The time before which it does not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// The conditions on other jobs that it still waits for: `afterok:7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// Its part of its first node, once placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_part: Option<JobPartView>,
    /// The user that cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<u32>,
    /// How it ended: the highest status of its ranks, or the signal of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Resource use of its ranks, once they have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<UseView>,
}

impl JobAttributes {
    /// The space that they take in a reply, roughly, in bytes.
    pub(super) fn weight_bytes(&self) -> usize {
        const NUMBERS: usize = 512;
        let output = match &self.output {
            OutputSpec::Client => 0,
            OutputSpec::Files { stdout, stderr } => {
                in_json(stdout) + stderr.as_ref().map_or(0, in_json)
            }
        };
        let dependency = self.dependency.as_ref().map_or(0, String::len);
        NUMBERS + in_json(&self.program) + in_json(&self.cwd) + output + dependency
    }
}

/// The characters that a path takes in JSON: bytes that are not UTF-8 become numbers.
fn in_json(path: &OsBytes) -> usize {
    let bytes = path.as_bytes();
    if std::str::from_utf8(bytes).is_ok() { bytes.len() } else { 4 * bytes.len() }
}

/// A job's processes on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPartView {
    /// The node.
    pub node: String,
    /// Processes that it has room for.
    pub procs: u32,
}

/// Resource use of the ranks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseView {
    /// User CPU time of all ranks in microseconds.
    pub user_us: u64,
    /// System CPU time of all ranks in microseconds.
    pub system_us: u64,
    /// The sum of the ranks' largest resident sets in KiB.
    pub rss_kib: u64,
    /// Largest resident set of a rank in KiB.
    pub max_rss_kib: u64,
    /// This rank, and its node.
    pub max_rss_at: (Rank, String),
    /// Least CPU time of a rank in microseconds.
    pub min_cpu_us: u64,
    /// This rank, and its node.
    pub min_cpu_at: (Rank, String),
}
