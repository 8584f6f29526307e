//! Least loaded: the PEs to which the fewest jobs of all rows are mapped. They are taken in the
//! first row where all of them are free, or in a new row.
//!
//! The scheme evens out the load of the PEs and fragments the rows. Published results find it
//! harmful; it exists for comparison. It examines every PE when a job is placed, never at a strobe.
//!
//! A job that would otherwise wait for the multiprogramming limit takes the lowest free columns of
//! any row instead.

use super::{Scheme, first_row, loads};
use crate::shape::Shape;
use crate::{ColumnSet, Fit, JobRequest, Machine, Matrix, Pe, Placement, Row};

/// The PEs with the fewest jobs.
#[derive(Debug, Clone, Copy)]
pub struct LeastLoaded;

impl Scheme for LeastLoaded {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        rows: &[Row],
    ) -> Option<(Row, Placement)> {
        let Shape::Pes(procs) = Shape::of(request) else {
            return first_row(matrix, request, rows.iter().copied(), Fit::Left);
        };
        let chosen = least_loaded(&loads(matrix), matrix.machine(), procs);
        let place = |columns: ColumnSet| {
            let place = |row| Some((row, matrix.place_on(request, row, &columns)?));
            rows.iter().copied().find_map(place)
        };
        chosen
            .and_then(place)
            .or_else(|| first_row(matrix, request, rows.iter().copied(), Fit::Left))
    }
}

/// The least loaded PEs whose nodes take work, the lowest of equals; `None` when there are too
/// few.
fn least_loaded(loads: &[u32], machine: &Machine, procs: u32) -> Option<ColumnSet> {
    let mut order: Vec<Pe> =
        (0..machine.pes()).map(Pe).filter(|pe| machine.is_usable(*pe)).collect();
    order.sort_by_key(|pe| loads[pe.0 as usize]);
    order.truncate(procs as usize);
    let chosen = order.into_iter().map(|pe| pe.0..pe.0 + 1).collect::<Vec<_>>();
    (chosen.len() == procs as usize).then(|| ColumnSet::from_ranges(chosen))
}
