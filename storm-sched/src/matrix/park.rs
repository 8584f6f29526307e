//! Jobs that are stopped for others. They move to a row that never runs, and keep their columns and
//! their memory.

use crate::{ColumnSet, JobId, Matrix, MatrixRow, Row};

impl Matrix {
    /// Moves a job with its columns to another row. Returns false and changes nothing if one of the
    /// columns is taken there, `to` is beyond the limit, or the job is not in the matrix.
    pub(crate) fn shift(&mut self, job: JobId, to: Row) -> bool {
        if !self.could_shift(job, to) || self.ensure_row(to).is_none() {
            return false;
        }
        let Some(holding) = self.jobs.get_mut(&job) else { return false };
        let from = std::mem::replace(&mut holding.home, to);
        let (columns, busy) = (holding.columns.clone(), holding.busy.clone());
        let row = &mut self.rows[from.0 as usize];
        row.release(&self.machine, job, &columns, holding.on_hole);
        let empty = !row.is_live();
        if empty {
            self.delete_row(from);
        }
        self.live.insert(to);
        self.evict(to, &busy);
        self.rows[to.0 as usize].hold(job, &columns, &busy);
        self.unsettle();
        true
    }

    /// Whether no job has the columns of `job` in a row.
    pub(crate) fn could_shift(&self, job: JobId, to: Row) -> bool {
        let Some(holding) = self.jobs.get(&job) else { return false };
        let Some(row) = self.rows.get(to.0 as usize) else { return to.0 < self.limit.get() };
        holding.home != to
            && to.0 < self.limit.get()
            && !holding.columns.ranges().iter().any(|range| {
                row.taken().contains_any_in_range(range.start as usize..range.end as usize)
            })
    }

    /// A row that is live or was once live. Columns may be withheld in either.
    pub(crate) fn row_or_vacant(&self, number: Row) -> Option<&MatrixRow> {
        self.rows.get(number.0 as usize)
    }

    /// Withholds the free columns among these columns of a row from all jobs, and withholds no
    /// others.
    pub(crate) fn withhold(&mut self, number: Row, columns: &[ColumnSet]) {
        if self.ensure_row(number).is_some() {
            self.rows[number.0 as usize].withhold(&self.machine, columns);
        }
    }

    /// Makes this row the active one, if it is live.
    pub(crate) fn run_row(&mut self, number: Row) -> bool {
        if self.row(number).is_none() {
            return false;
        }
        // Passes every row at most as many times as there are rows.
        for _ in 0..=self.row_count() {
            if self.active() == Some(number) {
                return true;
            }
            self.advance();
        }
        self.active() == Some(number)
    }
}
