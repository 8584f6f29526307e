//! Dependencies on the ends of other jobs, and what their ends do to those that wait.
//!
//! That a job has ended is written into the journal of each that depends on it: it may be
//! forgotten before they start.

use super::Core;
use super::eligibility::Obstacle;
use super::ending::no_such_job;
use super::needs_table::{End, dependencies};
use crate::api::{ApiError, ErrorCode, JobState};
use crate::job::{JobEventKind, JobRecord, Phase};
use storm_primitives::Instant;
use storm_rm::{Condition, Dependency, JobId, Needs};

impl Core {
    /// Whether the jobs that a submission depends on are known.
    pub(super) fn check_dependency(&self, needs: &Needs) -> Result<(), ApiError> {
        let Some(dependency) = &needs.dependency else { return Ok(()) };
        let count = dependency.conditions.len();
        if count == 0 || count > Dependency::MAX_CONDITIONS {
            let message = format!("a dependency of {count} conditions");
            let hint = format!("name 1 to {}", Dependency::MAX_CONDITIONS);
            return Err(ApiError::new(ErrorCode::BadRequest, message).hint(hint));
        }
        let unknown =
            |job: &JobId| !self.jobs.contains_key(job) && !self.needs.arrays.contains_key(job);
        match dependency.conditions.iter().filter_map(|one| one.job()).find(unknown) {
            Some(job) => Err(no_such_job(job).why("the job would depend on it")),
            None => Ok(()),
        }
    }

    /// A job that waits is to hear of the ends of those that it depends on; of those that
    /// have ended it hears at once.
    pub(super) fn watch_dependencies(&mut self, now: Instant, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        let open: Vec<JobId> =
            dependencies(record).filter(|on| !record.ended_before.contains_key(on)).collect();
        for on in open {
            match self.unit_ended(on) {
                None => {
                    self.needs.dependents.entry(on).or_default().insert(job);
                }
                Some(completed) => self.note_end_before(now, job, on, completed),
            }
        }
    }

    /// Whether a job or array has ended; one that is not known any more has, and nothing
    /// better can be said of it.
    fn unit_ended(&self, unit: JobId) -> Option<bool> {
        if self.needs.arrays.contains_key(&unit) {
            return self.needs.array_ended(unit);
        }
        match self.jobs.get(&unit).map(|record| &record.phase) {
            Some(Phase::Ended(outcome)) => Some(outcome.state == JobState::Completed),
            Some(_) => None,
            None => Some(false),
        }
    }

    fn note_end_before(&mut self, now: Instant, job: JobId, on: JobId, completed: bool) {
        let open = self.jobs.get(&job).is_some_and(|record| {
            !matches!(record.phase, Phase::Ended(_)) && !record.ended_before.contains_key(&on)
        });
        if open {
            self.append(now, job, JobEventKind::DependencyEnded { on, completed });
        }
    }

    /// Tells those who wait for the end of what has ended. Ends that this causes are
    /// dealt with here too, one after the other: chains of jobs may be long.
    pub(super) fn settle(&mut self, now: Instant) {
        if std::mem::replace(&mut self.settling, true) {
            return;
        }
        while let Some(End { unit, completed, next_of_name }) = self.needs.ends.pop_front() {
            match completed {
                None => self.fill_array(now, unit),
                Some(completed) => {
                    for job in self.needs.dependents.remove(&unit).unwrap_or_default() {
                        self.note_end_before(now, job, unit, completed);
                        self.reconsider(now, job);
                    }
                }
            }
            if let Some(next) = next_of_name {
                self.reconsider_unit(now, next);
            }
        }
        self.settling = false;
    }

    /// Looks again at a job, or at all jobs of an array.
    fn reconsider_unit(&mut self, now: Instant, unit: JobId) {
        self.reconsider(now, unit);
        for task in self.needs.tasks_of(unit) {
            self.reconsider(now, task);
        }
    }

    /// What the dependency of a job still lacks.
    pub(super) fn unmet_dependency(&self, record: &JobRecord) -> Option<Obstacle> {
        let Dependency { any, conditions } = record.spec.needs.dependency.as_ref()?;
        let state = |condition: &Condition| match condition.job() {
            Some(on) => record.ended_before.get(&on).map(|done| condition.holds_after(*done)),
            None => self.needs.is_first_of_its_name(record).then_some(true),
        };
        let with = |wanted: Option<bool>| {
            conditions.iter().copied().filter(move |condition| state(condition) == wanted)
        };
        let satisfied = match any {
            true => with(Some(true)).next().is_some(),
            false => conditions.iter().all(|condition| state(condition) == Some(true)),
        };
        if satisfied {
            return None;
        }
        let open: Vec<Condition> = with(None).collect();
        let failed = with(Some(false)).next();
        match failed.filter(|_| !any || open.is_empty()) {
            Some(condition) => Some(Obstacle::NeverSatisfied(condition)),
            None => Some(Obstacle::Dependency { open, any: *any }),
        }
    }
}
