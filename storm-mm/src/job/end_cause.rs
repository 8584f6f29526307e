//! The causes of a job's end, and the decisions that follow from a cause alone. A cause decides the
//! job's state, its exit status, and whether the job runs again. Every list of all causes is here.

use super::cut::{Cut, MAX_LAUNCHES};
use crate::api::JobState;
use serde::{Deserialize, Serialize};
use storm_rm::{JobId, Rank};

/// Why a job is ended before its ranks have ended by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndCause {
    /// A user requested the end.
    Cancelled {
        /// The user.
        uid: u32,
    },
    /// A node died.
    NodeLost {
        /// The name of the node.
        node: String,
    },
    /// A signal ended a rank; the others would wait for that rank.
    RankKilled {
        /// The rank.
        rank: Rank,
        /// The node it ran on.
        node: String,
        /// The signal.
        signal: i32,
        /// The abort or exit of another rank that was reported before this crash. The order of
        /// cause and effect is unknown, since reports of two nodes arrive in any order.
        with: Option<Box<EndCause>>,
    },
    /// A rank called abort.
    Aborted {
        /// The rank.
        rank: Rank,
        /// The exit code that the rank requested.
        exit_code: u8,
    },
    /// A rank could not be started.
    LaunchFailed {
        /// The failure and its reason.
        reason: String,
        /// The exit code that a shell would report: 126 or 127.
        exit_code: u8,
    },
    /// The job's files could not be brought to the nodes.
    StagingFailed {
        /// The failure and its reason.
        reason: String,
    },
    /// The job has reached its time limit.
    TimeLimit,
    /// The Machine Manager that managed its processes has ended.
    ManagerRestarted,
    /// The cluster is going down.
    Shutdown,
    /// For a step: the script of its job has ended.
    ScriptEnded,
    /// No partition takes the job any more: the configuration has changed, or the queue is full.
    Unplaceable {
        /// The reason.
        reason: String,
    },
    /// A node could not continue its part of the job.
    Unserviceable {
        /// The node and the reason.
        reason: String,
    },
    /// A process of the job took more memory than the job has on its node.
    OverMemory {
        /// The node and the limit.
        reason: String,
    },
    /// A user requested that the job waits again.
    RequeuedBy {
        /// The user.
        uid: u32,
    },
    /// The condition that the job depends on can never be met, and the job requested to be ended
    /// then.
    DependencyNeverSatisfied {
        /// The condition.
        condition: String,
    },
    /// Another job gets its processing elements.
    Preempted {
        /// The other job.
        by: JobId,
        /// Whether it is queued again.
        requeue: bool,
    },
    /// A rank that had joined its peers through PMI exited without leaving them; the peers would
    /// wait for that rank.
    RankLeft {
        /// The rank.
        rank: Rank,
        /// The node it ran on.
        node: String,
        /// The exit code of the rank.
        exit_code: u8,
    },
    /// Nodes that the job ran on are not configured any more.
    NodeRemoved {
        /// The names of the nodes, folded.
        node: String,
    },
    /// A Node Manager ended while the run began. The run is launched again, at most
    /// [`MAX_LAUNCHES`] times in a row.
    LaunchCut {
        /// The name of the node.
        node: String,
        /// The work of the Node Manager that was cut off.
        cut: Cut,
        /// How many launches in a row were cut off, this one included.
        launches: u32,
    },
    /// For a step: the client that asked for it has left.
    ClientLeft,
    /// A rank exited with another status than 0, and the user wants the others to end then.
    BadExit {
        /// The rank.
        rank: Rank,
        /// The node it ran on.
        node: String,
        /// The exit code of the rank.
        exit_code: u8,
    },
}

impl EndCause {
    /// The state that a job ended for this cause is in.
    pub fn state(&self) -> JobState {
        match self {
            EndCause::Cancelled { .. }
            | EndCause::Shutdown
            | EndCause::RequeuedBy { .. }
            | EndCause::ScriptEnded
            | EndCause::ClientLeft
            | EndCause::DependencyNeverSatisfied { .. } => JobState::Cancelled,
            EndCause::NodeLost { .. }
            | EndCause::NodeRemoved { .. }
            | EndCause::LaunchCut { .. } => JobState::NodeFail,
            EndCause::TimeLimit => JobState::Timeout,
            EndCause::Preempted { .. } => JobState::Preempted,
            EndCause::OverMemory { .. } => JobState::OutOfMemory,
            EndCause::RankKilled { .. }
            | EndCause::RankLeft { .. }
            | EndCause::BadExit { .. }
            | EndCause::Aborted { .. }
            | EndCause::LaunchFailed { .. }
            | EndCause::StagingFailed { .. }
            | EndCause::ManagerRestarted
            | EndCause::Unplaceable { .. }
            | EndCause::Unserviceable { .. } => JobState::Failed,
        }
    }

    /// The exit status of a job that ended for this cause; `None` if the status of its ranks
    /// counts.
    pub fn exit_code(&self) -> Option<u8> {
        const TERMINATED: u8 = 128 + 15;
        const KILLED: u8 = 128 + 9;
        match self {
            EndCause::OverMemory { .. } => Some(KILLED),
            EndCause::Cancelled { .. }
            | EndCause::RequeuedBy { .. }
            | EndCause::DependencyNeverSatisfied { .. }
            | EndCause::Shutdown
            | EndCause::ScriptEnded
            | EndCause::ClientLeft
            | EndCause::TimeLimit
            | EndCause::Preempted { .. } => Some(TERMINATED),
            EndCause::RankKilled { signal, .. } => {
                Some(u8::try_from(128 + signal).unwrap_or(u8::MAX))
            }
            EndCause::LaunchFailed { exit_code, .. } | EndCause::BadExit { exit_code, .. } => {
                Some(*exit_code)
            }
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
            | EndCause::Unserviceable { .. } => Some(1),
        }
    }

    /// Whether the ranks get a request to end before they are killed.
    pub fn asks_first(&self) -> bool {
        match self {
            EndCause::Cancelled { .. }
            | EndCause::RequeuedBy { .. }
            | EndCause::TimeLimit
            | EndCause::Shutdown
            | EndCause::ScriptEnded
            | EndCause::ClientLeft
            | EndCause::BadExit { .. }
            | EndCause::Preempted { .. } => true,
            EndCause::NodeLost { .. }
            | EndCause::RankKilled { .. }
            | EndCause::RankLeft { .. }
            | EndCause::Aborted { .. }
            | EndCause::LaunchFailed { .. }
            | EndCause::StagingFailed { .. }
            | EndCause::ManagerRestarted
            | EndCause::Unplaceable { .. }
            | EndCause::Unserviceable { .. }
            | EndCause::OverMemory { .. }
            | EndCause::DependencyNeverSatisfied { .. }
            | EndCause::NodeRemoved { .. }
            | EndCause::LaunchCut { .. } => false,
        }
    }

    /// The rank that ended the job, if it may have done so because another rank crashed.
    pub fn effect_of_a_crash(&self) -> Option<Rank> {
        match self {
            EndCause::Aborted { rank, .. } | EndCause::RankLeft { rank, .. } => Some(*rank),
            EndCause::Cancelled { .. }
            | EndCause::NodeLost { .. }
            | EndCause::RankKilled { .. }
            | EndCause::BadExit { .. }
            | EndCause::LaunchFailed { .. }
            | EndCause::StagingFailed { .. }
            | EndCause::TimeLimit
            | EndCause::ManagerRestarted
            | EndCause::Shutdown
            | EndCause::ScriptEnded
            | EndCause::ClientLeft
            | EndCause::Unplaceable { .. }
            | EndCause::Unserviceable { .. }
            | EndCause::OverMemory { .. }
            | EndCause::RequeuedBy { .. }
            | EndCause::DependencyNeverSatisfied { .. }
            | EndCause::LaunchCut { .. }
            | EndCause::Preempted { .. }
            | EndCause::NodeRemoved { .. } => None,
        }
    }

    /// The sequel of the run for the job.
    pub fn sequel(&self) -> Sequel {
        match self {
            EndCause::NodeLost { .. } | EndCause::NodeRemoved { .. } => Sequel::RunAgain,
            EndCause::RequeuedBy { .. } => Sequel::Requested,
            EndCause::Preempted { requeue, .. } => Sequel::GiveWay { requeue: *requeue },
            EndCause::LaunchCut { cut, launches, .. } => {
                Sequel::LaunchAgain { cut: *cut, launches: *launches }
            }
            EndCause::Cancelled { .. }
            | EndCause::RankKilled { .. }
            | EndCause::BadExit { .. }
            | EndCause::RankLeft { .. }
            | EndCause::Aborted { .. }
            | EndCause::LaunchFailed { .. }
            | EndCause::StagingFailed { .. }
            | EndCause::TimeLimit
            | EndCause::ManagerRestarted
            | EndCause::Shutdown
            | EndCause::ScriptEnded
            | EndCause::ClientLeft
            | EndCause::Unplaceable { .. }
            | EndCause::Unserviceable { .. }
            | EndCause::OverMemory { .. }
            | EndCause::DependencyNeverSatisfied { .. } => Sequel::Over,
        }
    }
}

/// The text of a cancellation, before the number of the user.
const CANCELLED_BY: &str = "cancelled by user ";

impl EndCause {
    /// The user that cancelled a job, if this is the text of a cancellation: `cancelled by user 7`
    /// or, where the manager knows the name, `cancelled by ada (7)`.
    pub fn canceller_in(text: &str) -> Option<u32> {
        if let Some(uid) = text.strip_prefix(CANCELLED_BY) {
            return uid.parse().ok();
        }
        let (_, uid) = text.strip_prefix("cancelled by ")?.strip_suffix(')')?.rsplit_once('(')?;
        uid.parse().ok()
    }
}

impl std::fmt::Display for EndCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EndCause::Cancelled { uid } => write!(f, "{CANCELLED_BY}{uid}"),
            EndCause::RequeuedBy { uid } => write!(f, "requeued by user {uid}"),
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
            EndCause::BadExit { rank, node, exit_code } => write!(
                f,
                "rank {rank} on {node} exited with {exit_code}, and --kill-on-bad-exit is given"
            ),
            // An exit code of 256 also becomes 0, since a status has only the last eight bits.
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
            | EndCause::OverMemory { reason }
            | EndCause::Unserviceable { reason } => f.write_str(reason),
            EndCause::TimeLimit => f.write_str("its time limit was reached"),
            EndCause::ManagerRestarted => {
                f.write_str("the Machine Manager was restarted while it ran")
            }
            EndCause::Shutdown => f.write_str("the cluster was shut down"),
            EndCause::ScriptEnded => f.write_str("the script of its job has ended"),
            EndCause::ClientLeft => f.write_str("the command that started it has left"),
            EndCause::Preempted { by, .. } => write!(f, "preempted by job {by}"),
            EndCause::DependencyNeverSatisfied { condition } => {
                write!(f, "{condition} can never be satisfied (DependencyNeverSatisfied)")
            }
        }
    }
}

/// The sequel of a run that was ended for a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequel {
    /// The job is over.
    Over,
    /// A node of the run is lost. The job is queued again if it may run twice.
    RunAgain,
    /// Another job gets its processing elements.
    GiveWay {
        /// Whether the job is queued again, if it may run twice.
        requeue: bool,
    },
    /// A user requested that the job waits again, even if it did not request to run twice: the user
    /// decides now.
    Requested,
    /// The launch was cut off, and is done again.
    LaunchAgain {
        /// The work of the Node Manager that was cut off.
        cut: Cut,
        /// How many launches in a row were cut off, this one included.
        launches: u32,
    },
}

impl Sequel {
    /// Whether the job can be queued again.
    pub fn can_run_again(self) -> bool {
        match self {
            Sequel::RunAgain
            | Sequel::GiveWay { .. }
            | Sequel::Requested
            | Sequel::LaunchAgain { .. } => true,
            Sequel::Over => false,
        }
    }

    /// Whether the job is queued again. `may_repeat`: it may run twice. `started`: all of its ranks
    /// executed in this run.
    pub fn runs_again(self, may_repeat: bool, started: bool) -> bool {
        match self {
            Sequel::Over => false,
            Sequel::Requested => true,
            Sequel::RunAgain => may_repeat,
            Sequel::GiveWay { requeue } => may_repeat && requeue,
            Sequel::LaunchAgain { cut, launches } => match is_not_begun(cut, started) {
                true => launches < MAX_LAUNCHES,
                false => may_repeat,
            },
        }
    }

    /// Whether the loss of a node becomes the cause of the end, if a node was lost meanwhile. Ranks
    /// may still run on such a node. A job that must not run twice then ends, if its launch was cut
    /// off. No time bounds how long the cut-off node runs the job.
    pub fn yields_to_a_loss(self, may_repeat: bool) -> bool {
        match self {
            Sequel::Over | Sequel::RunAgain => false,
            Sequel::GiveWay { requeue } => requeue,
            Sequel::Requested => true,
            Sequel::LaunchAgain { cut, .. } => cut != Cut::Slices && !may_repeat,
        }
    }

    /// Whether the job is ahead of the others when it is queued again.
    pub fn comes_first(self) -> bool {
        match self {
            Sequel::GiveWay { .. } | Sequel::LaunchAgain { .. } => true,
            Sequel::Over | Sequel::RunAgain | Sequel::Requested => false,
        }
    }

    /// Whether the run has certainly ended on all nodes when the job is queued again. Only a job
    /// that may run twice is launched again while a node may still run the job.
    pub fn has_ended_everywhere(self, may_repeat: bool) -> bool {
        match self {
            Sequel::GiveWay { .. } | Sequel::Requested => true,
            Sequel::LaunchAgain { cut, .. } => !may_repeat || cut == Cut::Staging,
            Sequel::Over | Sequel::RunAgain => false,
        }
    }

    /// The launches in a row that were cut off, with the one of this run; `None` if the launch was
    /// not cut off.
    pub fn launches_cut(self, started: bool) -> Option<u32> {
        match self {
            Sequel::LaunchAgain { cut, launches } => {
                Some(if is_not_begun(cut, started) { launches } else { 0 })
            }
            Sequel::Over | Sequel::RunAgain | Sequel::GiveWay { .. } | Sequel::Requested => None,
        }
    }
}

/// Whether a run whose launch was cut off counts as not begun: not all of its ranks have executed.
fn is_not_begun(cut: Cut, started: bool) -> bool {
    !started && cut != Cut::Slices
}
