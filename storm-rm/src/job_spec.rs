//! The request of a user: the program, its surroundings, and the number of its processes.
//!
//! The client makes the specification, the Machine Manager adds the submitter's identity, and the
//! Node Managers carry it out. The specification does not fix where the job runs; the placement
//! does.

use crate::{ContentHash, EarlySignal, FirstStep, Needs, OsBytes, Remarks, Resources, StepSpec};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A job as submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The name, shown to people; the program's file name unless the user chose another.
    pub name: String,
    /// The user as whom the job runs. The Machine Manager sets it from the peer's credentials.
    pub owner: Owner,
    /// Number of processes that the job's place has room for, at least 1.
    pub procs: u32,
    /// The first step, which runs in the job's place.
    #[serde(default)]
    pub first: FirstStep,
    /// Exactly this many nodes, when given.
    pub nodes: Option<u32>,
    /// The job's demands on its nodes besides elements.
    #[serde(default)]
    pub resources: Resources,
    /// The requested partition.
    pub partition: Option<String>,
    /// The requested scheduling policy: selects among the partitions.
    pub sched: Option<String>,
    /// The job is ended after running this long.
    pub time_limit: Option<Duration>,
    /// The signal that the job gets before that.
    #[serde(default)]
    pub early_signal: Option<EarlySignal>,
    /// The program of the first step and its surroundings.
    pub step: StepSpec,
    /// Put the job back in the queue, instead of ending it, when its node dies.
    pub requeue: bool,
    /// The job's needs besides processing elements.
    #[serde(default)]
    pub needs: Needs,
    /// The user's remarks.
    #[serde(default)]
    pub remarks: Remarks,
}

impl JobSpec {
    /// A job of one rank without requests. It is owned by root and named `name`, which is its only
    /// argument. It has no environment, runs in `/`, and sends its output to the client.
    pub fn plain(name: &str, program: Program) -> JobSpec {
        JobSpec {
            name: name.to_owned(),
            owner: Owner { uid: 0, gid: 0 },
            procs: 1,
            first: FirstStep::Program,
            nodes: None,
            resources: Resources::default(),
            partition: None,
            sched: None,
            time_limit: None,
            early_signal: None,
            step: StepSpec::plain(name, program),
            requeue: false,
            needs: Needs::default(),
            remarks: Remarks::default(),
        }
    }

    /// Number of processes (ranks) that the job itself starts.
    pub fn ranks(&self) -> u32 {
        match self.first {
            FirstStep::Program => self.procs,
            FirstStep::Script => 1,
        }
    }
}

/// Where on its node each rank may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binding {
    /// On any core that the kernel chooses.
    #[default]
    None,
    /// On one core, a different core for each rank while there are enough.
    Core,
}

/// The submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Primary group id; the node finds further groups itself.
    pub gid: u32,
}

/// The source of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// A file that is shipped to every node and executed there.
    Shipped(FileSpec),
    /// A path that exists on every node (`--no-bcast`).
    OnNodes(OsBytes),
}

/// A file to ship, named by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSpec {
    /// BLAKE3 of the content.
    pub hash: ContentHash,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Permission bits. Copies have those for reading, writing and executing.
    pub mode: u32,
    /// File name without directories.
    pub name: OsBytes,
    /// Where each node puts it.
    pub destination: Destination,
}

/// The place of a shipped file on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destination {
    /// The job's own directory on the node, removed after the job.
    JobDirectory,
    /// An absolute path, written as the submitter and left there.
    Path(OsBytes),
    /// The job's directory, unless this absolute path, from which the program was read, has the
    /// same content on the node. Then the node executes the program at the path, because the
    /// program may open other files in its own directory.
    JobDirectoryUnlessAt(OsBytes),
}

impl Destination {
    /// Whether the job has the file in its directory.
    pub fn is_job_directory(&self) -> bool {
        match self {
            Destination::JobDirectory | Destination::JobDirectoryUnlessAt(_) => true,
            Destination::Path(_) => false,
        }
    }
}

/// The destination of standard output and error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputSpec {
    /// Sent to the client that is attached; lost when none is.
    Client,
    /// Written to files on the nodes, as the submitter. `%j` is the job, `%r`
    /// the rank, `%n` the node's name, `%%` a percent sign; relative to the
    /// working directory. Ranks that share a name append to one file.
    Files {
        /// Pattern for standard output.
        stdout: OsBytes,
        /// Pattern for standard error; that of standard output when absent.
        stderr: Option<OsBytes>,
    },
}

/// Treatment of output files that exist when a process opens them (Slurm `--open-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenMode {
    /// A file of one process is emptied. Ranks that share a file append to it, and so do jobs of an
    /// array that share a file, and a job whose file another job is writing.
    #[default]
    Usual,
    /// All processes append.
    Append,
    /// A file of one process is emptied, even if jobs of an array share it. Ranks that share a file
    /// append to it.
    Truncate,
}

/// The source of standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSpec {
    /// Nothing: end of file at once.
    None,
    /// Rank 0 reads what the client sends, the others nothing.
    RankZero,
    /// Every rank reads what the client sends.
    All,
    /// Every rank reads this file of its node, opened as the user; a pattern as those of output.
    File(OsBytes),
}

/// One resource limit, by its number in `getrlimit(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// `RLIMIT_*` number of the submitting system.
    pub resource: u32,
    /// Soft limit; `u64::MAX` is unlimited.
    pub soft: u64,
}
