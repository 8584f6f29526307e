//! The events of a job, as the journal holds them.

use super::end_cause::EndCause;
use super::part_end::PartEnd;
use super::step_event::StepEvent;
use super::terms::Terms;
use crate::api::{JobState, LaunchBreakdown, Service};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{JobId, JobIncarnation, JobSpec, Row};
use storm_sched::ReservationId;

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    /// The time of the event, by the Machine Manager's wall clock.
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
        /// The job's account, quality of service and niceness.
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
        /// The reservation.
        id: ReservationId,
        /// The reservation's name at that time.
        name: String,
    },
    /// The job may not start until it is released.
    Held {
        /// The holder.
        hold: Hold,
    },
    /// The job may start.
    Released {
        /// The user that released the job.
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
        /// The job, or the array.
        on: JobId,
        /// Whether it was COMPLETED; for an array, whether all of its jobs were.
        completed: bool,
    },
    /// The policy placed the job on processing elements.
    Placed {
        /// The number of this run.
        incarnation: JobIncarnation,
        /// The job's ranks on every node, consecutive.
        ranks: Vec<NodeRanks>,
        /// The job's row of the matrix.
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
        /// The parts of the launch's time.
        breakdown: LaunchBreakdown,
    },
    /// The job has used up some of its time limit.
    Ran {
        /// How long its row was active, up to now.
        time: Duration,
    },
    /// The job is sent the signal that it requested ahead of its time limit.
    SignalledEarly {
        /// Signal number.
        signal: i32,
    },
    /// The job's row has another number, because its partition has another policy.
    Moved {
        /// The job's row.
        row: Row,
    },
    /// The job's processes are stopped: another job has its processing elements.
    Suspended {
        /// The other job.
        by: JobId,
        /// How long it has run, up to now.
        time: Duration,
    },
    /// The job's processes continue, where they were.
    Resumed {
        /// How long it has run.
        time: Duration,
    },
    /// An administrator has stopped the job's processes. The job keeps its elements.
    StoppedBy {
        /// The administrator.
        uid: u32,
        /// How long it has run, up to now.
        time: Duration,
    },
    /// An administrator lets the processes continue.
    ContinuedBy {
        /// The administrator.
        uid: u32,
        /// How long it has run.
        time: Duration,
    },
    /// A user has changed the terms of the job.
    Changed {
        /// The user.
        uid: u32,
        /// All terms, changed or not.
        terms: Box<Terms>,
        /// The changes, in words.
        what: String,
        /// Whether the dependency is among them. Events of other jobs that the job has received are
        /// void then.
        waits_anew: bool,
    },
    /// The job's processes are being ended.
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
        /// The outcome.
        outcome: Outcome,
        /// How each rank ended, as far as reported.
        exits: Vec<RankExit>,
        /// How long its row was active, over the whole run.
        ran: Duration,
    },
    /// The job is about to end under another policy than its partition is configured with.
    UnderPolicy {
        /// The name of the policy.
        sched: String,
    },
    /// Something happened to a step that the job started in its place.
    Step {
        /// The number of the step.
        number: u32,
        /// The event of the step.
        event: StepEvent,
    },
    /// The part of a node is over, and the node is lost: its next incarnation does not have the
    /// part.
    PartOver {
        /// The node.
        node: NodeId,
        /// How it ended.
        end: PartEnd,
    },
    /// The step that the job ends with is over, and other steps are being ended. Nothing that
    /// happens to them changes the job's outcome.
    FirstOver {
        /// How the ranks of the first step ended.
        exits: Vec<RankExit>,
    },
}

/// A stage of a job that another depends on, apart from its end
/// ([`JobEventKind::DependencyEnded`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DependencyNote {
    /// The job has begun, or has ended without beginning; for an array, all of its jobs have.
    Begun {
        /// The time of the begin, or of the end.
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
    /// The user of the job.
    User,
    /// An administrator; only administrators release the job.
    Admin,
}

impl Hold {
    /// The hold that a user puts on a job of this owner.
    pub fn by(uid: u32, owner: u32) -> Hold {
        if uid == owner { Hold::User } else { Hold::Admin }
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The job's final state.
    pub state: JobState,
    /// The highest status of its ranks, as a shell reports a status.
    pub exit_code: u8,
    /// The reason, if the state does not show the reason.
    pub reason: Option<String>,
}
