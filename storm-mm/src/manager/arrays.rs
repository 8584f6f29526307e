//! Arrays of jobs: one submission, one entry of the journal, and a job for each index.
//!
//! The array has a number of its own. Its jobs have the numbers that follow, in the order of their
//! indices (`docs/decisions/0043`).

use super::{Core, Immediate};
use crate::api::{ApiError, ErrorCode, Peer};
use storm_primitives::Instant;
use storm_rm::{JobId, PartitionId};

impl Core {
    /// Hands jobs of an array to their policy, as many as the array's limit allows.
    pub(super) fn fill_array(&mut self, now: Instant, unit: JobId) {
        if self.jobs.fill_later(unit) {
            return;
        }
        // Each turn takes a job out of the waiting jobs, or is the last.
        loop {
            let Some(array) = self.jobs.needs().array(unit) else { return };
            if array.limit().is_none() || !array.has_room() {
                return;
            }
            let mut waiting = self.jobs.needs().waiting_of(unit);
            let Some(next) = waiting.find(|job| self.obstacle(now, *job).is_none()) else { return };
            drop(waiting);
            self.reconsider(now, next);
        }
    }

    /// Acts on many jobs at once. Arrays and queues are dealt with only at the end, since each end
    /// of a job would have all waiting jobs checked.
    pub(super) fn together<T>(&mut self, now: Instant, act: impl FnOnce(&mut Core) -> T) -> T {
        if self.jobs.begin_together() {
            return act(self);
        }
        let outcome = act(self);
        let units = self.jobs.end_together();
        for id in self.partitions.ids() {
            self.tell_untold(now, id);
        }
        for unit in units {
            self.fill_array(now, unit);
        }
        outcome
    }

    /// Notifies a policy of all jobs that were submitted or withdrawn in one request together.
    pub(super) fn tell_untold(&mut self, now: Instant, id: PartitionId) {
        let untold = self.partitions.take_untold(id);
        if !untold.is_empty() {
            self.handle_together(now, id, untold);
            self.effects.immediate.push(Immediate::SlicesChanged(id));
        }
    }

    /// Acts on the jobs that the number `job` stands for, if they are the user's. For an array,
    /// success with one job is enough.
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
        let is_array = jobs.iter().any(|one| *one != job);
        let mut outcomes = self
            .together(now, |core| jobs.into_iter().map(|job| act(core, job)).collect::<Vec<_>>());
        let has_ended = |one: &Result<(), ApiError>| {
            one.as_ref().is_err_and(|error| error.code == ErrorCode::JobEnded)
        };
        if is_array && outcomes.iter().all(has_ended) {
            let message = format!("job {job} has ended: all jobs of the array are over");
            return Err(ApiError::new(ErrorCode::JobEnded, message));
        }
        match outcomes.iter().any(Result::is_ok) {
            true => Ok(()),
            false => outcomes.pop().unwrap_or(Ok(())),
        }
    }
}
