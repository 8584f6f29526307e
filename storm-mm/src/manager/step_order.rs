//! Orders to the nodes about a step that a job starts in its place.

use super::Launch;
use std::rc::Rc;
use storm_primitives::NodeSet;
use storm_rm::{FileSpec, JobIncarnation, Owner, StepRef};

/// An order about a step, to be carried out as the order of the same name about a job is.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOrder {
    /// The step.
    pub step: StepRef,
    /// Its run.
    pub run: JobIncarnation,
    /// The nodes that are to do it.
    pub nodes: NodeSet,
    /// The order.
    pub kind: StepOrderKind,
}

/// The orders.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOrderKind {
    /// Bring these files to the nodes; answer with [`Core::staged`](super::Core::staged).
    Stage {
        /// The files, the program first.
        files: Vec<FileSpec>,
        /// The owner of the files.
        owner: Owner,
    },
    /// The files are not needed any more.
    AbandonStaging,
    /// Start the ranks; the active row is entered when the order leaves.
    Launch(Rc<Launch>),
    /// Send the ranks a signal.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// Kill the ranks. A node that has not begun to start them does not.
    Destroy,
    /// The step is over everywhere: forget it.
    Release,
}
