//! A client follows a job, with its first step, or a further step of a job.

use storm_rm::{JobId, StepAsk};

/// A job or a step that a client follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Followed {
    /// A job: its states, and the output of its first step.
    Job(JobId),
    /// A further step. It has no number of its own while it waits.
    Step(JobId, StepAsk),
}
