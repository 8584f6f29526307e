//! What is wrong with a part of a job that the end of a Node Manager cut off.

use serde::{Deserialize, Serialize};

/// The defect of a part of a job that a former Node Manager left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CutLaunch {
    /// The Node Manager ended before it had started all ranks of the node and reported them to the
    /// keeper.
    Interrupted,
    /// Not all ranks could be reported to the keeper.
    NotKept,
}
