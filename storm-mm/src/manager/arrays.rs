//! Arrays of jobs: one submission, one entry of the journal, and a job for each index.
//!
//! The array has a number of its own, and its jobs those that follow, in the order of
//! their indices (`docs/decisions/0043`).

use super::Core;
use super::needs_table::Array;
use crate::api::{ApiError, ErrorCode, Peer};
use crate::job::Phase;
use std::collections::BTreeSet;
use storm_primitives::Instant;
use storm_rm::{ArrayError, ArraySpec, JobId};

impl Core {
    /// The array of a job of one.
    pub(super) fn array_of(&mut self, job: JobId) -> Option<&mut Array> {
        let task = self.jobs.get(&job)?.task?;
        self.needs.arrays.get_mut(&task.array)
    }

    /// How many jobs an array makes, if it is one that may be.
    pub(super) fn array_size(&self, array: &ArraySpec) -> Result<u64, ApiError> {
        let most = self.config.array_max;
        let indices = array.indices(most).map_err(|why| {
            let code = match why {
                ArrayError::TooLarge { .. } => ErrorCode::TooLarge,
                ArrayError::Syntax(_) | ArrayError::Empty => ErrorCode::BadRequest,
            };
            ApiError::new(code, "the array cannot be submitted")
                .why(why.to_string())
                .hint(format!("an array has at most {most} jobs here (array-max)"))
        })?;
        Ok(indices.len() as u64)
    }

    /// Lets jobs of an array go to their policy while its limit allows it.
    pub(super) fn fill_array(&mut self, now: Instant, unit: JobId) {
        if let Some(later) = &mut self.needs.fill_later {
            later.insert(unit);
            return;
        }
        // Each turn takes a job out of those that wait, or is the last.
        loop {
            let Some(array) = self.needs.arrays.get(&unit) else { return };
            let limited =
                array.spec.needs.array.as_ref().is_some_and(|array| array.limit.is_some());
            if !limited || !array.has_room() {
                return;
            }
            let last = JobId(unit.0.saturating_add(u64::from(array.size)));
            let mut waiting = self.needs.waiting.range(unit..=last).copied();
            let Some(next) = waiting.find(|job| self.obstacle(now, *job).is_none()) else { return };
            self.reconsider(now, next);
        }
    }

    /// The jobs that a number stands for: itself, or those of an array.
    pub(super) fn jobs_of(&self, job: JobId) -> Vec<JobId> {
        if self.needs.arrays.contains_key(&job) {
            let known = |task: &JobId| self.jobs.contains_key(task);
            self.needs.tasks_of(job).into_iter().filter(known).collect()
        } else {
            vec![job]
        }
    }

    /// The job that a question about a number is about: of an array the first that has not
    /// ended, or else the last.
    pub(super) fn one_of(&self, job: JobId) -> JobId {
        let jobs = self.jobs_of(job);
        let goes_on = |job: &&JobId| {
            let record = self.jobs.get(job);
            record.is_some_and(|record| !matches!(record.phase, Phase::Ended(_)))
        };
        jobs.iter().find(goes_on).or(jobs.last()).copied().unwrap_or(job)
    }

    /// Does something to the jobs that the number `job` stands for, if they are the user's;
    /// of an array it is enough that it can be done to one.
    pub(super) fn each_of(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        jobs: Vec<JobId>,
        mut act: impl FnMut(&mut Core, JobId) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let first = jobs.first().and_then(|job| self.jobs.get(job));
        if let Some(record) = first
            && record.spec.owner.uid != peer.uid
            && !self.is_admin(peer)
        {
            let message = format!("job {job} belongs to another user");
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        // An array is filled once they are done: each end would look at all that wait.
        self.needs.fill_later = Some(BTreeSet::new());
        let mut outcomes = jobs.into_iter().map(|job| act(self, job)).collect::<Vec<_>>();
        for unit in self.needs.fill_later.take().unwrap_or_default() {
            self.fill_array(now, unit);
        }
        match outcomes.iter().any(Result::is_ok) {
            true => Ok(()),
            false => outcomes.pop().unwrap_or(Ok(())),
        }
    }
}
