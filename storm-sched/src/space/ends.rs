//! The jobs that hold PEs, by their estimated ends. A change costs O(log n), and the next ends come
//! first.

use std::collections::BTreeMap;

use crate::job_map::JobMap;
use crate::{JobId, SchedTime};

/// Estimated ends, with the PEs that come free at each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    by_end: BTreeMap<(SchedTime, JobId), u32>,
    /// The end of each job. The map is looked up and never walked, so its order does not matter.
    end_of: JobMap<SchedTime>,
}

impl Ends {
    /// Notes that a job holds that many PEs until its end.
    pub(crate) fn insert(&mut self, job: JobId, end: SchedTime, pes: u32) {
        self.remove(job);
        self.end_of.insert(job, end);
        self.by_end.insert((end, job), pes);
    }

    /// Notes that a job holds nothing any more.
    pub(crate) fn remove(&mut self, job: JobId) {
        if let Some(end) = self.end_of.remove(&job) {
            self.by_end.remove(&(end, job));
        }
    }

    /// Notes that the number of PEs of a job has changed.
    pub(crate) fn set_pes(&mut self, job: JobId, pes: u32) {
        let end = self.end_of.get(&job);
        if let Some(held) = end.and_then(|end| self.by_end.get_mut(&(*end, job))) {
            *held = pes;
        }
    }

    /// The end of a job that holds PEs, and their number.
    pub(crate) fn of(&self, job: JobId) -> Option<(SchedTime, u32)> {
        let end = *self.end_of.get(&job)?;
        Some((end, *self.by_end.get(&(end, job))?))
    }

    /// Whether a job holds PEs.
    pub(crate) fn contains(&self, job: JobId) -> bool {
        self.end_of.contains_key(&job)
    }

    /// The PEs of the jobs whose ends are not after `now`.
    pub(crate) fn overdue_pes(&self, now: SchedTime) -> u32 {
        // Few jobs are overdue, and they come first.
        self.by_end.iter().take_while(|((end, _), _)| *end <= now).map(|(_, pes)| pes).sum()
    }

    /// The ends after `now`, ascending, with the PEs that come free.
    pub(crate) fn after(&self, now: SchedTime) -> impl Iterator<Item = (SchedTime, u32)> + '_ {
        let later = self.by_end.iter().skip_while(move |((end, _), _)| *end <= now);
        later.map(|((end, _), pes)| (*end, *pes))
    }

    /// All jobs, by their ends.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, SchedTime, u32)> + '_ {
        self.by_end.iter().map(|((end, job), pes)| (*job, *end, *pes))
    }
}
