//! Changes of a job that was submitted.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_rm::Dependency;

/// The changes; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobChange {
    /// The new time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Duration>,
    /// The job has no time limit any more.
    pub no_time_limit: bool,
    /// Another partition to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// How much the user lowers the priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Another comment; an empty one takes the comment away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Other jobs to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<Dependency>,
    /// The job depends on no other job any more.
    pub no_dependency: bool,
}

impl JobChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == JobChange::default()
    }
}
