//! Slices that a strobe ordered: when they begin, and which jobs they switch if nothing happens
//! before.

use super::job::LocalJob;
use super::{Action, NodeCore};
use crate::{JobKey, SwitchedJobs};
use std::collections::BTreeMap;
use std::sync::Arc;
use storm_rm::Row;
use storm_rm::message::{Slices, Strobe};

/// The beginning of a future slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceAhead {
    /// Its position after the slice of the strobe that ordered it.
    pub(crate) index: usize,
    pub(crate) strobe: Strobe,
    pub(crate) jobs: Arc<SwitchedJobs>,
}

impl NodeCore {
    /// Begins a slice that an earlier strobe ordered.
    pub(super) fn begin_slice(&mut self, strobe: Strobe, actions: &mut Vec<Action>) {
        let Strobe { partition, row, number, .. } = strobe;
        let Some(active) = self.partitions.get_mut(&partition) else { return };
        // A newer order may have come in the same instant.
        if active.follows && active.strobe < number {
            (active.row, active.yields_to, active.strobe) = (row, None, number);
            self.reschedule(Some(partition), Some(strobe), actions);
        }
    }

    /// The slices of these that have not begun; none if the Machine Manager has changed its orders.
    /// [`Event::SliceBegins`](crate::Event) switches the given jobs, unless another event comes
    /// first.
    pub(crate) fn slices_ahead(&self, slices: &Slices) -> Vec<SliceAhead> {
        let partition = slices.strobe.partition;
        let Some(active) = self.partitions.get(&partition).filter(|active| active.follows) else {
            return Vec::new();
        };
        let is_here = |job: &LocalJob| job.is_live() && job.partition == partition;
        let jobs: Vec<(JobKey, &LocalJob)> = self
            .jobs
            .iter()
            .filter(|(_, job)| is_here(job))
            .map(|(key, job)| (*key, job))
            .collect();
        // There are few pairs of successive rows, so the jobs are computed once for each.
        let mut changes: BTreeMap<(Option<Row>, Row), Arc<SwitchedJobs>> = BTreeMap::new();
        let mut former = None;
        let begun = active.strobe.saturating_sub(slices.strobe.number) as usize;
        let rest = (begun + 1..).map_while(|index| Some((index, slices.strobe_of(index)?)));
        let ahead = rest.map(|(index, strobe)| {
            let change = (former.replace(strobe.row), strobe.row);
            let switched = || Arc::new(switched_jobs(&jobs, change));
            let jobs = changes.entry(change).or_insert_with(switched).clone();
            SliceAhead { index, strobe, jobs }
        });
        ahead.collect()
    }
}

/// The jobs to stop and to resume when a row follows another row, or the present state.
fn switched_jobs(jobs: &[(JobKey, &LocalJob)], change: (Option<Row>, Row)) -> SwitchedJobs {
    let (former, row) = change;
    let mut switched = SwitchedJobs::default();
    for (key, job) in jobs {
        let ran = former.map_or(!job.stopped, |former| runs_in(job, former));
        match (ran, runs_in(job, row)) {
            (true, false) => switched.stop.push(*key),
            (false, true) => switched.resume.push(*key),
            (true, true) | (false, false) => {}
        }
    }
    switched
}

/// Whether a job runs here while this row does.
pub(super) fn runs_in(job: &LocalJob, row: Row) -> bool {
    job.graces > 0 || job.rows.contains(row)
}
