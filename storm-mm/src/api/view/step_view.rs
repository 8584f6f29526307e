//! A step in a listing.

use super::JobState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storm_rm::StepId;
use storm_rm::message::ExitStatus;

/// A step that a job started in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    /// Its name among the steps of its job.
    pub step: StepId,
    /// The name of its program.
    pub name: String,
    /// Its state. A step that has its elements is `PENDING` until all of its ranks execute.
    pub state: JobState,
    /// Number of its ranks.
    pub procs: u32,
    /// The processing elements of its ranks.
    pub elements: u32,
    /// Number of its nodes.
    pub nodes: u32,
    /// Its nodes, folded.
    pub node_list: String,
    /// When it got its elements.
    pub began: Timestamp,
    /// When all of its ranks executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When its last rank ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Seconds since it started; for an ended step, from its start to its end.
    pub elapsed_s: u64,
    /// Its time limit in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// Whether its processes are being ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// Why it ends or has ended, if it did not end by itself with status 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Highest status of its ranks as a shell gives it, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The status of the rank with the highest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// User CPU time of all ranks in microseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_us: Option<u64>,
    /// System CPU time of all ranks in microseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_us: Option<u64>,
    /// Largest resident set of a rank in KiB, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rss_kib: Option<u64>,
}

impl StepView {
    /// The space that it takes in a reply, roughly, in bytes.
    pub(crate) fn weight_bytes(&self) -> usize {
        const NUMBERS: usize = 512;
        let reason = self.reason.as_ref().map_or(0, String::len);
        NUMBERS + self.name.len() + self.node_list.len() + reason
    }
}
