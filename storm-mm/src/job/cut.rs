//! Launches that the end of a Node Manager cuts off
//! (`docs/decisions/0141-cut-launches-are-done-again.md`).

use serde::{Deserialize, Serialize};
use std::fmt;
use storm_rm::message::CutLaunch;

/// The most launches of a job in a row, if Node Managers end during each. Without this limit, a
/// node whose Node Manager dies of a launch would get the same job for ever. An upgrade of the
/// nodes, one after the other, meets a launch once or twice.
pub const MAX_LAUNCHES: u32 = 5;

/// The work of a Node Manager that its end cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// The Node Manager was receiving files.
    Staging,
    /// The Node Manager was starting the ranks.
    Launch,
    /// The Node Manager had started the ranks, but could not register all of them with its keeper.
    NotKept,
    /// The Node Manager moved the messages of the ranks in slices: no part of the job outlives the
    /// Node Manager.
    Slices,
}

impl From<CutLaunch> for Cut {
    fn from(cut: CutLaunch) -> Cut {
        match cut {
            CutLaunch::Interrupted => Cut::Launch,
            CutLaunch::NotKept => Cut::NotKept,
        }
    }
}

impl Cut {
    /// Writes what happened, for users.
    pub(super) fn write(self, node: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Staging => {
                write!(f, "the Node Manager of {node} ended while the job's files were sent to it")
            }
            Cut::Launch => {
                write!(f, "the Node Manager of {node} ended while it launched the ranks")
            }
            Cut::Slices => write!(
                f,
                "the Node Manager of {node}, which moved the messages of the job's ranks in \
                 slices, has ended or lost its link"
            ),
            Cut::NotKept => write!(
                f,
                "the Node Manager of {node} ended, and its keeper could not be told of all ranks \
                 (the log of that Node Manager says why)"
            ),
        }
    }
}
