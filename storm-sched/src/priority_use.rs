//! What the priority of a job that waits counts for, under a policy.

use serde::{Deserialize, Serialize};

/// Where priorities decide who starts next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriorityUse {
    /// Everywhere: the most urgent job is the next to start, and jobs that pass it are looked at
    /// in the order of their priorities.
    #[default]
    Always,
    /// The most urgent job is the next to start; jobs that pass it go by their time limits.
    First,
    /// The job with the shortest time limit is the next to start; priorities decide among equals.
    AmongEqualLimits,
}
