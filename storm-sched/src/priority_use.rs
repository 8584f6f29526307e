//! The effect of a waiting job's priority under a policy.

use serde::{Deserialize, Serialize};

/// Where priorities decide which job starts next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriorityUse {
    /// Everywhere: the most urgent job starts next, and jobs that may pass it are tried in the
    /// order of their priorities.
    #[default]
    Always,
    /// The most urgent job starts next. Jobs that may pass it are ordered by their time limits.
    First,
    /// The job with the shortest time limit starts next. Priorities decide among equals.
    AmongEqualLimits,
}
