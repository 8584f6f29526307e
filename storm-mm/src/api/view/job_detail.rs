//! Everything about one job.

use super::{JobPartView, JobView, LaunchBreakdown};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::message::RankExit;
use storm_rm::{
    EarlySignal, FirstStep, InputSpec, JobSpec, Needs, OpenMode, OsBytes, OutputSpec, ProcessClass,
    ProcessFigures, Program, Rank,
};

/// The answer to `storm show`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobDetail {
    /// The line that listings show.
    #[serde(flatten)]
    pub view: JobView,
    /// The request.
    pub spec: SpecSummary,
    /// Where each rank runs and how it ended; empty until it is placed.
    pub ranks: Vec<RankView>,
    /// Its part of each of its nodes, once placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<JobPartView>,
    /// How long each part of its launch took, once it was launched.
    pub breakdown: Option<LaunchBreakdown>,
    /// User and system time of all ended ranks, in microseconds.
    pub cpu_us: u64,
    /// The account that is charged for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its quality of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The reservation that it was submitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Where its partition is coscheduled: how its ranks communicate, and the service that programs
    /// which communicate otherwise do not get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<String>,
    /// Where its partition uses flexible coscheduling: the number of ranks in each class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
    /// How often it was started.
    pub runs: u32,
    /// The events of its life, in order.
    pub log: Vec<LogEntry>,
}

/// S_ISUID and S_ISGID (inode(7)).
const SET_ID_BITS: u32 = 0o6000;

/// The request, without the environment, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecSummary {
    /// The program: a shipped file's name, or a path on the nodes.
    pub program: OsBytes,
    /// The program is shipped to the nodes.
    pub shipped: bool,
    /// The argument vector.
    pub argv: Vec<OsBytes>,
    /// The first step, which runs in the job's place.
    #[serde(default)]
    pub first: FirstStep,
    /// Working directory.
    pub cwd: OsBytes,
    /// Number of nodes, when given.
    pub nodes: Option<u32>,
    /// Partition, when given.
    pub partition: Option<String>,
    /// Policy, when given.
    pub sched: Option<String>,
    /// Bytes of all files to ship, the program included.
    pub shipped_bytes: u64,
    /// Names of the further files to ship.
    pub files: Vec<OsBytes>,
    /// Shipped files that have a set-user-ID or set-group-ID bit, which their copies lose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_set_id: Vec<OsBytes>,
    /// Where the output is written.
    pub output: OutputSpec,
    /// Treatment of output files that exist.
    #[serde(default)]
    pub open_mode: OpenMode,
    /// The signal that it gets ahead of its time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_signal: Option<EarlySignal>,
    /// The ranks' input.
    pub input: InputSpec,
    /// Whether it returns to the queue when a node dies.
    pub requeue: bool,
    /// The needs in addition to processing elements.
    #[serde(default)]
    pub needs: Needs,
}

impl From<&JobSpec> for SpecSummary {
    fn from(spec: &JobSpec) -> SpecSummary {
        let (program, program_bytes) = match &spec.step.program {
            Program::Shipped(file) => (file.name.clone(), Some(file.size_bytes)),
            Program::OnNodes(path) => (path.clone(), None),
        };
        SpecSummary {
            program,
            shipped: program_bytes.is_some(),
            argv: spec.step.argv.clone(),
            first: spec.first,
            cwd: spec.step.cwd.clone(),
            nodes: spec.nodes,
            partition: spec.partition.clone(),
            sched: spec.sched.clone(),
            shipped_bytes: spec
                .step
                .files
                .iter()
                .map(|file| file.size_bytes)
                .chain(program_bytes)
                .fold(0, u64::saturating_add),
            files: spec.step.files.iter().map(|file| file.name.clone()).collect(),
            without_set_id: without_set_id(spec).cloned().collect(),
            output: spec.step.output.clone(),
            open_mode: spec.step.open_mode,
            early_signal: spec.early_signal,
            input: spec.step.input.clone(),
            requeue: spec.requeue,
            needs: spec.needs.clone(),
        }
    }
}

/// The names of the shipped files that lose their set-user-ID or set-group-ID bit. A node grants
/// nobody the rights of a file's owner for a file that a user sent.
pub fn without_set_id(spec: &JobSpec) -> impl Iterator<Item = &OsBytes> {
    let program = match &spec.step.program {
        Program::Shipped(file) => Some(file),
        Program::OnNodes(_) => None,
    };
    let files = program.into_iter().chain(&spec.step.files);
    files.filter(|file| file.mode & SET_ID_BITS != 0).map(|file| &file.name)
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankView {
    /// The rank.
    pub rank: Rank,
    /// The name of its node.
    pub node: String,
    /// How it ended and what it used; absent while it runs.
    pub exit: Option<RankExit>,
    /// The rank's class under flexible coscheduling, as its node last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassView>,
}

/// A rank's class under flexible coscheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassView {
    /// Its class.
    pub class: ProcessClass,
    /// Since when it has had it.
    pub since: Timestamp,
    /// The figures of the last judgement; absent until the rank has been watched for long enough.
    pub figures: Option<ProcessFigures>,
}

/// One event of a job's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When.
    pub time: Timestamp,
    /// The kind of event, in one word.
    pub event: String,
    /// The event in a sentence.
    pub text: String,
}
