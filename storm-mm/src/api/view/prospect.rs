//! The fate of a job that is not submitted: when and where it would start.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::JobId;

/// The answer about a job that is not submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prospect {
    /// The number that it would get.
    pub job: JobId,
    /// The partition that it would wait for or run in.
    pub partition: String,
    /// When it would start; absent if it would wait, as only a policy that has the job plans it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
}
