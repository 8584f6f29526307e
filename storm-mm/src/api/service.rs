//! On whose account a job runs, and how urgent it is.
//!
//! What this does not do: say what accounts and classes there are. The configuration
//! does ([`crate::ServiceConfig`]).

use serde::{Deserialize, Serialize};

/// What a submission says of the service that it wants; in a job's record, what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    /// The account that is charged; the user's own one when it is absent.
    pub account: Option<String>,
    /// The quality of service; the default one, if there is one, when it is absent.
    pub qos: Option<String>,
    /// Taken away from the job's priority. Below 0 for administrators only.
    pub nice: i32,
}
