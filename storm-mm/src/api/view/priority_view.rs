//! The priority of a job that waits, and what it is made of.

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
    /// Who submitted it.
    pub user: UserView,
    /// The partition that it waits for.
    pub partition: String,
    /// The account that is charged.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its priority: what the factors contribute, less its niceness.
    pub priority: Priority,
    /// What it counts for under the policy of the partition.
    #[serde(default)]
    pub counts: PriorityUse,
    /// What each factor contributes.
    pub factors: Contributions,
    /// What its user took away.
    pub nice: i32,
}

impl PriorityView {
    /// How users name it: `7`, or `7_3` for a job of an array.
    pub fn job_name(&self) -> String {
        self.array.map_or_else(|| self.job.to_string(), |task| task.to_string())
    }
}
