//! First come, first served, space sharing: one row, and the head of the
//! queue starts as soon as it fits (A1 of the policy reference; the first of
//! the algorithms that the paper's section 2.1 lists).
//!
//! Nothing passes the head, not even when the head waits for a node that is
//! down. Time is not shared, so there are no slices.

use std::time::Duration;

use crate::partition::{Change, Partition};
use crate::shape::Shape;
use crate::{
    Action, Event, Fit, InvariantViolation, JobId, JobRequest, Machine, MplLimit, PendingReason,
    Policy, PolicyParams, RowView, SchedTime, Shortage, Slot,
};

/// The name in the registry.
pub const NAME: &str = "fcfs";

/// The one row of space sharing.
const ROW: Slot = Slot(0);

/// Space sharing in queue order.
#[derive(Debug, Clone)]
pub struct Fcfs {
    partition: Partition,
}

impl Fcfs {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self { partition: Partition::new(machine, MplLimit::ONE) }
    }

    /// For the registry; no setting concerns this policy.
    #[must_use]
    pub fn boxed(machine: Machine, _: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine))
    }

    /// Starts the head while it fits.
    fn start_prefix(&mut self, actions: &mut Vec<Action>) {
        let Partition { matrix, queue } = &mut self.partition;
        while let Some(placement) =
            queue.head().and_then(|head| matrix.place(head, ROW, Fit::Exact))
        {
            let Some(request) = queue.pop() else { break };
            actions.push(Action::Start { job: request.id, placement, slot: ROW });
        }
        self.activate(actions);
    }

    /// Makes the row active when it has become live.
    fn activate(&mut self, actions: &mut Vec<Action>) {
        let matrix = &mut self.partition.matrix;
        if matrix.active().is_none() {
            actions.extend(matrix.advance().map(|slot| Action::Activate { slot }));
        }
    }

    fn shortage(&self, request: &JobRequest) -> Option<Shortage> {
        let matrix = &self.partition.matrix;
        let machine = matrix.machine();
        if let Some(unavailable) = matrix.unavailable(request) {
            return Some(unavailable);
        }
        let shape = Shape::of(request);
        let shortfall = matrix.row_shortfall(ROW, shape)?;
        Some(Shortage::Busy { shortfall, up_pes: machine.usable_pes() })
    }
}

impl Policy for Fcfs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handle(&mut self, _now: SchedTime, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match self.partition.apply(event) {
            Err(refused) => actions.push(Action::Refused(refused)),
            Ok(
                Change::Queued { first: true }
                | Change::Withdrawn { first: true }
                | Change::Released
                | Change::ColumnsGained,
            ) => self.start_prefix(&mut actions),
            Ok(Change::Restored) => self.activate(&mut actions),
            Ok(
                Change::Queued { first: false }
                | Change::Withdrawn { first: false }
                | Change::ColumnsLost
                | Change::SliceEdge
                | Change::Quantum(_),
            ) => {}
        }
        actions
    }

    fn pending(&self) -> Vec<JobId> {
        self.partition.pending()
    }

    fn running(&self) -> Vec<JobId> {
        self.partition.matrix.jobs().collect()
    }

    fn explain(&self, _now: SchedTime, job: JobId) -> Option<PendingReason> {
        self.partition.explain(job, |request| self.shortage(request))
    }

    fn explain_all(&self, _now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.partition.explain_all(|request| self.shortage(request))
    }

    fn active_slot(&self) -> Option<Slot> {
        self.partition.matrix.active()
    }

    fn rows(&self) -> Vec<RowView> {
        self.partition.matrix.view()
    }

    fn next_edge_needed(&self) -> bool {
        false
    }

    fn quantum(&self) -> Option<Duration> {
        None
    }

    fn machine(&self) -> &Machine {
        self.partition.matrix.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.partition.matrix.check()
    }
}
