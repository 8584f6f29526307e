//! The meaning of a job's quality of service to a policy: which jobs may preempt which.
//!
//! This module does not know the names of the qualities, nor who may use them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A quality of service, by number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct QosId(pub u16);

/// The fate of a job whose PEs another job gets (Slurm's `PreemptMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptMode {
    /// The job is stopped, keeps its memory, and continues when its PEs are free again.
    Suspend,
    /// The job is ended and waits again.
    Requeue,
    /// The job is ended.
    Cancel,
}

impl fmt::Display for PreemptMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Suspend => "suspend",
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
        })
    }
}

/// The meaning of a job's quality of service to other jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Precedence {
    /// The quality of service.
    pub qos: QosId,
    /// The qualities whose jobs this quality may preempt.
    pub preempts: Vec<QosId>,
    /// The fate of the job when it is preempted. `None`: it is never preempted.
    pub mode: Option<PreemptMode>,
}

impl Precedence {
    /// Whether a job of this precedence precedes a job of another.
    #[must_use]
    pub fn is_over(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| self.preempts.contains(&other.qos))
    }
}
