//! The result of changing a job, under the name that the user typed.

use serde::Serialize;
use storm_mm::api::ApiError;
use storm_rm::JobId;

/// The result for one of the named jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Changed {
    /// The job's number, or its array's; `None` if there is no such job.
    pub(crate) id: Option<JobId>,
    /// The name as typed: `7`, or `7_3`.
    pub(crate) name: String,
    /// Why the job was not changed; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ApiError>,
}
