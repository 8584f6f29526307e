//! Transitions of one partition: each method names one of its queue, policy or slices.
//! No other file of the manager can change a partition.

use super::{NextEdge, Partitions, sched_time};
use storm_primitives::{Instant, NodeSet};
use storm_rm::{JobId, PartitionId, Row};
use storm_sched::{Action, Event, Policy, Quantum};

/// The queue and the policy.
impl Partitions {
    /// Passes an event to the policy.
    pub(in crate::manager) fn handle(
        &mut self,
        now: Instant,
        id: PartitionId,
        event: Event,
    ) -> Vec<Action> {
        self.get_mut(id).handle(sched_time(now), event)
    }

    /// Passes several events of one instant to the policy.
    pub(in crate::manager) fn handle_together(
        &mut self,
        now: Instant,
        id: PartitionId,
        events: Vec<Event>,
    ) -> Vec<Action> {
        self.get_mut(id).handle_together(sched_time(now), events)
    }

    /// A job enters the queue. Returns the event if the policy is to receive it now. Otherwise the
    /// job waits for another policy, or `later` is true and the event is kept, to be passed
    /// together with others.
    pub(in crate::manager) fn enqueue(
        &mut self,
        id: PartitionId,
        (job, event): (JobId, Event),
        later: bool,
    ) -> Option<Event> {
        self.get_mut(id).enqueue(job, event, later)
    }

    /// A job leaves the queue. Returns the event if the policy is to receive it now.
    pub(in crate::manager) fn dequeue(
        &mut self,
        id: PartitionId,
        (job, event): (JobId, Event),
        later: bool,
    ) -> Option<Event> {
        self.get_mut(id).dequeue(job, event, later)
    }

    /// The policy receives this event later, together with others.
    pub(in crate::manager) fn tell_later(&mut self, id: PartitionId, event: Event) {
        self.get_mut(id).tell_later(event);
    }

    /// The events that the policy is now to receive together.
    pub(in crate::manager) fn take_untold(&mut self, id: PartitionId) -> Vec<Event> {
        self.get_mut(id).take_untold()
    }

    /// Another policy is to take over when it can, and `queue` waits for that policy.
    pub(in crate::manager) fn begin_switch(
        &mut self,
        id: PartitionId,
        sched: &str,
        queue: Vec<JobId>,
    ) {
        self.get_mut(id).begin_switch(sched, queue);
    }

    /// No other policy is to take over any more, or it is about to. Returns the jobs that waited
    /// for it.
    pub(in crate::manager) fn end_switch(&mut self, id: PartitionId) -> Option<Vec<JobId>> {
        self.get_mut(id).end_switch()
    }

    /// Replaces the policy by a policy that has the running jobs. Returns the active row of the new
    /// policy, which is active from now on.
    pub(in crate::manager) fn take_over(
        &mut self,
        id: PartitionId,
        policy: Box<dyn Policy>,
    ) -> Option<Row> {
        self.get_mut(id).take_over(policy)
    }

    /// Sets the quantum with which policies are made.
    pub(in crate::manager) fn set_quantum(&mut self, id: PartitionId, quantum: Quantum) {
        self.get_mut(id).set_quantum(quantum);
    }
}

/// The slices.
impl Partitions {
    /// The next edge, if the manager sleeps through the next `ahead` edges.
    pub(in crate::manager) fn next_edge(
        &mut self,
        now: Instant,
        id: PartitionId,
        ahead: usize,
    ) -> Option<NextEdge> {
        self.get_mut(id).next_edge(now, ahead)
    }

    /// The next edge, if it is over and the manager was to sleep through it.
    pub(in crate::manager) fn slept_through(
        &mut self,
        now: Instant,
        id: PartitionId,
    ) -> Option<Instant> {
        self.get_mut(id).slept_through(now)
    }

    /// Passes an edge through which the manager slept, if nodes begin its slice by themselves.
    pub(in crate::manager) fn pass(
        &mut self,
        id: PartitionId,
        edge: Instant,
        ahead: usize,
    ) -> bool {
        self.get_mut(id).pass(edge, ahead)
    }

    /// The slice under way ends now. Returns whether the next slice begins on the grid.
    pub(in crate::manager) fn end_slice(&mut self, now: Instant, id: PartitionId) -> bool {
        self.get_mut(id).end_slice(now)
    }

    /// An edge is on time.
    pub(in crate::manager) fn begin_edge_on_time(&mut self, id: PartitionId) {
        self.get_mut(id).begin_edge_on_time();
    }

    /// A regular edge has passed.
    pub(in crate::manager) fn end_edge(&mut self, id: PartitionId) {
        self.get_mut(id).end_edge();
    }

    /// A job has got other rows.
    pub(in crate::manager) fn rows_change(&mut self, id: PartitionId) {
        self.get_mut(id).rows_change();
    }

    /// A job is placed on these nodes.
    pub(in crate::manager) fn job_comes_to(&mut self, id: PartitionId, nodes: &NodeSet) {
        self.get_mut(id).job_comes_to(nodes);
    }

    /// Another row becomes active. Returns whether all these nodes begin its slice by themselves.
    pub(in crate::manager) fn activate(
        &mut self,
        now: Instant,
        id: PartitionId,
        row: Row,
        nodes: &NodeSet,
    ) -> bool {
        self.get_mut(id).activate(now, row, nodes)
    }

    /// A slice of communication ended with nothing on the way.
    pub(in crate::manager) fn set_checkpoint(&mut self, id: PartitionId, slice: u64) {
        self.get_mut(id).set_checkpoint(slice);
    }

    /// Makes a row active without a strobe.
    #[cfg(test)]
    pub(in crate::manager) fn make_active(&mut self, id: PartitionId, row: Row) {
        self.get_mut(id).make_active(row);
    }
}
