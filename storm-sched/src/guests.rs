//! The guests of a row: jobs of other rows that also run in this row, on columns that are idle here
//! (alternative scheduling; A3 of the policy reference).
//!
//! This module only keeps the account. [`crate::Matrix::fill`] chooses the guests.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ColumnSet, JobId};

/// The guests of one row.
#[derive(Debug, Clone)]
pub(crate) struct Guests {
    /// The columns of guests: by first column, the end and the job.
    columns: BTreeMap<u32, (u32, JobId)>,
    jobs: BTreeSet<JobId>,
    /// The job that had its turn last: the job after it has the next turn.
    turn: JobId,
    settled: bool,
    /// The jobs whose columns are idle in the row, by id. `None` while they are not known.
    eligible: Option<Vec<JobId>>,
}

impl Default for Guests {
    fn default() -> Self {
        let (columns, jobs) = (BTreeMap::new(), BTreeSet::new());
        Self { columns, jobs, turn: JobId(0), settled: true, eligible: None }
    }
}

impl Guests {
    pub(crate) fn jobs(&self) -> &BTreeSet<JobId> {
        &self.jobs
    }

    pub(crate) fn contains(&self, job: JobId) -> bool {
        self.jobs.contains(&job)
    }

    /// The guests on some of these columns.
    pub(crate) fn overlapping(&self, columns: &ColumnSet) -> BTreeSet<JobId> {
        let mut found = BTreeSet::new();
        if self.jobs.is_empty() {
            return found;
        }
        for range in columns.ranges() {
            // The ranges of guests are disjoint, so only the last one that begins earlier can reach
            // into this range.
            let before = self.columns.range(..range.start).next_back();
            found
                .extend(before.filter(|(_, (end, _))| *end > range.start).map(|(_, (_, job))| job));
            found.extend(self.columns.range(range.clone()).map(|(_, (_, job))| job));
        }
        found
    }

    /// Admits a job. No other guest may have its columns.
    pub(crate) fn admit(&mut self, job: JobId, columns: &ColumnSet) {
        self.jobs.insert(job);
        for range in columns.ranges() {
            self.columns.insert(range.start, (range.end, job));
        }
    }

    /// Sends a guest away.
    pub(crate) fn dismiss(&mut self, job: JobId, columns: &ColumnSet) {
        if self.jobs.remove(&job) {
            for range in columns.ranges() {
                self.columns.remove(&range.start);
            }
        }
    }

    /// Whether another search for guests would find none.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn set_settled(&mut self, settled: bool) {
        self.settled = settled;
    }

    /// Records that jobs or columns have changed.
    pub(crate) fn unsettle(&mut self) {
        (self.settled, self.eligible) = (false, None);
    }

    /// Takes out the jobs that could be guests. `None` if jobs or columns have changed since they
    /// were found.
    pub(crate) fn take_eligible(&mut self) -> Option<Vec<JobId>> {
        self.eligible.take()
    }

    /// Sets the jobs that could be guests, by id, until jobs or columns change.
    pub(crate) fn set_eligible(&mut self, eligible: Vec<JobId>) {
        self.eligible = Some(eligible);
    }

    pub(crate) fn turn(&self) -> JobId {
        self.turn
    }

    pub(crate) fn set_turn(&mut self, turn: JobId) {
        self.turn = turn;
    }
}
