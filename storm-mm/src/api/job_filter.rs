//! Which jobs a listing has, and what it tells of them.

use super::{JobState, Part};
use serde::{Deserialize, Serialize};
use storm_rm::JobId;

/// The jobs to list; an empty list is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// Only in these states.
    pub states: Vec<JobState>,
    /// Only of these users, by number; or of those of [`users`](Self::users).
    pub uids: Vec<u32>,
    /// Only of these users, as the manager's host calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Only these jobs.
    pub jobs: Vec<JobId>,
    /// Also the jobs that have ended.
    pub history: bool,
    /// With each job's [attributes](super::JobView::attributes).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attributes: bool,
    /// With the further [steps](super::JobView::steps) of each job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steps: bool,
    /// Only this part; all jobs when it is absent. Set by the server, never by a client.
    #[serde(skip)]
    pub part: Option<Part>,
}

/// The ended jobs to list, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryQuery {
    /// Only those that ended in these states; an empty list is no restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<JobState>,
    /// Only of these users; an empty list is no restriction, provided that the list of
    /// [`users`](Self::users) is empty too.
    pub uids: Vec<u32>,
    /// Only of these users, as the manager's host calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Only these jobs; an empty list is no restriction.
    pub jobs: Vec<JobId>,
    /// At most this many.
    pub limit: u32,
    /// With each job's [attributes](super::JobView::attributes).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attributes: bool,
    /// With the further [steps](super::JobView::steps) of each job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steps: bool,
    /// Only this part; all when it is absent. For the server only: no client can send it.
    #[serde(skip)]
    pub part: Option<Part<u64>>,
}

impl HistoryQuery {
    /// The default: as many lines as a person reads.
    pub const DEFAULT_LIMIT: u32 = 100;
}

impl Default for HistoryQuery {
    fn default() -> HistoryQuery {
        HistoryQuery {
            states: Vec::new(),
            uids: Vec::new(),
            users: Vec::new(),
            jobs: Vec::new(),
            limit: Self::DEFAULT_LIMIT,
            attributes: false,
            steps: false,
            part: None,
        }
    }
}
