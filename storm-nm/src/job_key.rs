//! Names a run of a job on this node.

use std::fmt;
use storm_rm::{JobId, JobIncarnation};

/// A job and its run, so that an event of an earlier run is never taken for an event of a later
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The job.
    pub job: JobId,
    /// The run.
    pub incarnation: JobIncarnation,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.incarnation.0)
    }
}
