//! A step as the listing commands see it.

use super::{ExitCode, JobFacts, StateCode};
use jiff::Timestamp;

/// Facts about a step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// `batch`, or its number.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: StateCode,
    /// Its nodes, folded.
    pub node_list: String,
    /// The number of its nodes.
    pub nodes: u32,
    /// Its tasks.
    pub tasks: u32,
    /// Its processing elements.
    pub cpus: u32,
    /// How long it ran.
    pub ran_s: u64,
    /// How long it was suspended, or out of its row.
    pub suspended_s: u64,
    /// When it started.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub exit: ExitCode,
    /// Its resource use, once it has ended.
    pub used: Option<StepUse>,
    /// Its job.
    pub job: JobFacts,
}

/// Resource use of the tasks of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepUse {
    /// Processor time of users' code, in microseconds.
    pub user_us: u64,
    /// Processor time of the kernel, in microseconds.
    pub system_us: u64,
    /// The largest resident set of a task, in KiB.
    pub max_rss_kib: u64,
    /// The node of this task.
    pub max_rss_node: String,
    /// The number of this task.
    pub max_rss_task: u32,
    /// The average of the resident sets, in KiB.
    pub average_rss_kib: u64,
    /// The least processor time of a task, in microseconds.
    pub min_cpu_us: u64,
    /// The node of this task.
    pub min_cpu_node: String,
    /// The number of this task.
    pub min_cpu_task: u32,
}
