//! The events that a policy takes.

use std::time::Duration;

use crate::{
    JobId, JobRequest, NodeIndex, Placement, Priority, Quantum, Reservation, ReservationId, Row,
};

/// An event. Policies get events in the order in which they happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A job was admitted and waits for PEs.
    Submit(JobRequest),
    /// A job already runs. A restarted Machine Manager adopts it in the row in which it was
    /// started.
    Restore {
        /// The job.
        request: JobRequest,
        /// Where the job runs.
        placement: Placement,
        /// The home row.
        row: Row,
        /// How long the job has already run. It is assumed to run for the rest of its estimate.
        ran: Duration,
    },
    /// A job that held PEs has ended, for any reason.
    Finished(JobId),
    /// A waiting job was withdrawn.
    Cancel(JobId),
    /// A waiting job has another priority. Among jobs of equal priority, the time of its submission
    /// still counts.
    Prioritise {
        /// The job.
        job: JobId,
        /// The job's new priority.
        priority: Priority,
    },
    /// A job that was taken over ([`Event::Restore`]) is suspended for other jobs. Its PEs are
    /// free, and it resumes once those jobs have left them.
    Suspended(JobId),
    /// A node died or was cut off. Its columns take no job until [`Event::NodeUp`]. The Machine
    /// Manager ends the jobs that hold some of them and sends [`Event::Finished`].
    NodeDown(NodeIndex),
    /// A node takes no job until [`Event::NodeUp`], which is expected soon. Plans count its columns
    /// as those of a node that is up, so no job passes another because the node is away. The
    /// Machine Manager bounds the absence by [`Event::NodeDown`].
    NodeAway(NodeIndex),
    /// A node must take no more jobs. The jobs that run there may finish.
    NodeDrained(NodeIndex),
    /// A node takes jobs, perhaps again.
    NodeUp(NodeIndex),
    /// A slice ended.
    SliceEdge,
    /// The slices have a new length.
    SetQuantum(Quantum),
    /// For some time, certain nodes take only the jobs of a reservation.
    Reserve(Reservation),
    /// A reservation that has not ended is withdrawn.
    Unreserve(ReservationId),
    /// Time has passed: [`crate::Policy::wake_at`].
    Wake,
}
