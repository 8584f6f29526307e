//! The common part of all policies: the matrix and the queue of one partition. It applies each
//! event to them before any decision.
//!
//! This module decides nothing. The policy decides which job starts, where it starts, and which row
//! runs.

use crate::{
    Event, EventError, JobId, JobRequest, Machine, Matrix, MplLimit, NodeIndex, NodeState,
    PendingQueue, PendingReason, Placement, Quantum, Row, Shortage, feasible,
};

/// The matrix and the queue of a partition.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pub(crate) matrix: Matrix,
    pub(crate) queue: PendingQueue,
}

/// The changes of an event that a policy must act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A job joined the queue. `first` is true if it is the head.
    Queued { first: bool },
    /// A job left the queue. `first` is true if it was the head.
    Withdrawn { first: bool },
    /// A job gave its columns back.
    Released,
    /// A running job was taken over.
    Restored,
    /// More columns take work than before.
    ColumnsGained,
    /// The number of columns that take work stayed the same or fell.
    ColumnsLost,
    /// A slice ended.
    SliceEdge,
    /// The length of the slices changed.
    Quantum(Quantum),
    /// The place of a waiting job in the queue changed.
    Reordered,
    /// Neither the matrix nor the queue changed.
    Nothing,
}

impl Partition {
    pub(crate) fn new(machine: Machine, limit: MplLimit) -> Self {
        Self { matrix: Matrix::new(machine, limit), queue: PendingQueue::new() }
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, event: Event) -> Result<Change, EventError> {
        match event {
            Event::Submit(request) => self.submit(request),
            Event::Restore { request, placement, row, .. } => {
                self.restore(&request, &placement, row)
            }
            Event::Finished(job) => self
                .matrix
                .release(job)
                .map(|_| Change::Released)
                .ok_or(EventError::NotRunning { job }),
            Event::Cancel(job) => {
                let first = self.queue.head().is_some_and(|head| head.id == job);
                self.queue.remove(job).ok_or(EventError::NotPending { job })?;
                Ok(Change::Withdrawn { first })
            }
            Event::NodeDown(node) => self.set_node(node, NodeState::Down),
            Event::NodeAway(node) => self.set_node(node, NodeState::Away),
            Event::NodeDrained(node) => self.set_node(node, NodeState::Drained),
            Event::NodeUp(node) => self.set_node(node, NodeState::Up),
            // Policies that share space handle this event themselves.
            Event::Suspended(job) => Err(EventError::NotSuspended { job }),
            // The policy's book of reservations takes these events.
            Event::Reserve(_) | Event::Unreserve(_) | Event::Wake => Ok(Change::Nothing),
            Event::SliceEdge => Ok(Change::SliceEdge),
            Event::SetQuantum(quantum) => Ok(Change::Quantum(quantum)),
            Event::Prioritise { job, priority } => self
                .queue
                .prioritise(job, priority)
                .then_some(Change::Reordered)
                .ok_or(EventError::NotPending { job }),
        }
    }

    /// Why a job waits, given the shortage that it would have as the head of the queue.
    pub(crate) fn explain(
        &self,
        job: JobId,
        shortage: impl Fn(&JobRequest) -> Option<Shortage>,
    ) -> Option<PendingReason> {
        let shortage = shortage(self.queue.get(job)?);
        match self.queue.ahead_of(job) {
            Some(ahead) => Some(PendingReason::Priority { ahead, shortage }),
            // A head without a shortage would have been started.
            None => shortage.map(PendingReason::Resources),
        }
    }

    /// Why each job waits, in queue order.
    pub(crate) fn explain_all(
        &self,
        shortage: impl Fn(&JobRequest) -> Option<Shortage>,
    ) -> Vec<(JobId, PendingReason)> {
        let Some(first) = self.queue.head().map(|head| head.id) else { return Vec::new() };
        let reason = |(ahead, request): (usize, &JobRequest)| {
            let shortage = shortage(request);
            let reason = match ahead.checked_sub(1) {
                Some(others) => {
                    let ahead = crate::Ahead { first, others };
                    PendingReason::Priority { ahead, shortage }
                }
                None => PendingReason::Resources(shortage?),
            };
            Some((request.id, reason))
        };
        self.queue.iter().enumerate().filter_map(reason).collect()
    }

    pub(crate) fn pending(&self) -> Vec<JobId> {
        self.queue.iter().map(|request| request.id).collect()
    }

    fn submit(&mut self, request: JobRequest) -> Result<Change, EventError> {
        let job = request.id;
        self.refuse_duplicate(job)?;
        feasible(self.matrix.machine(), &request)
            .map_err(|why| EventError::Infeasible { job, why })?;
        if self.queue.is_full() {
            return Err(EventError::QueueFull { job, limit: crate::MAX_PENDING_JOBS });
        }
        self.queue.push(request);
        let first = self.queue.head().is_some_and(|head| head.id == job);
        Ok(Change::Queued { first })
    }

    fn restore(
        &mut self,
        request: &JobRequest,
        placement: &Placement,
        row: Row,
    ) -> Result<Change, EventError> {
        let job = request.id;
        self.refuse_duplicate(job)?;
        self.matrix
            .restore(request, placement, row)
            .map_err(|why| EventError::NotRestored { job, why })?;
        Ok(Change::Restored)
    }

    fn refuse_duplicate(&self, job: JobId) -> Result<(), EventError> {
        if self.queue.contains(job) || self.matrix.contains(job) {
            return Err(EventError::DuplicateJob { job });
        }
        Ok(())
    }

    fn set_node(&mut self, node: NodeIndex, state: NodeState) -> Result<Change, EventError> {
        let before =
            self.matrix.set_node_state(node, state).ok_or(EventError::NoSuchNode { node })?;
        let gained = state == NodeState::Up && before != NodeState::Up;
        Ok(if gained { Change::ColumnsGained } else { Change::ColumnsLost })
    }
}
