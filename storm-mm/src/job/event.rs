//! The events of a job, as the journal holds them.

use super::cut::{Cut, MAX_LAUNCHES};
use crate::api::{JobState, LaunchBreakdown, Service};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{JobId, JobIncarnation, JobSpec, Rank, Row};
use storm_sched::ReservationId;

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    /// When, by the Machine Manager's wall clock.
    pub at: Timestamp,
    /// The kind of event.
    pub kind: JobEventKind,
}

/// The kinds of events, in the order of a job's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobEventKind {
    /// The job was admitted.
    Submitted {
        /// The request, with the submitter's identity.
        spec: Rc<JobSpec>,
        /// The partition that it waits for.
        partition: String,
        /// Its account, its quality of service and its niceness.
        service: Rc<Service>,
    },
    /// An array of jobs was admitted. Its jobs have the numbers that follow its own, in
    /// the order of their indices.
    ArraySubmitted {
        /// The request, with the submitter's identity.
        spec: Rc<JobSpec>,
        /// The partition that its jobs wait for.
        partition: String,
        /// The account, the quality of service and the niceness of its jobs.
        service: Rc<Service>,
    },
    /// The job was submitted to a reservation.
    InReservation {
        /// Which.
        id: ReservationId,
        /// The reservation's name at that time.
        name: String,
    },
    /// The job may not start until it is released.
    Held {
        /// By whom.
        hold: Hold,
    },
    /// The job may start.
    Released {
        /// The user that released it.
        uid: u32,
    },
    /// A job that it depends on has reached a stage that counts.
    DependencyNoted {
        /// The job, or the array.
        on: JobId,
        /// The stage.
        note: DependencyNote,
    },
    /// A job that it depends on has ended.
    DependencyEnded {
        /// Which.
        on: JobId,
        /// Whether it was COMPLETED; for an array, whether all of its jobs were.
        completed: bool,
    },
    /// The policy gave it processing elements.
    Placed {
        /// Which run this is.
        incarnation: JobIncarnation,
        /// Its ranks on every node, consecutive.
        ranks: Vec<NodeRanks>,
        /// Its row of the matrix.
        row: Row,
        /// The nodes by name, folded.
        node_list: String,
    },
    /// The elements that the job has of its nodes. Other jobs may be suspended for them.
    OnElements {
        /// Nodes, each with a range of its elements, without the range's end.
        elements: Vec<(NodeId, u32, u32)>,
    },
    /// All its ranks execute.
    Started {
        /// Where the time of the launch went.
        breakdown: LaunchBreakdown,
    },
    /// The job has used up some of its time limit.
    Ran {
        /// How long its row was active, up to now.
        time: Duration,
    },
    /// Its row has another number, because its partition has another policy.
    Moved {
        /// Its row.
        row: Row,
    },
    /// Its processes are stopped: another job has its processing elements.
    Suspended {
        /// Which.
        by: JobId,
        /// How long it has run, up to now.
        time: Duration,
    },
    /// Its processes go on, where they were.
    Resumed {
        /// How long it has run.
        time: Duration,
    },
    /// Its processes are being ended.
    Ending {
        /// Why.
        cause: EndCause,
    },
    /// The job waits again.
    Requeued {
        /// Why.
        cause: EndCause,
    },
    /// The job is over.
    Ended {
        /// How.
        outcome: Outcome,
        /// How each rank ended, as far as known.
        exits: Vec<RankExit>,
        /// How long its row was active, over the whole run.
        ran: Duration,
    },
    /// The job is about to end under another policy than its partition is configured with.
    UnderPolicy {
        /// Its name.
        sched: String,
    },
}

/// News of a job that another depends on, apart from its end ([`JobEventKind::DependencyEnded`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DependencyNote {
    /// The job has begun, or has ended without beginning; for an array, all of its jobs have.
    Begun {
        /// When.
        at: Timestamp,
    },
    /// In the array, the job with the same index as the waiting job has ended.
    CorrespondingEnded {
        /// Whether it was COMPLETED.
        completed: bool,
    },
}

/// The reason why a job may not start until it is released: by whom it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// Its user.
    User,
    /// An administrator; only they release it.
    Admin,
}

/// Why a job is ended before its ranks have ended by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndCause {
    /// A user asked for it.
    Cancelled {
        /// Which.
        uid: u32,
    },
    /// A node died.
    NodeLost {
        /// Its name.
        node: String,
    },
    /// A signal ended a rank; the others would wait for it.
    RankKilled {
        /// The rank.
        rank: Rank,
        /// The node it ran on.
        node: String,
        /// The signal.
        signal: i32,
        /// The abort or exit of another rank that was reported before this crash. Which of the two
        /// caused the other is unknown, since reports of two nodes come in any order.
        with: Option<Box<EndCause>>,
    },
    /// A rank called abort.
    Aborted {
        /// The rank.
        rank: Rank,
        /// The exit code it asked for.
        exit_code: u8,
    },
    /// A rank could not be started.
    LaunchFailed {
        /// The failure and its reason.
        reason: String,
        /// The exit code, as a shell gives it: 126 or 127.
        exit_code: u8,
    },
    /// Its files could not be brought to the nodes.
    StagingFailed {
        /// The failure and its reason.
        reason: String,
    },
    /// The job has reached its time limit.
    TimeLimit,
    /// The Machine Manager that knew its processes is gone.
    ManagerRestarted,
    /// The cluster is going down.
    Shutdown,
    /// No partition takes the job any more: the configuration has changed, or the queue is full.
    Unplaceable {
        /// Why not.
        reason: String,
    },
    /// A node could not continue its part of the job.
    Unserviceable {
        /// Which node and why.
        reason: String,
    },
    /// The condition that it depends on can never be met, and it asked to be ended then.
    DependencyNeverSatisfied {
        /// The condition.
        condition: String,
    },
    /// Another job gets its processing elements.
    Preempted {
        /// Which.
        by: JobId,
        /// Whether it is queued again.
        requeue: bool,
    },
    /// A rank that had joined its peers through PMI exited without leaving them; they would
    /// wait for it.
    RankLeft {
        /// The rank.
        rank: Rank,
        /// The node it ran on.
        node: String,
        /// Its exit code.
        exit_code: u8,
    },
    /// Nodes that it ran on are not configured any more.
    NodeRemoved {
        /// Their names, folded.
        node: String,
    },
    /// A Node Manager ended while the run began. The run is launched again, at most
    /// [`MAX_LAUNCHES`] times in a row.
    LaunchCut {
        /// The name of the node.
        node: String,
        /// The work that was cut off.
        cut: Cut,
        /// How many launches in a row were cut off, this one included.
        launches: u32,
    },
}

impl EndCause {
    /// The state that a job ended for this cause is in.
    pub fn state(&self) -> JobState {
        match self {
            EndCause::Cancelled { .. }
            | EndCause::Shutdown
            | EndCause::DependencyNeverSatisfied { .. } => JobState::Cancelled,
            EndCause::NodeLost { .. }
            | EndCause::NodeRemoved { .. }
            | EndCause::LaunchCut { .. } => JobState::NodeFail,
            EndCause::TimeLimit => JobState::Timeout,
            EndCause::Preempted { .. } => JobState::Preempted,
            EndCause::RankKilled { .. }
            | EndCause::RankLeft { .. }
            | EndCause::Aborted { .. }
            | EndCause::LaunchFailed { .. }
            | EndCause::StagingFailed { .. }
            | EndCause::ManagerRestarted
            | EndCause::Unplaceable { .. }
            | EndCause::Unserviceable { .. } => JobState::Failed,
        }
    }

    /// The exit status that this cause gives the job; `None` if the status of its ranks counts.
    pub fn exit_code(&self) -> Option<u8> {
        const TERMINATED: u8 = 128 + 15;
        match self {
            EndCause::Cancelled { .. }
            | EndCause::Shutdown
            | EndCause::TimeLimit
            | EndCause::Preempted { .. } => Some(TERMINATED),
            EndCause::RankKilled { signal, .. } => {
                Some(u8::try_from(128 + signal).unwrap_or(u8::MAX))
            }
            EndCause::LaunchFailed { exit_code, .. } => Some(*exit_code),
            // The job has failed, so its status must not be 0.
            EndCause::Aborted { exit_code, .. } | EndCause::RankLeft { exit_code, .. } => {
                Some((*exit_code).max(1))
            }
            EndCause::NodeLost { .. }
            | EndCause::NodeRemoved { .. }
            | EndCause::LaunchCut { .. }
            | EndCause::StagingFailed { .. }
            | EndCause::ManagerRestarted
            | EndCause::Unplaceable { .. }
            | EndCause::Unserviceable { .. }
            | EndCause::DependencyNeverSatisfied { .. } => Some(1),
        }
    }
}

impl std::fmt::Display for EndCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EndCause::Cancelled { uid } => write!(f, "cancelled by user {uid}"),
            EndCause::NodeLost { node } => write!(f, "node {node} died or was cut off"),
            EndCause::NodeRemoved { node } => {
                write!(f, "node {node} is not in the configuration any more")
            }
            EndCause::LaunchCut { node, cut, launches } => {
                cut.write(node, f)?;
                match launches {
                    0 | 1 => Ok(()),
                    _ => write!(f, ", launch {launches} of at most {MAX_LAUNCHES}"),
                }
            }
            EndCause::RankKilled { rank, node, signal, with } => {
                write!(f, "rank {rank} on {node} was ended by signal {signal}")?;
                with.iter().try_for_each(|with| write!(f, "; {with}"))
            }
            EndCause::RankLeft { rank, node, exit_code } => write!(
                f,
                "rank {rank} on {node} exited with {exit_code} without MPI_Finalize, and others \
                 may wait for it"
            ),
            // An exit code of 256 also gives 0, as a status has only the last eight bits.
            EndCause::Aborted { rank, exit_code: 0 } => write!(
                f,
                "rank {rank} aborted the job; the last byte of its exit code is 0, which counts as 1"
            ),
            EndCause::Aborted { rank, exit_code } => {
                write!(f, "rank {rank} aborted the job with exit code {exit_code}")
            }
            EndCause::LaunchFailed { reason, .. }
            | EndCause::StagingFailed { reason }
            | EndCause::Unplaceable { reason }
            | EndCause::Unserviceable { reason } => f.write_str(reason),
            EndCause::TimeLimit => f.write_str("its time limit was reached"),
            EndCause::ManagerRestarted => {
                f.write_str("the Machine Manager was restarted while it ran")
            }
            EndCause::Shutdown => f.write_str("the cluster was shut down"),
            EndCause::Preempted { by, .. } => write!(f, "preempted by job {by}"),
            EndCause::DependencyNeverSatisfied { condition } => {
                write!(f, "{condition} can never be satisfied (DependencyNeverSatisfied)")
            }
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its final state.
    pub state: JobState,
    /// The highest status of its ranks, as a shell gives it.
    pub exit_code: u8,
    /// Why, where that needs saying.
    pub reason: Option<String>,
}
