//! Alternative scheduling: a job also runs in other rows where all of its columns are idle (A3 of
//! the policy reference). According to the packing study that the paper cites as [5], it makes
//! buddy packing efficient.
//!
//! A guest never keeps a job out of the row. When a job is placed there, the guest leaves. Jobs of
//! different rows that want the same columns take turns, cyclically by id. Each time the row runs,
//! the next waiting job displaces the guests in its way.
//!
//! When nothing can change any more, a strobe costs nothing per PE or job here. Until then, it
//! examines at most [`MAX_EXAMINED`] jobs.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use super::Holding;
use crate::{ColumnSet, JobId, Matrix, MatrixRow, Row};

/// The most jobs examined for one row at one strobe: more than 30 in each of the default eight
/// rows, which takes about 10 us. The other jobs are examined at the next strobes.
pub const MAX_EXAMINED: usize = 256;

/// The rows of a job, after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The job.
    pub job: JobId,
    /// The home row.
    pub home: Row,
    /// The other rows that the job runs in, ascending.
    pub alternates: Vec<Row>,
}

impl Matrix {
    /// Lets jobs of other rows run in a live row where their columns are idle. With `turn`, the
    /// next job that waits because of guests displaces them.
    pub fn fill(&mut self, number: Row, turn: bool) {
        let Some(row) = self.row(number).filter(|row| !row.guests.is_settled()) else { return };
        let last = row.guests.turn();
        let whole_round = self.jobs.len() <= MAX_EXAMINED;
        let examined = if whole_round { self.eligible(number) } else { self.some_after(last) };
        let (mut waits, mut had_turn) = (false, None);
        let mut came = BTreeSet::new();
        let next = if whole_round { examined.partition_point(|job| *job <= last) } else { 0 };
        let (before, after) = examined.split_at(next);
        for &job in after.iter().chain(before) {
            let Some(rivals) = self.rivals(number, job) else { continue };
            if !rivals.is_empty() {
                waits = true;
                // A guest that has just arrived has not had its turn.
                if !turn || had_turn.is_some() || !rivals.is_disjoint(&came) {
                    continue;
                }
                had_turn = Some(job);
                rivals.into_iter().for_each(|rival| self.dismiss(number, rival));
            }
            self.admit(number, job);
            came.insert(job);
        }
        let partly = examined.last().copied().filter(|_| turn && !whole_round);
        let guests = &mut self.rows[number.0 as usize].guests;
        guests.set_turn(had_turn.or(partly).unwrap_or(last));
        guests.set_settled(whole_round && !waits);
        if whole_round {
            guests.set_eligible(examined);
        }
    }

    /// The jobs of other rows whose columns are idle in this row, by id.
    fn eligible(&mut self, number: Row) -> Vec<JobId> {
        if let Some(known) = self.rows[number.0 as usize].guests.take_eligible() {
            return known;
        }
        let row = &self.rows[number.0 as usize];
        let jobs = self.jobs.iter().filter(|(_, holding)| Self::is_eligible(row, holding));
        jobs.map(|(job, _)| *job).collect()
    }

    /// The jobs to examine at one strobe, in cyclic order, from the one after `last`.
    fn some_after(&self, last: JobId) -> Vec<JobId> {
        let after = self.jobs.range((Excluded(last), Unbounded));
        let order = after.chain(self.jobs.range(..=last)).map(|(job, _)| *job);
        order.take(MAX_EXAMINED).collect()
    }

    /// The jobs whose rows have changed since the last call, in order of the changes: a former
    /// guest precedes the guests that replaced it.
    pub fn take_row_changes(&mut self) -> Vec<RowChange> {
        let changed = std::mem::take(&mut self.changed);
        let of_job = |job: JobId| {
            let holding = self.jobs.get(&job)?;
            let alternates = holding.alternates.iter().copied().collect();
            Some(RowChange { job, home: holding.home, alternates })
        };
        changed.into_iter().filter_map(of_job).collect()
    }

    /// The place of the running row in the rotation: its guests, and the guest whose turn it was. A
    /// slice edge changes only this place and the choice of the row. Edges of other rows do not
    /// change it.
    #[must_use]
    pub fn rotation(&self) -> Vec<u64> {
        let Some(number) = self.active() else { return Vec::new() };
        let guests = &self.rows[number.0 as usize].guests;
        let mut place = Vec::with_capacity(guests.jobs().len() + 2);
        place.extend([u64::from(guests.is_settled()), guests.turn().0]);
        place.extend(guests.jobs().iter().map(|job| job.0));
        place
    }

    /// Whether turns alone neither add guests to any row nor remove them.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.live.rows().all(|number| self.rows[number.0 as usize].guests.is_settled())
    }

    /// The guests in the way of a job that could be a guest of a live row; `None` if it could not,
    /// or already is one.
    fn rivals(&self, number: Row, job: JobId) -> Option<BTreeSet<JobId>> {
        let (row, holding) = (self.row(number)?, self.jobs.get(&job)?);
        let may_come = !row.guests.contains(job) && Self::is_eligible(row, holding);
        may_come.then(|| row.guests.overlapping(&holding.busy))
    }

    fn is_eligible(row: &MatrixRow, holding: &Holding) -> bool {
        holding.home != row.number() && row.is_idle(&holding.busy)
    }

    fn admit(&mut self, number: Row, job: JobId) {
        if let Some(holding) = self.jobs.get_mut(&job) {
            holding.alternates.insert(number);
            self.rows[number.0 as usize].guests.admit(job, &holding.busy);
            // A guest is reported after all jobs that made room for it.
            self.changed.retain(|changed| *changed != job);
            self.changed.push(job);
        }
    }

    pub(super) fn dismiss(&mut self, number: Row, job: JobId) {
        if let Some(holding) = self.jobs.get_mut(&job) {
            holding.alternates.remove(&number);
            self.rows[number.0 as usize].guests.dismiss(job, &holding.busy);
            self.note_change(job);
        }
    }

    /// Removes the guests on these columns of a row.
    pub(super) fn evict(&mut self, number: Row, columns: &ColumnSet) {
        for guest in self.rows[number.0 as usize].guests.overlapping(columns) {
            self.dismiss(number, guest);
        }
    }

    /// Jobs or columns have changed: every row may have room for guests.
    pub(super) fn unsettle(&mut self) {
        for number in self.live.rows() {
            self.rows[number.0 as usize].guests.unsettle();
        }
    }

    pub(super) fn note_change(&mut self, job: JobId) {
        if !self.changed.contains(&job) {
            self.changed.push(job);
        }
    }
}
