//! The events of a step that a job starts in its place, as the journal holds them. First steps have
//! none: the job's own events are theirs.

use super::{EndCause, Outcome, PartEnd};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::NodeRanks;
use storm_rm::{JobIncarnation, StepAsk, StepSize, StepSpec};

/// Something that happened to a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StepEvent {
    /// The step has elements of the place. Durable before anything leaves for the nodes.
    Began {
        /// The number of this run, from the counter of the runs of all jobs.
        run: JobIncarnation,
        /// The number by which its client finds it.
        ask: StepAsk,
        /// The elements and the memory that it has.
        size: StepSize,
        /// The program, with its surroundings.
        spec: Rc<StepSpec>,
        /// Its ranks on every node, consecutive.
        ranks: Vec<NodeRanks>,
    },
    /// All its ranks execute.
    Started,
    /// Its processes are being ended.
    Ending {
        /// Why.
        cause: EndCause,
    },
    /// The part of a node is over, and the node is lost: its next incarnation does not have the
    /// part.
    PartOver {
        /// The node.
        node: NodeId,
        /// How it ended.
        end: PartEnd,
    },
    /// The step is over. The entry replaces the others of the step.
    Ended {
        /// The number of the next step of the place.
        next: u32,
        /// The latest run of any job when the step ended: this entry may be the only one left.
        latest_run: JobIncarnation,
        /// The rest of the step's record.
        step: Box<EndedStep>,
    },
}

/// A step that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedStep {
    /// The number by which its client finds it.
    pub ask: StepAsk,
    /// The number of its processes.
    pub procs: u32,
    /// When it began.
    pub began: Timestamp,
    /// When all its ranks executed, if they did.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// Its resource use.
    pub used: StepUse,
}

/// Resource use of the processes of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepUse {
    /// Processor time of all ranks in user mode.
    pub user: Duration,
    /// Processor time of all ranks in the kernel.
    pub system: Duration,
    /// The largest memory of a rank.
    pub max_rss_kib: u64,
}
