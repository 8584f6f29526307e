//! Which jobs may have the PEs of which others: what a job's quality of service means to
//! a policy.
//!
//! What this does not do: know the names of the qualities, or who may have them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A quality of service, by its number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct QosId(pub u16);

/// What becomes of a job whose PEs another one gets (Slurm's `PreemptMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptMode {
    /// It is stopped, keeps its memory, and goes on when its PEs are free again.
    Suspend,
    /// It is ended and waits again.
    Requeue,
    /// It is ended.
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

/// What the quality of service of a job means to others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Precedence {
    /// Its quality of service.
    pub qos: QosId,
    /// Those whose jobs it may preempt.
    pub preempts: Vec<QosId>,
    /// What becomes of it when it is preempted; `None`: it never is.
    pub mode: Option<PreemptMode>,
}

impl Precedence {
    /// Whether a job of this precedence goes before one of another.
    #[must_use]
    pub fn is_over(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| self.preempts.contains(&other.qos))
    }
}
