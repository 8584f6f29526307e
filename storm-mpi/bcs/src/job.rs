//! Names of jobs and their ranks in the engine.

use serde::{Deserialize, Serialize};
use storm_mpi::Rank;

/// One run of a job. The manager gives each run another key, so no data of an earlier run is taken
/// for data of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey(pub u64);

/// A rank of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The job.
    pub job: JobKey,
    /// The rank in the job.
    pub rank: Rank,
}
