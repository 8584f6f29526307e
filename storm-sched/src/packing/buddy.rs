//! Buddy packing: blocks of a power of two, aligned, so that what one job
//! leaves behind is what another one needs, in this row and in others.
//!
//! Two additions: a job for which no aligned block exists even in an empty row
//! (odd sizes, dead nodes) may have pieces of any row; and so may any job
//! before it has to wait for the multiprogramming limit.

use super::{Scheme, first_row};
use crate::{Fit, JobRequest, Matrix, Placement, Slot};

/// The first row with an aligned block, else a new one.
#[derive(Debug, Clone, Copy)]
pub struct Buddy;

impl Scheme for Buddy {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        slots: &[Slot],
    ) -> Option<(Slot, Placement)> {
        first_row(matrix, request, slots.iter().copied(), Fit::Block)
            .or_else(|| first_row(matrix, request, slots.iter().copied(), Fit::Pieces))
    }

    fn most_columns(&self, procs: u32) -> u32 {
        procs.checked_next_power_of_two().unwrap_or(procs)
    }
}
