//! The reasons why suspended jobs do not continue.

use crate::space::{ROW, Space};
use crate::{JobId, PendingReason};

impl Space {
    /// The reason why a suspended job does not continue; `None` if the job is not suspended.
    pub(super) fn explain_suspended(&self, job: JobId) -> Option<PendingReason> {
        let left = self.left_of(job)?;
        let matrix = &self.partition().matrix;
        let (request, columns) = (matrix.request(job)?, matrix.columns(job)?);
        let holds = |other: &JobId| {
            matrix.home(*other) == Some(ROW)
                && matrix.columns(*other).is_some_and(|theirs| columns.meets(theirs))
        };
        let mut holders = matrix.jobs().filter(holds);
        if let Some(first) = holders.next() {
            return Some(PendingReason::Suspended { first, others: holders.count() });
        }
        let machine = matrix.machine();
        let nodes: Vec<_> = columns.columns().filter_map(|pe| machine.node_of(pe)).collect();
        let until = self.now() + left;
        if let Some(other) = self.book().in_the_way_on(&nodes, request, self.now(), until) {
            let (start, end) = (other.start, other.end);
            return Some(PendingReason::Reserved { reservation: other.id, start, end });
        }
        let mut before = self.over_and_stopped(job).chain(self.promised_jobs());
        let first = before.next()?;
        Some(PendingReason::Suspended { first, others: before.count() })
    }
}
