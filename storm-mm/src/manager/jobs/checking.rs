//! Answers that need only the records of the jobs.

use super::{JobTable, MAX_BYTES_PER_USER};
use crate::api::{ApiError, ErrorCode, JobState};
use crate::job::{JobRecord, Phase};
use std::borrow::Cow;
use storm_rm::{ArraySpec, JobId, JobSpec};

impl JobTable {
    /// The record of a job that has not started. A job that has started cannot be held or released.
    pub(in crate::manager) fn waiting_record(&self, job: JobId) -> Result<&JobRecord, ApiError> {
        let record = self.get(&job).ok_or_else(|| no_such_job(job))?;
        let name = record.name();
        match &record.phase {
            Phase::Pending => Ok(record),
            Phase::Ended(outcome) => {
                let message = format!("job {name} has ended: {}", outcome.state);
                Err(ApiError::new(ErrorCode::JobEnded, message))
            }
            Phase::Starting | Phase::Running | Phase::Ending(_) => {
                let message = format!("job {name} has started");
                Err(ApiError::new(ErrorCode::BadRequest, message)
                    .hint("only a job that waits is held or released"))
            }
        }
    }

    /// Fails if a job is in none of these states. An empty list allows any state, and an unknown
    /// job passes.
    pub(in crate::manager) fn check_state(
        &self,
        job: JobId,
        states: &[JobState],
    ) -> Result<(), ApiError> {
        match self.get(&job) {
            Some(record) if !states.is_empty() && !states.contains(&record.state()) => {
                let message = format!("job {} is {} by now", record.name(), record.state());
                Err(ApiError::new(ErrorCode::OtherState, message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Fails if the manager does not keep one more specification for this user.
    pub(in crate::manager) fn check_held_bytes(&self, spec: &JobSpec) -> Result<(), ApiError> {
        check_bytes(self.held_bytes_with(spec))
    }

    /// Fails if the user's jobs would take too much memory with another specification of one of
    /// them.
    pub(in crate::manager) fn check_changed_bytes(
        &self,
        before: &JobSpec,
        after: &JobSpec,
    ) -> Result<(), ApiError> {
        check_bytes(self.held_bytes.with_changed(before, after))
    }

    /// Whether a job or array has ended, and if so, COMPLETED. A forgotten job counts as ended and
    /// not COMPLETED, since nothing better is known.
    pub(in crate::manager) fn unit_ended(&self, unit: JobId) -> Option<bool> {
        if self.needs.is_array(unit) {
            return self.needs.array_ended(unit);
        }
        match self.get(&unit).map(|record| &record.phase) {
            Some(Phase::Ended(outcome)) => Some(outcome.state == JobState::Completed),
            Some(_) => None,
            None => Some(false),
        }
    }

    /// Fails if a job of an array has no corresponding job in `other`.
    pub(in crate::manager) fn check_corresponding(
        &self,
        array: &ArraySpec,
        other: JobId,
    ) -> Result<(), ApiError> {
        // Submission has refused arrays that are invalid.
        let indices = array.indices(ArraySpec::MAX_TASKS).unwrap_or_default();
        match indices.into_iter().find(|index| self.needs.task_with(other, *index).is_none()) {
            None => Ok(()),
            Some(index) => Err(ApiError::new(
                ErrorCode::NoSuchJob,
                format!("array {other} has no job of index {index}"),
            )
            .why(format!("aftercorr:{other} makes each job wait for the job of the same index"))
            .hint(format!("afterok:{other} waits for the whole array"))),
        }
    }
}

/// The error for a number that no job has.
pub(in crate::manager) fn no_such_job(job: JobId) -> ApiError {
    ApiError::new(ErrorCode::NoSuchJob, format!("there is no job {job}"))
        .hint("storm queue and storm hist list the jobs")
}

/// The specification for messages. Nodes do not need the dependency, which may be longer than a
/// message.
pub(in crate::manager) fn without_dependency(spec: &JobSpec) -> Cow<'_, JobSpec> {
    match &spec.needs.dependency {
        None => Cow::Borrowed(spec),
        Some(_) => {
            let mut spec = spec.clone();
            spec.needs.dependency = None;
            Cow::Owned(spec)
        }
    }
}

/// Fails if a user's jobs take too much memory.
fn check_bytes(held: u64) -> Result<(), ApiError> {
    if held <= MAX_BYTES_PER_USER {
        return Ok(());
    }
    let most = MAX_BYTES_PER_USER >> 20;
    let message =
        "the arguments, environments and dependencies of your jobs are too large together";
    Err(ApiError::new(ErrorCode::QueueFull, message)
        .why(format!("those of your unfinished jobs would take more than {most} MiB"))
        .hint("wait for some to end, submit an array (--array), or pass data in files (--bcast)"))
}
