//! Jobs as scancel(1) and scontrol(1) name them: `7`, `7_3`, `7_[1-3,5]`, `7.0`.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Some jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// The number of a job or an array.
    pub job: u64,
    /// The indices of jobs of an array, as ranges.
    pub tasks: Option<Vec<(u32, u32)>>,
    /// A step: `batch`, or a number.
    pub step: Option<String>,
    /// The name as typed.
    typed: String,
}

/// The text names no job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Invalid job id {0}")]
pub struct NotAJob(pub String);

impl JobName {
    /// Whether the name means this job, which may be one of an array.
    pub fn means(&self, id: u64, array: Option<(u64, u32)>) -> bool {
        match (&self.tasks, array) {
            (None, None) => self.job == id,
            (None, Some((array, _))) => self.job == id || self.job == array,
            (Some(_), None) => false,
            (Some(tasks), Some((array, index))) => {
                let has = |(first, last): &(u32, u32)| (*first..=*last).contains(&index);
                self.job == array && tasks.iter().any(has)
            }
        }
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.typed)
    }
}

impl FromStr for JobName {
    type Err = NotAJob;

    fn from_str(text: &str) -> Result<JobName, NotAJob> {
        let wrong = || NotAJob(text.to_owned());
        let (jobs, step) = match text.split_once('.') {
            Some((jobs, step)) => (jobs, Some(step)),
            None => (text, None),
        };
        let is_step = |step: &str| {
            ["batch", "extern", "interactive"].contains(&step) || number(step).is_some()
        };
        if step.is_some_and(|step| !is_step(step)) {
            return Err(wrong());
        }
        let (job, tasks) = match jobs.split_once('_') {
            None => (jobs, None),
            Some((job, tasks)) => (job, Some(ranges(tasks).ok_or_else(wrong)?)),
        };
        let job = number(job).map(u64::from).filter(|job| *job > 0).ok_or_else(wrong)?;
        Ok(JobName { job, tasks, step: step.map(str::to_owned), typed: text.to_owned() })
    }
}

/// `3`, `[1-3,5]`, or `[1-3%2]`, whose last number says how many may run at once.
fn ranges(text: &str) -> Option<Vec<(u32, u32)>> {
    let inner = match text.strip_prefix('[') {
        Some(behind) => behind.strip_suffix(']')?,
        None => return number(text).map(|index| vec![(index, index)]),
    };
    let inner = match inner.split_once('%') {
        Some((ranges, most)) => number(most).map(|_| ranges)?,
        None => inner,
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some((first, last))
    };
    inner.split(',').map(range).collect()
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_jobs_arrays_and_jobs_of_arrays() {
        let name = |text: &str| text.parse::<JobName>();
        let means = |text: &str, id, array| name(text).expect("a name").means(id, array);
        assert!(means("7", 7, None) && means("7", 9, Some((7, 3))));
        assert!(means("7_3", 9, Some((7, 3))) && !means("7_3", 9, Some((7, 4))));
        assert!(means("7_[1-2,5%2]", 9, Some((7, 5))) && !means("7_[1-2,5]", 9, Some((7, 4))));
        assert!(!means("7_3", 7, None));
        assert_eq!(name("7.batch").expect("a step").step.as_deref(), Some("batch"));
        for wrong in ["", "x", "0", "7_", "7_[1", "7_[2-1]", "7_[x]", "7.", "7.x", "+7", "-7"] {
            assert_eq!(name(wrong), Err(NotAJob(wrong.to_owned())));
        }
    }
}
