//! Slices that a strobe ordered: their beginning, and what they will switch when nothing happens
//! before.

use super::job::LocalJob;
use super::{Action, NodeCore};
use crate::JobKey;
use std::collections::BTreeSet;
use storm_rm::Row;
use storm_rm::message::{Slices, Strobe};

/// The beginning of a slice to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceAhead {
    /// Its place after the slice of the strobe that ordered it.
    pub(crate) index: usize,
    pub(crate) strobe: Strobe,
    pub(crate) stop: Vec<JobKey>,
    pub(crate) resume: Vec<JobKey>,
}

impl NodeCore {
    /// A slice begins that an earlier strobe ordered.
    pub(super) fn begin_slice(&mut self, strobe: Strobe, actions: &mut Vec<Action>) {
        let Strobe { partition, row, number, .. } = strobe;
        let Some(active) = self.partitions.get_mut(&partition) else { return };
        // What recalled it may have come in the same instant.
        if active.follows && active.strobe < number {
            (active.row, active.yields_to, active.strobe) = (row, None, number);
            self.reschedule(Some(partition), Some(strobe), actions);
        }
    }

    /// The slices of these that have not begun: none when the Machine Manager has said otherwise.
    /// To begin one ([`Event::SliceBegins`](crate::Event)) switches what is said here, unless this
    /// node hears of something else before.
    pub(crate) fn slices_ahead(&self, slices: &Slices) -> Vec<SliceAhead> {
        let partition = slices.strobe.partition;
        let Some(active) = self.partitions.get(&partition).filter(|active| active.follows) else {
            return Vec::new();
        };
        let is_here = |job: &LocalJob| job.is_live() && job.task.launch.partition == partition;
        let jobs: Vec<(JobKey, &LocalJob)> = self
            .jobs
            .iter()
            .filter(|(_, job)| is_here(job))
            .map(|(key, job)| (*key, job))
            .collect();
        let stopped = jobs.iter().filter(|(_, job)| job.stopped);
        let mut stopped: BTreeSet<JobKey> = stopped.map(|(key, _)| *key).collect();
        let begun = active.strobe.saturating_sub(slices.strobe.number) as usize;
        let rest = (begun + 1..).map_while(|index| Some((index, slices.strobe_of(index)?)));
        let ahead = rest.map(|(index, strobe)| {
            let (mut stop, mut resume) = (Vec::new(), Vec::new());
            for (key, job) in &jobs {
                if runs_in(job, strobe.row) {
                    resume.extend(stopped.remove(key).then_some(*key));
                } else {
                    stop.extend(stopped.insert(*key).then_some(*key));
                }
            }
            SliceAhead { index, strobe, stop, resume }
        });
        ahead.collect()
    }
}

/// Whether a job runs here while this row does.
pub(super) fn runs_in(job: &LocalJob, row: Row) -> bool {
    job.graces > 0 || job.rows.contains(row)
}
