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
    /// The job's place in its array, if it belongs to an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// Its state.
    pub state: JobState,
    /// The reason, in one sentence.
    pub reason: String,
    /// The facts behind the reason, a line each.
    pub details: Vec<String>,
    /// For a job that waits for processing elements: some of the jobs that hold them. The jobs that
    /// end first are listed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<Holder>,
    /// For a job that waits: others' reservations of nodes that it could otherwise have, at a time
    /// when it could be running. Its estimated start leaves these nodes out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<ReservedNodes>,
    /// When it should start at the latest, where the policy can compute it.
    pub estimate: Option<Timestamp>,
}
