//! Names a run of a step on this node.

use std::fmt;
use storm_rm::{JobIncarnation, StepRef};

/// A step and its run, so that an event of an earlier run is never taken for an event of a later
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The step.
    pub step: StepRef,
    /// The run.
    pub incarnation: JobIncarnation,
}

impl JobKey {
    /// A name for files of the run. Steps of a job have different runs.
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.step.job, self.incarnation.0)
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.step, self.incarnation.0)
    }
}
