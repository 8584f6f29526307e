//! Facts that processes learn about their job besides its specification.

use serde::{Deserialize, Serialize};

/// Facts that only the manager knows. Processes find them in variables, such as
/// `SLURM_JOB_PARTITION`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchFacts {
    /// The name of the cluster.
    pub cluster: String,
    /// The partition that the job runs in.
    pub partition: String,
    /// The account that is charged.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// How often the job was started before.
    pub restarts: u32,
}
