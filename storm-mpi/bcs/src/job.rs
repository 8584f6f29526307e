//! Jobs and their ranks, as the engine names them.

use serde::{Deserialize, Serialize};
use storm_mpi::Rank;

/// One run of a job. The manager gives each run another, so that nothing of an earlier run can be
/// taken for news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey(pub u64);

/// A rank of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The job.
    pub job: JobKey,
    /// The rank in it.
    pub rank: Rank,
}
