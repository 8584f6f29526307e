//! The mechanism that runs the processes of a job at the same time when several jobs share
//! processors.

use crate::policies::{fcs, ics, local, pb};
use serde::{Deserialize, Serialize};

/// The mechanism by which the processes of a job run at the same time. A policy chooses it, and the
/// Machine Manager informs the nodes of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coscheduling {
    /// Jobs have their processors to themselves, or strobes switch all nodes at once.
    #[default]
    Strobed,
    /// The processes decide: they wait for messages only for a time before they give up their
    /// processors (implicit coscheduling).
    Implicit,
    /// No coscheduling: each node's operating system schedules on its own.
    Local,
    /// The nodes decide: from time to time they prefer processes that have unread messages
    /// (periodic boost).
    PeriodicBoost,
    /// Strobes switch all nodes at once, for the processes that need it. Each node gives the rest
    /// of the time to other processes (flexible coscheduling).
    Flexible,
}

impl Coscheduling {
    /// The only policy with this coscheduling. `None` if several have it.
    #[must_use]
    pub fn policy(self) -> Option<&'static str> {
        match self {
            Self::Strobed => None,
            Self::Implicit => Some(ics::NAME),
            Self::Local => Some(local::NAME),
            Self::PeriodicBoost => Some(pb::NAME),
            Self::Flexible => Some(fcs::NAME),
        }
    }

    /// Whether the jobs of all rows run at once, without strobes.
    #[must_use]
    pub fn at_once(self) -> bool {
        match self {
            Self::Strobed | Self::Flexible => false,
            Self::Implicit | Self::Local | Self::PeriodicBoost => true,
        }
    }
}
