//! Repacking: all jobs are mapped again, as tightly as first fit by decreasing size allows (A3 of
//! the policy reference, "migration").
//!
//! Repacking moves running processes, so it needs a driver with [`crate::Capability::Migration`].

use crate::{Fit, JobId, JobRequest, Matrix, Placement, Row};

/// A job that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The job.
    pub job: JobId,
    /// The PEs now, by rank.
    pub placement: Placement,
    /// The home row now.
    pub row: Row,
}

impl Matrix {
    /// Maps all jobs again, and `newcomer` with them, if this takes fewer rows or makes room for
    /// the newcomer. Returns the jobs that moved, with the newcomer last. Returns `None` and
    /// changes nothing if it does not help.
    pub fn repack(&mut self, newcomer: Option<&JobRequest>) -> Option<Vec<Move>> {
        let mut order: Vec<&JobRequest> =
            self.jobs.values().map(|holding| &holding.request).chain(newcomer).collect();
        order.sort_by_key(|request| (std::cmp::Reverse(request.procs), request.id));
        let mut packed = Self::new(self.machine.clone(), self.limit);
        let mut moves = Vec::new();
        for request in order {
            let rows: Vec<Row> = packed.live.rows().chain(packed.vacant_row()).collect();
            let place = |row| Some((row, packed.place(request, row, Fit::Exact)?));
            let (row, placement) = rows.into_iter().find_map(place)?;
            moves.push(Move { job: request.id, placement, row });
        }
        if newcomer.is_none() && packed.row_count() >= self.row_count() {
            return None;
        }
        let stays = |moved: &Move| {
            self.jobs.get(&moved.job).is_some_and(|holding| {
                let same = packed.jobs.get(&moved.job).is_some_and(|new| new.busy == holding.busy);
                same && holding.home == moved.row && holding.alternates.is_empty()
            })
        };
        moves.retain(|moved| !stays(moved));
        moves.sort_by_key(|moved| newcomer.is_some_and(|newcomer| newcomer.id == moved.job));
        self.become_packed(packed);
        Some(moves)
    }

    fn become_packed(&mut self, packed: Self) {
        let held: u64 = self.jobs.values().map(|holding| u64::from(holding.columns.len())).sum();
        let (taken, freed) = (self.taken_ever_pes, self.freed_ever_pes + held);
        let (cursor, was_active) = (self.cursor, self.active);
        let changed = std::mem::take(&mut self.changed);
        let mut live = std::mem::take(&mut self.live);
        live.replace(packed.live.rows());
        *self = packed;
        self.live = live;
        self.taken_ever_pes += taken;
        self.freed_ever_pes += freed;
        self.cursor = cursor;
        self.active = was_active && self.live.contains(cursor);
        // Earlier changes that were not reported yet must still be reported.
        self.changed = changed;
    }
}
