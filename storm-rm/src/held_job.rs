//! The parts of jobs that nodes hold over the end of a daemon.

use crate::{JobIncarnation, StepRef};
use serde::{Deserialize, Serialize};

/// A run of a step that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJob {
    /// The step.
    pub step: StepRef,
    /// Which run of it.
    pub incarnation: JobIncarnation,
}

/// The defect of a part of a job that a former Node Manager left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CutLaunch {
    /// The Node Manager ended before it had started all ranks of the node and reported them to the
    /// keeper.
    Interrupted,
    /// Not all ranks could be reported to the keeper.
    NotKept,
}
