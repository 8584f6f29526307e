//! Unification ("slot unification" in A3 of the policy reference): rows with disjoint columns are
//! merged, so the jobs of both run twice as often.
//!
//! The row that runs sooner stays, so no job waits longer than before. The active row always stays.

use crate::{JobId, Matrix, Row};

impl Matrix {
    /// Merges rows as long as two of them hold disjoint columns. Returns whether any were merged.
    pub fn unify(&mut self) -> bool {
        let mut order: Vec<Row> = self.cyclic_order();
        let before = order.len();
        let mut first = 0;
        while first < order.len() {
            let into = order[first];
            let mut kept = first + 1;
            for at in first + 1..order.len() {
                let from = order[at];
                if self.are_disjoint(into, from) {
                    self.merge(into, from);
                } else {
                    order[kept] = from;
                    kept += 1;
                }
            }
            order.truncate(kept);
            first += 1;
        }
        order.len() < before
    }

    /// The live rows in the order in which they run, the active one first.
    fn cyclic_order(&self) -> Vec<Row> {
        let active = self.active();
        let others = self.live.in_turn().filter(|row| active != Some(*row));
        active.into_iter().chain(others).collect()
    }

    fn are_disjoint(&self, one: Row, other: Row) -> bool {
        let rows = (self.row(one), self.row(other));
        let (Some(one), Some(other)) = rows else { return false };
        one.taken().is_disjoint(other.taken())
    }

    fn merge(&mut self, into: Row, from: Row) {
        let jobs: Vec<JobId> = self.rows[from.0 as usize].jobs().iter().copied().collect();
        for job in jobs {
            self.dismiss(into, job);
            let Some(holding) = self.jobs.get_mut(&job) else { continue };
            holding.home = into;
            let (columns, busy) = (holding.columns.clone(), holding.busy.clone());
            let on_hole = holding.on_hole;
            self.rows[from.0 as usize].release(&self.machine, job, &columns, on_hole);
            self.evict(into, &busy);
            self.rows[into.0 as usize].hold(job, &columns, &busy);
            self.note_change(job);
        }
        self.delete_row(from);
        self.unsettle();
    }
}
