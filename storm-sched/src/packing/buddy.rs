//! Buddy packing: aligned blocks of a power of two. A block that one job leaves fits other jobs, in
//! this row and in others.
//!
//! A job gets the least loaded block of its size, as with a controller for each block that counts
//! the jobs of all rows (distributed hierarchical control). It gets the block in the first row
//! where the block is free, or in a new row. Jobs that are spread over the blocks in this way leave
//! whole blocks idle in many rows. Alternative scheduling needs such blocks.
//!
//! There are two exceptions. A job for which no aligned block exists even in an empty row (odd
//! sizes, dead nodes) may get pieces of any row. So may any job that would otherwise wait for the
//! multiprogramming limit.

use std::ops::Range;

use super::{Scheme, first_row, loads};
use crate::shape::Shape;
use crate::{ColumnSet, Fit, JobRequest, Matrix, Pe, Placement, Row};

/// The least loaded block, in the first row that has it free.
#[derive(Debug, Clone, Copy)]
pub struct Buddy;

impl Scheme for Buddy {
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        rows: &[Row],
    ) -> Option<(Row, Placement)> {
        least_loaded_block(matrix, request, rows)
            .or_else(|| first_row(matrix, request, rows.iter().copied(), Fit::Block))
            .or_else(|| first_row(matrix, request, rows.iter().copied(), Fit::Pieces))
    }

    fn most_columns(&self, procs: u32) -> u32 {
        procs.checked_next_power_of_two().unwrap_or(procs)
    }
}

fn least_loaded_block(
    matrix: &mut Matrix,
    request: &JobRequest,
    rows: &[Row],
) -> Option<(Row, Placement)> {
    let Shape::Pes(procs) = Shape::of(request) else { return None };
    let blocks = least_loaded(matrix, procs.checked_next_power_of_two()?);
    let place = |row: Row| {
        let free = |block: &&Range<u32>| {
            matrix.row(row).is_none_or(|row| row.is_block_free((*block).clone()))
        };
        let block = blocks.iter().find(free)?;
        let columns = ColumnSet::from_ranges(vec![block.clone()]);
        Some((row, matrix.place_on(request, row, &columns)?))
    };
    rows.iter().copied().find_map(place)
}

/// The blocks of a size with the least load, among those whose nodes all take work. Load counts
/// the columns held, over all rows.
fn least_loaded(matrix: &Matrix, size: u32) -> Vec<Range<u32>> {
    let (machine, loads) = (matrix.machine(), loads(matrix));
    let mut least = None;
    let mut blocks = Vec::new();
    for (start, columns) in (0..).step_by(size as usize).zip(loads.chunks_exact(size as usize)) {
        let load: u64 = columns.iter().copied().map(u64::from).sum();
        let block = start..start + size;
        if least.is_some_and(|least| load > least)
            || !block.clone().all(|c| machine.is_usable(Pe(c)))
        {
            continue;
        }
        if least != Some(load) {
            blocks.clear();
            least = Some(load);
        }
        blocks.push(block);
    }
    blocks
}
