//! Left-right by size: the first row with enough free columns. Large jobs take its lowest columns,
//! small jobs its highest. So the columns of small jobs line up over all rows, and so do those of
//! large jobs.
//!
//! A job is large if it asks for more than the square root of the machine's PEs. The sizes of
//! parallel jobs spread evenly over the powers of two, so about half of the jobs are large.

use super::{Scheme, first_row};
use crate::{Fit, JobRequest, Matrix, Placement, Row};

/// Large jobs from the left, small ones from the right.
#[derive(Debug, Clone, Copy)]
pub struct LeftRight;

impl Scheme for LeftRight {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        rows: &[Row],
    ) -> Option<(Row, Placement)> {
        let procs = u64::from(request.procs);
        let large = procs * procs > u64::from(matrix.machine().pes());
        let fit = if large { Fit::Left } else { Fit::Right };
        first_row(matrix, request, rows.iter().copied(), fit)
    }
}
