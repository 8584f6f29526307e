//! The events that a policy is told.

use std::time::Duration;

use crate::{
    JobId, JobRequest, NodeIndex, Placement, Priority, Quantum, Reservation, ReservationId, Slot,
};

/// Something that happened, in the order in which it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A job was admitted and waits for PEs.
    Submit(JobRequest),
    /// A job runs already: the Machine Manager was restarted and adopts it.
    /// The slot is the one that it was started in.
    Restore {
        /// The job.
        request: JobRequest,
        /// Where it runs.
        placement: Placement,
        /// Its home row.
        slot: Slot,
        /// How long it has run already: what it is believed to run still is its
        /// estimate without that.
        ran: Duration,
    },
    /// A job that held PEs has ended, for any reason.
    Finished(JobId),
    /// A job that waits was withdrawn.
    Cancel(JobId),
    /// A job that waits has another priority. Among equals its submission
    /// still counts.
    Prioritise {
        /// The job.
        job: JobId,
        /// Its priority from now on.
        priority: Priority,
    },
    /// A job that was taken over ([`Event::Restore`]) is stopped for another one: its PEs are
    /// free, and it goes on when nobody of those it was stopped for has them.
    Suspended(JobId),
    /// A node died or was cut off. Its columns take no job until
    /// [`Event::NodeUp`]; the Machine Manager ends the jobs that hold some and
    /// says [`Event::Finished`].
    NodeDown(NodeIndex),
    /// A node shall take no more jobs; those that run there may finish.
    NodeDrained(NodeIndex),
    /// A node takes jobs (again).
    NodeUp(NodeIndex),
    /// A slice ended.
    SliceEdge,
    /// The length of the slices was changed.
    SetQuantum(Quantum),
    /// Nodes are for the jobs of a reservation for some time.
    Reserve(Reservation),
    /// A reservation that is not over is taken back.
    Unreserve(ReservationId),
    /// Time has passed: [`crate::Policy::wake_at`].
    Wake,
}
