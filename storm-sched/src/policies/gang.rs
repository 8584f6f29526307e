//! Explicit gang scheduling with the Ousterhout matrix (the paper's section 2
//! for the idea and 2.2 for the buddy tree in any slot with room; A3 of the
//! policy reference).
//!
//! A job goes to the first row with an aligned buddy block for it, else to a
//! new row, else, when the matrix is at the multiprogramming limit, into the
//! queue, which is first come, first served. On each slice edge the next live
//! row in cyclic order runs, so each runs within as many slices as there are
//! rows. With one row nothing switches.
//!
//! Two additions to plain buddy packing: a job for which no aligned block
//! exists even in an empty row (odd sizes, dead nodes) may have pieces of any
//! row; and so may any job before it has to wait for the limit.
//!
//! Not here: alternative scheduling (running a job in further rows whose
//! columns are idle) and slot unification. The matrix has the place for them:
//! a job's rows are a set.

use std::time::Duration;

use crate::partition::{Change, Partition};
use crate::shape::Shape;
use crate::{
    Action, Event, Fit, InvariantViolation, JobId, JobRequest, Machine, Matrix, PendingReason,
    Placement, Policy, PolicyParams, Quantum, RowView, SchedTime, Shortage, Slot,
};

/// The name in the registry.
pub const NAME: &str = "gang";

/// Explicit gang scheduling.
#[derive(Debug, Clone)]
pub struct Gang {
    partition: Partition,
    quantum: Quantum,
}

impl Gang {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine, params: &PolicyParams) -> Self {
        Self { partition: Partition::new(machine, params.mpl_limit), quantum: params.quantum_us }
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine, params))
    }

    /// Starts the head of the queue while there is room for it in the matrix.
    fn start_prefix(&mut self, actions: &mut Vec<Action>) {
        let Partition { matrix, queue } = &mut self.partition;
        while let Some((slot, placement)) = queue.head().and_then(|head| place(matrix, head)) {
            let Some(request) = queue.pop() else { break };
            actions.push(Action::Start { job: request.id, placement, slot });
        }
        self.activate_if_idle(actions);
    }

    /// When the active row was deleted, the next one runs at once: waiting for
    /// the edge would idle the machine.
    fn activate_if_idle(&mut self, actions: &mut Vec<Action>) {
        if self.partition.matrix.active().is_none() {
            self.rotate(actions);
        }
    }

    /// Activates the next live row, if that is another one.
    fn rotate(&mut self, actions: &mut Vec<Action>) {
        let matrix = &mut self.partition.matrix;
        let before = matrix.active();
        let after = matrix.advance().filter(|slot| before != Some(*slot));
        actions.extend(after.map(|slot| Action::Activate { slot }));
    }

    fn shortage(&self, request: &JobRequest) -> Option<Shortage> {
        let matrix = &self.partition.matrix;
        let machine = matrix.machine();
        if let Some(unavailable) = matrix.unavailable(request) {
            return Some(unavailable);
        }
        let shape = Shape::of(request);
        if matrix.vacant_slot().is_some() {
            // Jobs of other rows may hold the memory.
            let shortfall = matrix.new_row_shortfall(shape)?;
            return Some(Shortage::Busy { shortfall, up_pes: machine.usable_pes() });
        }
        let mut closest = None;
        for row in matrix.rows() {
            let shortfall = matrix.row_shortfall(row.slot(), shape)?;
            let missing = shortfall.needed - shortfall.have;
            if closest.is_none_or(|(_, _, least)| missing < least) {
                closest = Some((row.slot(), shortfall, missing));
            }
        }
        closest.map(|(closest, shortfall, _)| Shortage::MatrixFull {
            limit: matrix.limit().get(),
            closest,
            shortfall,
        })
    }
}

/// Places a job in the first row that fits, else in a new one.
fn place(matrix: &mut Matrix, request: &JobRequest) -> Option<(Slot, Placement)> {
    [Fit::Block, Fit::Pieces].into_iter().find_map(|fit| {
        let vacant = matrix.vacant_slot();
        let slots: Vec<Slot> = matrix.rows().map(crate::Row::slot).chain(vacant).collect();
        slots.into_iter().find_map(|slot| Some((slot, matrix.place(request, slot, fit)?)))
    })
}

impl Policy for Gang {
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
                | Change::Reordered
                | Change::ColumnsGained,
            ) => self.start_prefix(&mut actions),
            Ok(Change::Restored) => self.activate_if_idle(&mut actions),
            Ok(Change::SliceEdge) => self.rotate(&mut actions),
            Ok(Change::Quantum(quantum)) => self.quantum = quantum,
            Ok(
                Change::Queued { first: false }
                | Change::Withdrawn { first: false }
                | Change::ColumnsLost,
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

    fn rotation(&self) -> Option<Vec<u64>> {
        // The cursor passes the rows in cyclic order; nothing else changes.
        Some(self.partition.matrix.active().map(|slot| u64::from(slot.0)).into_iter().collect())
    }

    fn next_edge_needed(&self) -> bool {
        self.partition.matrix.row_count() > 1
    }

    fn quantum(&self) -> Option<Duration> {
        Some(self.quantum.duration())
    }

    fn machine(&self) -> &Machine {
        self.partition.matrix.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.partition.matrix.check()
    }
}
