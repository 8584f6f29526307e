//! The account that is charged for a job, and the job's urgency.
//!
//! The existing accounts and classes are not defined here but in the configuration
//! ([`crate::ServiceConfig`]).

use serde::{Deserialize, Serialize};

/// The service that a submission requests; in a job's record, the service that the job has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    /// The account that is charged; the user's own one when it is absent.
    pub account: Option<String>,
    /// The quality of service; the default one, if there is one, when it is absent.
    pub qos: Option<String>,
    /// Subtracted from the job's priority. Below 0 for administrators only.
    pub nice: i32,
}
