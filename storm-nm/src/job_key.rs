//! The name of one run of a job on this node.

use std::fmt;
use storm_rm::{JobId, JobIncarnation};

/// A job and which run of it: news of an earlier run is never taken for news of
/// a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The job.
    pub job: JobId,
    /// Which run of it.
    pub incarnation: JobIncarnation,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.incarnation.0)
    }
}
