//! The answers of a policy: actions for its driver.

use crate::{
    Infeasible, JobId, MatrixError, NodeIndex, Placement, PreemptMode, ReservationId, Row,
};

/// A decision of a policy. The driver carries actions out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Launch a job in a row. The job runs while that row is active.
    Start {
        /// The job, which no longer waits.
        job: JobId,
        /// The PEs, by rank.
        placement: Placement,
        /// The home row.
        row: Row,
    },
    /// From now on, the job runs in these rows, on its present columns. Its row was merged with
    /// another, or its columns are idle in further rows. The change takes effect before every
    /// [`Action::Activate`] of the same answer, even one that comes first.
    SetRows {
        /// The job, which holds PEs.
        job: JobId,
        /// The home row.
        home: Row,
        /// The other rows that the job runs in, ascending.
        alternates: Vec<Row>,
    },
    /// The processes of a job move to other PEs, and the job runs only in the given row. Only a
    /// driver with [`crate::Capability::Migration`] gets this action. The moves of one answer
    /// belong together: columns are disjoint again only after the last move.
    Migrate {
        /// The job, which holds PEs.
        job: JobId,
        /// The new PEs, by rank.
        placement: Placement,
        /// The home row.
        row: Row,
    },
    /// Another row runs from now on. On a slice edge, it is the row of the coming slice. Otherwise
    /// no row was running, and a slice begins at once.
    Activate {
        /// The row.
        row: Row,
    },
    /// Another job gets the PEs of this job. A suspended job gives its PEs up at once: its
    /// processes are stopped and keep their memory. A job to be requeued or cancelled holds its PEs
    /// until [`crate::Event::Finished`]. The driver then makes it wait again or ends it for good.
    Preempt {
        /// The job, which holds PEs.
        job: JobId,
        /// The fate of the preempted job.
        mode: PreemptMode,
        /// The job that gets the PEs.
        by: JobId,
    },
    /// A suspended job continues, on the PEs that it had.
    Resume {
        /// The job.
        job: JobId,
    },
    /// The event does not fit the state and changed nothing. The driver logs it.
    Refused(EventError),
}

/// An event that does not fit the state of the policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The submitted job can never run. Admission should have refused it.
    #[error("job {job} can never run here")]
    Infeasible {
        /// The job.
        job: JobId,
        /// Why the job can never run.
        #[source]
        why: Infeasible,
    },
    /// A job was submitted or restored twice.
    #[error("job {job} is known already")]
    DuplicateJob {
        /// The job.
        job: JobId,
    },
    /// A job was submitted when the queue was full.
    #[error("job {job} was submitted when {limit} jobs were waiting, which is the limit")]
    QueueFull {
        /// The job.
        job: JobId,
        /// The limit, [`crate::MAX_PENDING_JOBS`].
        limit: usize,
    },
    /// A job was restored to a place where it cannot be running.
    #[error("job {job} cannot be taken over")]
    NotRestored {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        why: MatrixError,
    },
    /// A job ended without having held PEs.
    #[error("job {job} ended and holds no PEs")]
    NotRunning {
        /// The job.
        job: JobId,
    },
    /// A job was withdrawn or given a priority although it does not wait.
    #[error("job {job} is not waiting, so it cannot be withdrawn or given a priority")]
    NotPending {
        /// The job.
        job: JobId,
    },
    /// A job was reported as suspended although it holds no PEs to lose, or although this policy
    /// suspends no job.
    #[error("job {job} cannot be suspended")]
    NotSuspended {
        /// The job.
        job: JobId,
    },
    /// There is no such node in the machine.
    #[error("there is no node with index {node}")]
    NoSuchNode {
        /// The index.
        node: NodeIndex,
    },
    /// The reservation has ended already, or ends before it begins.
    #[error("reservation {reservation} is over already, or never begins")]
    ReservationOver {
        /// The reservation.
        reservation: ReservationId,
    },
    /// Two reservations have the same number, or share a node at some time.
    #[error("reservation {reservation} overlaps with {other}")]
    ReservationClash {
        /// The reservation.
        reservation: ReservationId,
        /// The reservation that was there first.
        other: ReservationId,
    },
    /// The reservation to be taken back does not exist or has ended.
    #[error("there is no reservation {reservation} any more")]
    NoSuchReservation {
        /// The reservation.
        reservation: ReservationId,
    },
}
