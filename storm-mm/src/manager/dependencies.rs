//! Dependencies on the begins and ends of other jobs, and their effect on jobs that wait.
//!
//! The journal of a job records the fates of the jobs that it depends on. Those jobs may be
//! forgotten before the dependent job starts.

use super::Core;
use super::eligibility::Obstacle;
use super::jobs::no_such_job;
use super::jobs::{Begin, End, Notice, conditions};
use crate::api::{ApiError, ErrorCode};
use crate::job::{DependencyNote, JobEventKind, JobRecord, Phase};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use storm_primitives::Instant;
use storm_rm::{Condition, Dependency, JobId, Needs};

impl Core {
    /// Fails if a job that a submission depends on is unknown. A condition on the corresponding job
    /// becomes a condition on the whole other job where not both are arrays.
    pub(super) fn check_dependency(&self, needs: &mut Needs) -> Result<(), ApiError> {
        let Some(dependency) = &mut needs.dependency else { return Ok(()) };
        let count = dependency.conditions.len();
        if count == 0 || count > Dependency::MAX_CONDITIONS {
            let message = format!("a dependency of {count} conditions");
            let hint = format!("name 1 to {}; an array counts as one", Dependency::MAX_CONDITIONS);
            return Err(ApiError::new(ErrorCode::BadRequest, message).hint(hint));
        }
        let unknown =
            |job: &JobId| !self.jobs.contains_key(job) && !self.jobs.needs().is_array(*job);
        if let Some(job) = dependency.conditions.iter().filter_map(|one| one.job()).find(unknown) {
            return Err(no_such_job(job).why("the job would depend on it"));
        }
        for condition in &mut dependency.conditions {
            let Condition::AfterCorr(other) = *condition else { continue };
            match &needs.array {
                Some(array) if self.jobs.needs().is_array(other) => {
                    self.jobs.check_corresponding(array, other)?;
                }
                _ => *condition = Condition::AfterOk(other),
            }
        }
        Ok(())
    }

    /// Subscribes a waiting job to the begins and ends of the jobs that it depends on. Events that
    /// have happened already are entered at once.
    pub(super) fn watch_dependencies(&mut self, now: Instant, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        // The jobs whose events are not in its record yet.
        let (mut begins, mut ends, mut tasks) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for condition in conditions(record) {
            match condition {
                Condition::After { job, .. } if !record.begun_before.contains_key(&job) => {
                    begins.insert(job);
                }
                Condition::AfterOk(on) | Condition::AfterAny(on) | Condition::AfterNotOk(on)
                    if !record.ended_before.contains_key(&on) =>
                {
                    ends.insert(on);
                }
                Condition::AfterCorr(array) if !record.corresponding_ended.contains_key(&array) => {
                    tasks.insert((array, self.jobs.needs().awaited_end(record, condition)));
                }
                // The event has arrived already, or the condition names no job.
                Condition::After { .. }
                | Condition::AfterOk(_)
                | Condition::AfterAny(_)
                | Condition::AfterNotOk(_)
                | Condition::AfterCorr(_)
                | Condition::Singleton => {}
            }
        }
        for on in begins {
            match self.unit_begun(now, on) {
                None => self.jobs.await_begin(job, on),
                Some(at) => self.note_before(now, job, on, DependencyNote::Begun { at }),
            }
        }
        for on in ends {
            match self.jobs.unit_ended(on) {
                None => self.jobs.await_end(job, on),
                Some(completed) => self.note_end_before(now, job, on, completed),
            }
        }
        for (array, task) in tasks {
            match self.corresponding_ended(array, task) {
                Err(task) => self.jobs.await_end(job, task),
                Ok(completed) => {
                    let note = DependencyNote::CorrespondingEnded { completed };
                    self.note_before(now, job, array, note);
                }
            }
        }
    }

    /// When a job or array has begun, or has ended without beginning. A forgotten job began or
    /// ended at an unknown time, so the present time is used.
    fn unit_begun(&self, now: Instant, unit: JobId) -> Option<Timestamp> {
        if self.jobs.needs().is_array(unit) {
            return self.jobs.needs().array_begun(unit);
        }
        match self.jobs.get(&unit) {
            Some(record) => record.begun.or(record.ended),
            None => Some(self.wall(now)),
        }
    }

    /// Whether a job of an array has ended COMPLETED; the error is the job to wait for. If the job
    /// is forgotten, the array knows whether all its jobs were COMPLETED.
    fn corresponding_ended(&self, array: JobId, task: Option<JobId>) -> Result<bool, JobId> {
        let Some(task) = task else { return Ok(false) };
        match self.jobs.get(&task) {
            Some(_) => self.jobs.unit_ended(task).ok_or(task),
            None => Ok(self.jobs.needs().array_is_well(array)),
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

    fn note_before(&mut self, now: Instant, job: JobId, on: JobId, note: DependencyNote) {
        let open = self.jobs.get(&job).is_some_and(|record| {
            let told = match note {
                DependencyNote::Begun { .. } => record.begun_before.contains_key(&on),
                DependencyNote::CorrespondingEnded { .. } => {
                    record.corresponding_ended.contains_key(&on)
                }
            };
            !matches!(record.phase, Phase::Ended(_)) && !told
        });
        if open {
            self.append(now, job, JobEventKind::DependencyNoted { on, note });
        }
    }

    /// Notifies a job of the end of a job or array that it depends on. There may be thousands of
    /// conditions, so only the conditions on this end are checked, unless they decide.
    fn tell_end(&mut self, now: Instant, job: JobId, unit: JobId, completed: bool) {
        let Some(record) = self.jobs.get(&job) else { return };
        let any = record.spec.needs.dependency.as_ref().is_some_and(|needed| needed.any);
        let about = |condition: &Condition| match condition.job() {
            Some(on) if on == unit => !matches!(condition, Condition::AfterCorr(_)),
            Some(_) => self.jobs.needs().awaited_end(record, *condition) == Some(unit),
            None => false,
        };
        let about: Vec<Condition> = conditions(record).filter(about).collect();
        for condition in &about {
            match condition {
                Condition::AfterCorr(array) => {
                    let note = DependencyNote::CorrespondingEnded { completed };
                    self.note_before(now, job, *array, note);
                }
                Condition::AfterOk(_)
                | Condition::AfterAny(_)
                | Condition::AfterNotOk(_)
                | Condition::After { .. }
                | Condition::Singleton => self.note_end_before(now, job, unit, completed),
            }
        }
        let holds = |condition: &Condition| condition.holds_after(completed);
        // A job that has ended meanwhile waits for nothing.
        let failed = !any && !about.iter().all(holds);
        let Some(is_due) = self.jobs.told(job, failed) else { return };
        if is_due || any && about.iter().any(holds) {
            self.reconsider(now, job);
        }
    }

    fn tell_begin(&mut self, now: Instant, job: JobId, unit: JobId, at: Timestamp) {
        self.note_before(now, job, unit, DependencyNote::Begun { at });
        let any = self.jobs.get(&job).and_then(|record| record.spec.needs.dependency.as_ref());
        let any = any.is_some_and(|needed| needed.any);
        let Some(is_due) = self.jobs.told(job, false) else { return };
        if is_due || any {
            self.reconsider(now, job);
        }
    }

    /// Notifies waiting jobs of begins and ends. Ends that result from a notice are dealt with here
    /// as well, one after the other, because chains of jobs may be long.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.jobs.begin_settling() {
            return;
        }
        while let Some(news) = self.jobs.next_news() {
            match news {
                Notice::Begin(Begin { unit, at }, waited) => {
                    for job in waited {
                        self.tell_begin(now, job, unit, at);
                    }
                }
                Notice::End(end, waited) => self.settle_end(now, end, waited),
            }
        }
        self.jobs.end_settling();
    }

    fn settle_end(&mut self, now: Instant, end: End, waited: BTreeSet<JobId>) {
        let End { unit, completed, next_of_name } = end;
        match completed {
            None => self.fill_array(now, unit),
            Some(completed) => {
                for job in waited {
                    self.tell_end(now, job, unit, completed);
                }
            }
        }
        if let Some(next) = next_of_name {
            self.reconsider_unit(now, next);
        }
    }

    /// Checks a job again, or all jobs of an array.
    fn reconsider_unit(&mut self, now: Instant, unit: JobId) {
        self.reconsider(now, unit);
        for task in self.jobs.needs().tasks_of(unit) {
            self.reconsider(now, task);
        }
    }

    /// The part of a job's dependency that is not met.
    pub(super) fn unmet_dependency(&self, now: Instant, record: &JobRecord) -> Option<Obstacle> {
        let Dependency { any, conditions } = record.spec.needs.dependency.as_ref()?;
        let wall = self.wall(now);
        let state = |condition: &Condition| match *condition {
            Condition::Singleton => self.jobs.needs().is_first_of_its_name(record).then_some(true),
            Condition::After { .. } => {
                delay_over(record, *condition).is_some_and(|at| at <= wall).then_some(true)
            }
            Condition::AfterCorr(array) => record.corresponding_ended.get(&array).copied(),
            Condition::AfterOk(on) | Condition::AfterAny(on) | Condition::AfterNotOk(on) => {
                record.ended_before.get(&on).map(|done| condition.holds_after(*done))
            }
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
            None => {
                let until = open.iter().filter_map(|one| delay_over(record, *one)).min();
                Some(Obstacle::Dependency { open, any: *any, until })
            }
        }
    }
}

/// When the delay after another job's begin is over; `None` until that job has begun.
fn delay_over(record: &JobRecord, condition: Condition) -> Option<Timestamp> {
    let Condition::After { job, minutes } = condition else { return None };
    let begun = record.begun_before.get(&job)?;
    let delay = SignedDuration::from_mins(i64::from(minutes));
    Some(begun.checked_add(delay).unwrap_or(Timestamp::MAX))
}
