//! The holders of the elements that a job waits for.

use super::JobState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::{ArrayTask, JobId};

/// A job on the machine that holds processing elements which another job waits for. Its owner and
/// program are left out here: a listing of jobs shows them to users that may see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The job.
    pub job: JobId,
    /// The job's place in its array, if it belongs to an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTask>,
    /// Whether its user is that of the waiting job.
    pub same_user: bool,
    /// Its state.
    pub state: JobState,
    /// Processing elements that it holds.
    pub pes: u32,
    /// When it must have ended, by its time limit; `None` without a limit, or if it does not run
    /// all the time.
    pub until: Option<Timestamp>,
}
