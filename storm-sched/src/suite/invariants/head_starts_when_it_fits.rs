//! The head of the queue does not wait when there is room for it, in a row or in a row that may be
//! opened. The check is brute force over the sets of PEs.
//!
//! The free PEs of a row follow from the columns that, according to the policy, its jobs hold.
//! Another invariant checks that jobs hold no more than they may.

use super::{Invariant, Violation};
use crate::suite::{Step, oracle};
use crate::{ColumnSet, JobId, MplLimit, Row, RowView};

/// The head starts as soon as it fits.
#[derive(Debug)]
pub struct HeadStartsWhenItFits(pub MplLimit);

#[derive(Debug, thiserror::Error)]
enum Waits {
    #[error("job {head} waits and would fit row {row}")]
    Fits { head: JobId, row: Row },
    #[error("job {head} waits, {rows} of {limit} rows are live, and it would fit a new one")]
    FitsNewRow { head: JobId, rows: usize, limit: u32 },
}

impl Invariant for HeadStartsWhenItFits {
    fn name(&self) -> &'static str {
        "the head starts as soon as it fits"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let Some(request) = step.after.queue.first() else { return Ok(()) };
        let (head, machine) = (request.id, &step.after.machine);
        let rows = step.policy.rows();
        let taken = |row: &RowView| -> Vec<_> {
            row.jobs.iter().flat_map(|job| ColumnSet::columns(&job.columns)).collect()
        };
        let held = oracle::held_bytes(step.after);
        let fits = |row: &RowView| {
            let free = oracle::free_pes(machine, taken(row).into_iter());
            oracle::fits_beside(machine, &free, &held, request)
        };
        if let Some(row) = rows.iter().find(|row| fits(row)) {
            return Err(Waits::Fits { head, row: row.number }.into());
        }
        let limit = self.0.get();
        let new_row = rows.len() < limit as usize;
        if new_row && oracle::fits_beside(machine, &step.after.usable(), &held, request) {
            return Err(Waits::FitsNewRow { head, rows: rows.len(), limit }.into());
        }
        Ok(())
    }
}
