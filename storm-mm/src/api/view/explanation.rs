//! Why a job does not run.

use super::{Holder, JobState, ReservedNodes};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::{ArrayTask, JobId};

/// A true and specific answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The job.
    pub job: JobId,
    /// What it is of an array, if it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// Its state.
    pub state: JobState,
    /// The reason, in one sentence.
    pub reason: String,
    /// What the reason rests on, a line each.
    pub details: Vec<String>,
    /// Of a job that waits for processing elements: jobs that hold such, those first that end
    /// first, and no more than are worth a look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<Holder>,
    /// Of a job that waits: the reservations of others that have nodes which it could have, in a
    /// time in which it could be running. Its start is reckoned without those nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<ReservedNodes>,
    /// When it should start at the latest, where the policy can tell.
    pub estimate: Option<Timestamp>,
}
