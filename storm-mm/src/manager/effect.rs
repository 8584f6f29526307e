//! The effects that the core requests.

use super::{Draft, StepOrder};
use crate::api::{JobView, Reply};
use crate::journal::Entry;
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::message::{Command, Slices};
use storm_rm::{FileSpec, JobId, JobIncarnation, JobSlot, Owner, PartitionId, StepAsk, StepRef};

/// The effects of an act of the core, for the driver to carry out, each list in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Carried out at once.
    pub immediate: Vec<Immediate>,
    /// Carried out after all earlier durable effects, once the journal entries among them are
    /// durable.
    pub durable: Vec<Durable>,
}

/// An effect that may overtake the journal, because a strobe must not wait for the disk. A strobe
/// promises nothing that the journal would have to keep.
#[derive(Clone, Debug, PartialEq)]
pub enum Immediate {
    /// Strobe these nodes; they begin the slices that follow by themselves.
    Strobe(NodeSet, Slices),
    /// The partition may need its next slice edge at another time now.
    SlicesChanged(PartitionId),
}

/// An effect that waits until the journal entries before it are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Durable {
    /// Append to the journal.
    Journal(Entry),
    /// Send this command to these nodes with the next heartbeat.
    Command(NodeSet, Command),
    /// Send the command of this draft likewise; the active rows are entered when it leaves.
    Draft(NodeSet, Draft),
    /// Have nodes do something about a further step of a job.
    Step(StepOrder),
    /// Bring files to nodes; answer with [`Core::staged`](super::Core::staged).
    Stage(StageJob),
    /// The staging of this job is not needed any more.
    AbandonStaging(JobId),
    /// Watch for the start on all nodes; answer with
    /// [`Core::started`](super::Core::started).
    AwaitStarted(Watch),
    /// Find out on which nodes the start was not seen; answer with
    /// [`Core::unstarted`](super::Core::unstarted).
    NameUnstarted(Watch),
    /// Watch for the end on all nodes (Algorithm 8); answer with
    /// [`Core::terminated`](super::Core::terminated).
    AwaitTermination(Watch),
    /// Call [`Core::timer`](super::Core::timer) at this time. The timer replaces an earlier one of
    /// the same job and kind, or of the cluster and the same kind.
    Timer {
        /// When to call.
        at: Instant,
        /// The timer.
        timer: Timer,
    },
    /// Notify the clients attached to a job.
    Notify(JobId, Notice),
    /// Notify the clients of a further step, which they know by the number of their request.
    NotifyStep(JobId, StepAsk, Notice),
}

/// A run of a step to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The step.
    pub step: StepRef,
    /// The run of the step.
    pub incarnation: JobIncarnation,
    /// Where its flags lie.
    pub slot: JobSlot,
    /// The nodes of the run.
    pub nodes: NodeSet,
}

/// Files to bring to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageJob {
    /// The job that needs the files.
    pub job: JobId,
    /// The run of the job.
    pub incarnation: JobIncarnation,
    /// The nodes that get the files.
    pub nodes: NodeSet,
    /// The files, the program first.
    pub files: Vec<FileSpec>,
    /// The owner of the files.
    pub owner: Owner,
}

/// The cost of a job's staging.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageOutcome {
    /// Reading the files.
    pub read: Duration,
    /// Sending the chunks.
    pub send: Duration,
    /// Waiting for the last write.
    pub write: Duration,
    /// Bytes of the files that were sent.
    pub sent_bytes: u64,
    /// Bytes of the files that every node had.
    pub skipped_bytes: u64,
}

/// A timer of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A timer of a job.
    Job {
        /// The job.
        job: JobId,
        /// The run of the job.
        incarnation: JobIncarnation,
        /// The purpose.
        kind: JobTimer,
    },
    /// A timer of a further step of a job.
    Step {
        /// The job.
        job: JobId,
        /// The number of the step.
        number: u32,
        /// The run of the step.
        run: JobIncarnation,
        /// The purpose.
        kind: StepTimer,
    },
    /// A timer of the cluster.
    Cluster(ClusterTimer),
}

/// The purpose of a step's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepTimer {
    /// The launch may have reached its time limit.
    Launch,
    /// The step received a request to end, and may not have ended.
    Kill,
    /// The client of the step has left, and may not have returned.
    Client,
    /// The step has reached its time limit.
    TimeLimit,
}

/// The purpose of a job's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobTimer {
    /// The launch may have reached its time limit.
    Launch,
    /// The job may have reached its time limit.
    TimeLimit,
    /// The job received a request to end, and may not have ended.
    Kill,
    /// Nodes of the job may not have returned after a restart of the manager.
    Recovery,
    /// A lost node cannot run the job any more.
    Fenced,
    /// The earliest time for the job to begin has been reached.
    Begin,
    /// The client of the job may not have returned after a restart of the manager.
    Output,
}

/// The purpose of a timer that belongs to no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterTimer {
    /// The priorities must be computed anew.
    Priorities,
    /// A policy requested to be woken.
    Wake,
    /// Nodes may not have returned after a restart of the manager.
    Returned,
    /// A node that is away may not be expected back any longer.
    Absence,
}

/// A notice about a job for the clients attached to that job.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// An event as the API defines events; after `ended` nothing follows.
    Event(Reply),
    /// The job is over, with its line of a listing unless it is forgotten already. For clients that
    /// wait for the job ([`Core::await_ends`](super::Core::await_ends)).
    Over(Option<Box<JobView>>),
    /// Output, to be delivered in order with flow control.
    Output(Reply),
}
