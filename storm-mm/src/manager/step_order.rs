//! Orders to the nodes about a step that a job starts in its place.

use std::rc::Rc;
use storm_primitives::NodeSet;
use storm_rm::message::NodeRanks;
use storm_rm::{FileSpec, JobIncarnation, JobSlot, Owner, StepRef, StepSize, StepSpec};

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
    /// Start the ranks.
    Launch(StepLaunch),
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

/// Facts that a node needs to start the ranks of a step, besides those of the place.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLaunch {
    /// Its place in the arrays of flags.
    pub slot: JobSlot,
    /// The program, with its surroundings.
    pub spec: Rc<StepSpec>,
    /// The elements and the memory that it has.
    pub size: StepSize,
    /// Its ranks on every node.
    pub ranks: Vec<NodeRanks>,
}
