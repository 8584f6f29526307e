//! The end of a job, as a command reports it.

use storm_mm::api::{JobState, LaunchBreakdown};
use storm_rm::{JobId, StepId, StepRef};

/// How a followed job ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) job: JobId,
    /// The number of the step, if it is a further step of the job. A step that never began has
    /// none.
    pub(crate) step: Option<Option<u32>>,
    /// Its final state.
    pub(crate) state: JobState,
    /// Its exit status.
    pub(crate) exit_code: u8,
    /// Our exit status, if we cancelled it.
    pub(crate) interrupted: Option<u8>,
    /// The reason of its end.
    pub(crate) reason: Option<String>,
    /// How long its launch took.
    pub(crate) breakdown: Option<LaunchBreakdown>,
    /// The nodes on which it ran.
    pub(crate) node_list: Option<String>,
    /// Whether a rank of Open MPI reported that it found no PMIx server.
    pub(crate) without_pmix: bool,
}

impl Outcome {
    /// The job, or the step of it, in words.
    pub(crate) fn name(&self) -> String {
        match self.step {
            None => format!("job {}", self.job),
            Some(None) => format!("the step of job {}", self.job),
            Some(Some(number)) => {
                format!("step {}", StepRef { job: self.job, step: StepId::Number(number) })
            }
        }
    }
}
