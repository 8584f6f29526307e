//! The priority of a job that waits, and its parts.

use super::UserView;
use serde::{Deserialize, Serialize};
use storm_rm::{ArrayTask, JobId};
use storm_sched::priority::Contributions;
use storm_sched::{Priority, PriorityUse};

/// One line of `storm priority`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityView {
    /// Its number.
    pub job: JobId,
    /// Which job of an array it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// The submitter.
    pub user: UserView,
    /// The partition that it waits for.
    pub partition: String,
    /// The account that is charged.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its priority: the sum of the factors' contributions, less its niceness.
    pub priority: Priority,
    /// How the partition's policy uses the priority.
    #[serde(default)]
    pub counts: PriorityUse,
    /// The contribution of each factor.
    pub factors: Contributions,
    /// The niceness, which its user chose to subtract.
    pub nice: i32,
}

impl PriorityView {
    /// How users name it: `7`, or `7_3` for a job of an array.
    pub fn job_name(&self) -> String {
        self.array.map_or_else(|| self.job.to_string(), |task| task.to_string())
    }
}
