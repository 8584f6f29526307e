//! First fit: the first row with enough free columns, and in it the lowest free columns.

use super::{Scheme, first_row};
use crate::{Fit, JobRequest, Matrix, Placement, Row};

/// The first row with enough free columns.
#[derive(Debug, Clone, Copy)]
pub struct FirstFit;

impl Scheme for FirstFit {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        rows: &[Row],
    ) -> Option<(Row, Placement)> {
        first_row(matrix, request, rows.iter().copied(), Fit::Left)
    }
}
