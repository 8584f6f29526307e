//! How users name jobs and steps: `7`, `7_3`, `7.1`, `7.batch`.

use super::JobName;
use super::job_name::NotAJob;
use std::fmt;
use std::str::FromStr;
use storm_rm::StepId;
use thiserror::Error;

/// A job, or a step of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobOrStep {
    /// The job.
    pub(crate) job: JobName,
    /// The step, if one is meant.
    pub(crate) step: Option<StepId>,
}

/// The text is not the name of a job or a step.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotAStep {
    #[error(transparent)]
    Job(#[from] NotAJob),
    #[error("a step is a number from 0 or `batch` behind its job, as 7.1")]
    Step,
}

impl fmt::Display for JobOrStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            None => self.job.fmt(f),
            Some(step) => write!(f, "{}.{step}", self.job),
        }
    }
}

impl FromStr for JobOrStep {
    type Err = NotAStep;

    fn from_str(text: &str) -> Result<JobOrStep, NotAStep> {
        let (job, step) = match text.split_once('.') {
            None => (text, None),
            Some((job, "batch")) => (job, Some(StepId::Batch)),
            Some((job, step)) => {
                let digits = step.bytes().all(|byte| byte.is_ascii_digit());
                let number = step.parse().ok().filter(|_| digits).ok_or(NotAStep::Step)?;
                (job, Some(StepId::Number(number)))
            }
        };
        Ok(JobOrStep { job: job.parse()?, step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_behind_their_jobs() {
        for name in ["7", "7_3", "7.0", "7.batch", "7_3.12"] {
            assert_eq!(name.parse::<JobOrStep>().map(|step| step.to_string()).as_deref(), Ok(name));
        }
        for wrong in ["", ".", "7.", "7.x", "7.+1", "7.-1", "7.4294967296", "7.1.2", "batch"] {
            assert!(wrong.parse::<JobOrStep>().is_err(), "{wrong}");
        }
    }
}
