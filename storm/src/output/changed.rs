//! What became of the wish to change a job, under the name that the user gave it.

use serde::Serialize;
use storm_mm::api::ApiError;
use storm_rm::JobId;

/// One job of those that were named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Changed {
    /// Its number, or that of its array; none if there is no such job.
    pub(crate) id: Option<JobId>,
    /// As it was typed: `7`, or `7_3`.
    pub(crate) name: String,
    /// Why not; absent when it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ApiError>,
}
