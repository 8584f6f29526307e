//! First fit: the first row with enough free columns, and in it the lowest free columns.

use super::{Scheme, first_row};
use crate::{Fit, JobRequest, Matrix, Placement, Slot};

/// The first row with enough free columns.
#[derive(Debug, Clone, Copy)]
pub struct FirstFit;

impl Scheme for FirstFit {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        slots: &[Slot],
    ) -> Option<(Slot, Placement)> {
        first_row(matrix, request, slots.iter().copied(), Fit::Left)
    }
}
