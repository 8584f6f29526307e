//! A job in a listing.

use super::{JobAttributes, JobState, StepView};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::{ArrayTask, JobId, Remarks, Resources, Row};

/// One line of `storm queue`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Its number.
    pub id: JobId,
    /// Which job of an array it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// The most jobs of its array that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_limit: Option<u32>,
    /// Its name.
    pub name: String,
    /// The submitter.
    pub user: UserView,
    /// The partition it waits for or runs in.
    pub partition: String,
    /// The partition's policy.
    pub sched: String,
    /// Its state.
    pub state: JobState,
    /// Number of ranks.
    pub procs: u32,
    /// The resources that it requests from its nodes in addition to processing elements.
    #[serde(default)]
    pub resources: Resources,
    /// The number of nodes that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_asked: Option<u32>,
    /// Number of nodes; 0 until it is placed.
    pub nodes: u32,
    /// The nodes, folded: `n[1-4]`; empty until it is placed.
    pub node_list: String,
    /// Its row of the Ousterhout matrix, when it has a single one.
    pub row: Option<Row>,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When its ranks started, for the latest run.
    pub started: Option<Timestamp>,
    /// When the last rank ended.
    pub ended: Option<Timestamp>,
    /// Seconds since it started; for an ended job, from its start to its end.
    pub elapsed_s: u64,
    /// Seconds of these in which its row was active; the time limit bounds these.
    #[serde(default)]
    pub ran_s: u64,
    /// Its time limit in seconds.
    pub time_limit_s: Option<u64>,
    /// The user's remarks: a comment, and the key under which the user counts the job.
    #[serde(default, skip_serializing_if = "Remarks::is_empty")]
    pub remarks: Remarks,
    /// Why it is in this state: why it waits, or how it ended.
    pub reason: Option<String>,
    /// Why it waits, in Slurm's word: `Resources`. Absent if it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<String>,
    /// Whether its processes are being ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// While it waits: when it should start at the latest, where its policy can compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Timestamp>,
    /// Highest status of its ranks as a shell gives it, once it has ended.
    pub exit_code: Option<u8>,
    /// Further facts, if the request asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Box<JobAttributes>>,
    /// The steps that it started in its place, if the request asked for them: those that are not
    /// over, and the latest that are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// In a part of a listing of ended jobs: the job's place in the order of ending, after which
    /// the next part begins. The job's number would not do, since the job may be forgotten by then.
    /// Only core and server see the place, no client.
    #[serde(skip)]
    pub place: Option<u64>,
}

impl JobView {
    /// How users name it: `7`, or `7_3` for a job of an array.
    pub fn job_name(&self) -> String {
        self.array.map_or_else(|| self.id.to_string(), |task| task.to_string())
    }

    /// The space that it takes in a reply, roughly, in bytes.
    pub(crate) fn weight_bytes(&self) -> usize {
        const NUMBERS: usize = 512;
        let asked = &self.resources;
        let texts = [
            Some(&self.name),
            Some(&self.node_list),
            self.reason.as_ref(),
            self.remarks.comment.as_ref(),
            self.remarks.wckey.as_ref(),
            asked.constraint.as_ref(),
            asked.required_nodes.as_ref(),
            asked.excluded_nodes.as_ref(),
        ];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let steps = self.steps.iter().map(StepView::weight_bytes).sum::<usize>();
        NUMBERS + texts + steps + self.attributes.as_ref().map_or(0, |facts| facts.weight_bytes())
    }
}

/// A user by number and, where the host's user database has it, name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserView {
    /// User id.
    pub uid: u32,
    /// Login name; the number where there is none.
    pub name: String,
}
