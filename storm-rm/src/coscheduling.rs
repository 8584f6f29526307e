//! How the processes of a job come to run at the same time, as its nodes are told.

use serde::{Deserialize, Serialize};

/// The mechanism that coschedules jobs which share processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coscheduling {
    /// The strobes of the Machine Manager; or the job has its processors to itself.
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
    /// The strobes, for processes that need it; others use what those of the active row leave
    /// (flexible coscheduling).
    Flexible,
}

impl Coscheduling {
    /// Whether the jobs of all rows run at once, without strobes.
    pub fn at_once(self) -> bool {
        match self {
            Coscheduling::Strobed | Coscheduling::Flexible => false,
            Coscheduling::Implicit | Coscheduling::Local | Coscheduling::PeriodicBoost => true,
        }
    }
}
