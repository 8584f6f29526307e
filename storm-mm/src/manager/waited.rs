//! The answers to clients that wait for the ends of jobs.

use super::jobs::no_such_job;
use super::{Core, Durable, Notice};
use crate::api::{ApiError, ForgottenJobs, JobView};
use crate::job::Phase;
use std::collections::BTreeSet;
use storm_primitives::Instant;
use storm_rm::JobId;

impl Core {
    /// The jobs that these numbers stand for: the ended ones, and those that have not ended. An
    /// array stands for all its remembered jobs.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: there is no such job.
    pub fn waited_for(
        &self,
        now: Instant,
        jobs: &[JobId],
    ) -> Result<(Vec<JobView>, BTreeSet<JobId>), ApiError> {
        let (mut ended, mut left) = (BTreeSet::new(), BTreeSet::new());
        for job in jobs {
            for one in self.jobs.of(*job) {
                let record = self.jobs.get(&one).ok_or_else(|| no_such_job(*job))?;
                let over = matches!(record.phase, Phase::Ended(_));
                if over {
                    ended.insert(one)
                } else {
                    left.insert(one)
                };
            }
        }
        let views = ended.into_iter().filter_map(|job| self.ended_view(now, job));
        Ok((views.collect(), left))
    }

    /// For the arrays among `jobs`: the summaries of their forgotten jobs.
    pub fn forgotten_of(&self, jobs: &[JobId]) -> Vec<ForgottenJobs> {
        let arrays = jobs.iter().filter_map(|job| self.jobs.needs().array(*job));
        arrays.map(|array| array.forgotten().clone()).filter(|some| some.jobs > 0).collect()
    }

    /// The end of each of these jobs is reported once, by [`Notice::Over`].
    pub fn await_ends(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        self.jobs.await_ends(jobs);
    }

    /// A job has ended: its view is taken now, since it may be forgotten before its end is durable.
    pub(super) fn tell_awaited(&mut self, now: Instant, job: JobId) {
        if self.jobs.end_is_told(job) {
            let view = self.ended_view(now, job).map(Box::new);
            self.effects.durable.push(Durable::Notify(job, Notice::Over(view)));
        }
    }

    fn ended_view(&self, now: Instant, job: JobId) -> Option<JobView> {
        let record = self.jobs.get(&job)?;
        matches!(record.phase, Phase::Ended(_)).then(|| self.view(now, record))
    }
}
