//! The mechanism that runs the processes of a job at the same time when several jobs share
//! processors.

use crate::policies::{fcs, ics, local, pb};

/// How the processes of a job come to run together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coscheduling {
    /// Jobs have their processors to themselves, or strobes switch all nodes at once.
    #[default]
    Strobed,
    /// They themselves, by how long they wait before they give their processors away
    /// (implicit coscheduling).
    Implicit,
    /// Nobody: the operating system of each node by itself.
    Local,
    /// The nodes, which now and then put processes first that have unread messages
    /// (periodic boost).
    PeriodicBoost,
    /// Strobes switch all nodes at once, for the processes that need it; the nodes let others use
    /// what those leave (flexible coscheduling).
    Flexible,
}

impl Coscheduling {
    /// The policy of this kind; `None` where several are.
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
}
