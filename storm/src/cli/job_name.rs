//! How users name jobs: `7`, and `7_3` for a job of an array.

use std::fmt;
use std::str::FromStr;
use storm_rm::JobId;
use thiserror::Error;

/// A job, an array, or a job of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobName {
    /// The number of the job or array.
    pub(crate) job: JobId,
    /// The index in the array.
    pub(crate) task: Option<u32>,
}

/// The text is not the name of a job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a job is a number from 1, as `storm queue` shows, or 7_3 in an array")]
pub(crate) struct NotAJob;

/// Reads the name that users give a job. A blank one would leave its column empty.
pub(super) fn visible_name(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a name needs a character that is not blank".to_owned()),
        false => Ok(text.to_owned()),
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            None => write!(f, "{}", self.job),
            Some(task) => write!(f, "{}_{task}", self.job),
        }
    }
}

impl FromStr for JobName {
    type Err = NotAJob;

    fn from_str(text: &str) -> Result<JobName, NotAJob> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (job, task) = match text.split_once('_') {
            Some((job, task)) if digits(task) => (job, Some(task.parse().map_err(|_| NotAJob)?)),
            Some(_) => return Err(NotAJob),
            None => (text, None),
        };
        match job.parse::<u64>() {
            Ok(number) if number > 0 && digits(job) => Ok(JobName { job: JobId(number), task }),
            _ => Err(NotAJob),
        }
    }
}
