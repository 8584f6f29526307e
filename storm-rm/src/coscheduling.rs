//! How the processes of a job come to run at the same time, as its nodes are told.

use serde::{Deserialize, Serialize};

/// The mechanism that coschedules jobs which share processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coscheduling {
    /// The Machine Manager's strobes, or none: the job has its processors to itself.
    #[default]
    Strobed,
    /// The processes themselves, by how long they wait before they give their processors away
    /// (implicit coscheduling).
    Implicit,
    /// None: the operating system of each node decides by itself.
    Local,
    /// The nodes: now and then they put processes with unread messages first (periodic boost).
    PeriodicBoost,
    /// The strobes, for processes that need them; others use the time that the active row's
    /// processes leave (flexible coscheduling).
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
