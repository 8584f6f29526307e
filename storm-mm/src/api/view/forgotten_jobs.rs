//! A summary of the jobs of an array that the history has no room for.

use serde::{Deserialize, Serialize};
use storm_rm::JobId;

/// The ended jobs of an array that are no longer remembered individually, while other jobs of the
/// array are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenJobs {
    /// The array.
    pub array: JobId,
    /// How many jobs it has.
    pub size: u32,
    /// How many of them are forgotten.
    pub jobs: u32,
    /// How many of these did not end `COMPLETED`.
    pub failed: u32,
    /// The highest status of these, as a shell gives it.
    pub exit_code: u8,
}
