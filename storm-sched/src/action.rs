//! The answers of a policy: actions for its driver.

use crate::{
    Infeasible, JobId, MatrixError, NodeIndex, Placement, PreemptMode, ReservationId, Slot,
};

/// A decision of a policy. Actions are to be carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Launch a job in a row. The job runs while that row is active.
    Start {
        /// The job; it no longer waits.
        job: JobId,
        /// Its PEs, by rank.
        placement: Placement,
        /// Its home row.
        slot: Slot,
    },
    /// The job runs in these rows from now on, on its present columns: its row was merged with
    /// another one, or its columns are idle in further rows. The change holds before an
    /// [`Action::Activate`] of the same answer, at whatever place in the answer that stands.
    SetSlots {
        /// The job, which holds PEs.
        job: JobId,
        /// Its home row.
        home: Slot,
        /// The other rows that it runs in, ascending.
        alternates: Vec<Slot>,
    },
    /// The processes of a job move to other PEs, and the job to a row; it runs
    /// in no other. Only a driver with [`crate::Capability::Migration`] is told
    /// so. The moves of one answer are one: only when all are done are columns
    /// disjoint again.
    Migrate {
        /// The job, which holds PEs.
        job: JobId,
        /// Its new PEs, by rank.
        placement: Placement,
        /// Its home row.
        slot: Slot,
    },
    /// Another row runs from now on. On a slice edge it is the row of the
    /// coming slice; otherwise nobody was running, and a slice begins at once.
    Activate {
        /// The row.
        slot: Slot,
    },
    /// Others get the PEs of a job. One that is to be suspended holds them no more: its
    /// processes are stopped, and its memory stays its own. One that is to be requeued or
    /// cancelled holds them until [`crate::Event::Finished`], and waits again, or does
    /// not, by the driver's hands.
    Preempt {
        /// The job, which holds PEs.
        job: JobId,
        /// The fate of the preempted job.
        mode: PreemptMode,
        /// For whom.
        by: JobId,
    },
    /// A suspended job goes on, on the PEs that it had.
    Resume {
        /// The job.
        job: JobId,
    },
    /// The event does not fit the state and changed nothing: to be logged.
    Refused(EventError),
}

/// An event that does not fit the state of the policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Submitted, and can never run: admission should have said so.
    #[error("job {job} can never run here")]
    Infeasible {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        why: Infeasible,
    },
    /// Submitted or restored twice.
    #[error("job {job} is known already")]
    DuplicateJob {
        /// The job.
        job: JobId,
    },
    /// Submitted when the queue was full.
    #[error("job {job} was submitted when {limit} jobs were waiting, the most there may be")]
    QueueFull {
        /// The job.
        job: JobId,
        /// The bound, [`crate::MAX_PENDING_JOBS`].
        limit: usize,
    },
    /// Restored where it cannot be running.
    #[error("job {job} cannot be taken over")]
    NotRestored {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        why: MatrixError,
    },
    /// Ended without having held PEs.
    #[error("job {job} ended and holds no PEs")]
    NotRunning {
        /// The job.
        job: JobId,
    },
    /// Withdrawn or given a priority without having waited.
    #[error("job {job} was withdrawn or given a priority and does not wait")]
    NotPending {
        /// The job.
        job: JobId,
    },
    /// Said to be stopped, and holds no PEs that it could have lost, or here nobody
    /// is ever stopped for others.
    #[error("job {job} is said to be suspended and cannot be")]
    NotSuspended {
        /// The job.
        job: JobId,
    },
    /// A node beyond the machine.
    #[error("there is no node with index {node}")]
    NoSuchNode {
        /// The index.
        node: NodeIndex,
    },
    /// A reservation that is over before it begins, or by now.
    #[error("reservation {reservation} is over by now, or never begins")]
    ReservationOver {
        /// The reservation.
        reservation: ReservationId,
    },
    /// Two reservations for one node at one time, or with one number.
    #[error("reservation {reservation} meets {other}")]
    ReservationClash {
        /// The reservation.
        reservation: ReservationId,
        /// The one that was there.
        other: ReservationId,
    },
    /// Taken back, and not there or over.
    #[error("there is no reservation {reservation} any more")]
    NoSuchReservation {
        /// The reservation.
        reservation: ReservationId,
    },
}
