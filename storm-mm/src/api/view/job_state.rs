//! The states of a job, in Slurm's words.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The state of a job, as users and scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Waiting for processing elements, or its files are on their way.
    Pending,
    /// Its processes exist; under gang scheduling they run in their row.
    Running,
    /// Its processes are stopped while others have its processing elements.
    Suspended,
    /// Every rank exited with 0.
    Completed,
    /// Some rank exited otherwise, or could not be started.
    Failed,
    /// Ended on request.
    Cancelled,
    /// Ended at its time limit.
    Timeout,
    /// Ended because a node of it died.
    NodeFail,
    /// Ended because a job of another quality of service got its processing elements.
    Preempted,
    /// Ended because a process took more memory than the job has on its node.
    OutOfMemory,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [JobState; 10] = [
        JobState::Pending,
        JobState::Running,
        JobState::Suspended,
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Timeout,
        JobState::NodeFail,
        JobState::Preempted,
        JobState::OutOfMemory,
    ];

    /// The word that users and scripts see.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Pending => "PENDING",
            JobState::Running => "RUNNING",
            JobState::Suspended => "SUSPENDED",
            JobState::Completed => "COMPLETED",
            JobState::Failed => "FAILED",
            JobState::Cancelled => "CANCELLED",
            JobState::Timeout => "TIMEOUT",
            JobState::NodeFail => "NODE_FAIL",
            JobState::Preempted => "PREEMPTED",
            JobState::OutOfMemory => "OUT_OF_MEMORY",
        }
    }

    /// Whether the job is over.
    pub fn is_final(self) -> bool {
        match self {
            JobState::Pending | JobState::Running | JobState::Suspended => false,
            JobState::Completed
            | JobState::Failed
            | JobState::Cancelled
            | JobState::Timeout
            | JobState::NodeFail
            | JobState::Preempted
            | JobState::OutOfMemory => true,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Not the name of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a job state: PENDING, RUNNING, SUSPENDED, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, PREEMPTED and OUT_OF_MEMORY are"
)]
pub struct NotAState(pub String);

impl FromStr for JobState {
    type Err = NotAState;

    fn from_str(text: &str) -> Result<JobState, NotAState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| NotAState(text.to_owned()))
    }
}
