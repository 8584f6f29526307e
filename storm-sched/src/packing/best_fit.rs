//! Best fit: among the rows with enough free columns, the first row with the fewest, and its lowest
//! columns. A new row is opened only if no live row has enough.

use super::{Scheme, first_row};
use crate::{Fit, JobRequest, Matrix, MatrixRow, Placement, Row};

/// The fullest row that has room.
#[derive(Debug, Clone, Copy)]
pub struct BestFit;

impl Scheme for BestFit {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        rows: &[Row],
    ) -> Option<(Row, Placement)> {
        let mut order = rows.to_vec();
        // A row that is not live yet comes after all live rows.
        order.sort_by_key(|&row| (matrix.row(row).map_or(u32::MAX, MatrixRow::free_pes), row));
        first_row(matrix, request, order, Fit::Left)
    }
}
