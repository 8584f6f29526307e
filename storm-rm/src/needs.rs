//! Conditions that a job waits for besides processing elements: a release, a begin time, the
//! ends of other jobs. Also the array of jobs that one submission makes.
//!
//! The Machine Manager decides whether a condition is met; this module does not.

use crate::JobId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The conditions that a job must meet before it may wait for processing elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// The job is held from the beginning, until somebody releases it.
    pub hold: bool,
    /// The job does not begin before this time.
    pub begin: Option<Timestamp>,
    /// The jobs that it depends on.
    pub dependency: Option<Dependency>,
    /// When the dependency can never be satisfied the job ends, instead of waiting to
    /// be cancelled.
    pub kill_on_invalid_dep: bool,
    /// The submission is an array of jobs, one for each index.
    pub array: Option<ArraySpec>,
}

/// Conditions on other jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// A single condition is enough; else all must hold.
    pub any: bool,
    /// Not empty.
    pub conditions: Vec<Condition>,
}

impl Dependency {
    /// Most conditions of one job: one for each job of the largest workflow that was met. The
    /// manager bounds besides what those of a user take together.
    pub const MAX_CONDITIONS: usize = 65_536;
}

/// A condition on another job, by Slurm's names. A condition on an array is a condition on all its
/// jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The job has ended, and all its ranks exited with 0.
    AfterOk(JobId),
    /// The job has ended.
    AfterAny(JobId),
    /// The job has ended in a state other than COMPLETED.
    AfterNotOk(JobId),
    /// No job of the same name and user that was submitted before is left.
    Singleton,
    /// The job has begun, or has ended without, so many minutes ago.
    After {
        /// The other job.
        job: JobId,
        /// Minutes since its begin.
        minutes: u32,
    },
    /// The job of the array with the same index has ended, and all its ranks exited with 0.
    AfterCorr(JobId),
}

impl Condition {
    /// The job that it is about.
    pub fn job(self) -> Option<JobId> {
        match self {
            Condition::AfterOk(job)
            | Condition::AfterAny(job)
            | Condition::AfterNotOk(job)
            | Condition::After { job, .. }
            | Condition::AfterCorr(job) => Some(job),
            Condition::Singleton => None,
        }
    }

    /// Whether the condition holds once the other job has ended, apart from a delay.
    pub fn holds_after(self, completed: bool) -> bool {
        match self {
            Condition::AfterOk(_) | Condition::AfterCorr(_) => completed,
            Condition::AfterNotOk(_) => !completed,
            Condition::AfterAny(_) | Condition::After { .. } | Condition::Singleton => true,
        }
    }
}

impl Condition {
    /// The text for `--dependency`, with the other job under the name that `name` gives it: a job
    /// of an array is `array_index`.
    pub fn text(&self, name: &dyn Fn(JobId) -> String) -> String {
        match self {
            Condition::AfterOk(job) => format!("afterok:{}", name(*job)),
            Condition::AfterAny(job) => format!("afterany:{}", name(*job)),
            Condition::AfterNotOk(job) => format!("afternotok:{}", name(*job)),
            Condition::Singleton => "singleton".to_owned(),
            Condition::After { job, minutes: 0 } => format!("after:{}", name(*job)),
            Condition::After { job, minutes } => format!("after:{}+{minutes}", name(*job)),
            Condition::AfterCorr(job) => format!("aftercorr:{}", name(*job)),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|job| job.to_string()))
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.any { "?" } else { "," };
        let conditions: Vec<String> = self.conditions.iter().map(ToString::to_string).collect();
        f.write_str(&conditions.join(separator))
    }
}

/// Which job of an array a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArrayTask {
    /// The number of the array: no job of it has it.
    pub array: JobId,
    /// Its index in the array.
    pub index: u32,
}

impl fmt::Display for ArrayTask {
    /// Writes Slurm's form: `7_3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.array, self.index)
    }
}

/// The indices of an array of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArraySpec {
    /// In the order in which they were written; they may overlap.
    pub ranges: Vec<IndexRange>,
    /// At most so many of its jobs run at once.
    pub limit: Option<u32>,
}

/// Indices `first`, `first + step`, ... up to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRange {
    /// The first.
    pub first: u32,
    /// The bound: no index is higher.
    pub last: u32,
    /// At least 1.
    pub step: u32,
}

/// The extent of the indices of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayExtent {
    /// How many there are, each counted once.
    pub count: u64,
    /// The first.
    pub least: u32,
    /// The last.
    pub greatest: u32,
}

/// Not an array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// The text cannot be read as an array.
    #[error(
        "{0:?} is not a list of indices: 0-15, 1,3,7, 0-15:2 (every second), 0-15%4 (four at once)"
    )]
    Syntax(String),
    /// There is no index, a range that descends, a step of 0, or a limit of 0.
    #[error(
        "an array needs at least one index, ascending ranges, and steps and a limit of at least 1"
    )]
    Empty,
    /// The array has more indices than allowed.
    #[error("the array has more than {most} jobs")]
    TooLarge {
        /// The bound.
        most: u32,
    },
}

impl ArraySpec {
    /// The most jobs that an array can have under any configuration.
    pub const MAX_TASKS: u32 = 100_000;

    /// The indices, each once, in ascending order.
    ///
    /// # Errors
    /// It makes no sense, or has more than `most`.
    pub fn indices(&self, most: u32) -> Result<Vec<u32>, ArrayError> {
        let most = most.min(Self::MAX_TASKS);
        let sound = |range: &IndexRange| range.step > 0 && range.first <= range.last;
        if self.ranges.is_empty() || !self.ranges.iter().all(sound) || self.limit == Some(0) {
            return Err(ArrayError::Empty);
        }
        let mut indices = Vec::new();
        // Counted before they are made, and those that are named twice as well.
        let mut named = 0;
        for range in &self.ranges {
            let steps = range.steps();
            named += u64::from(steps) + 1;
            if named > u64::from(most) {
                return Err(ArrayError::TooLarge { most });
            }
            // `first + steps * step` is at most `last`.
            indices.extend((0..=steps).map(|step| range.first + step * range.step));
        }
        indices.sort_unstable();
        indices.dedup();
        Ok(indices)
    }

    /// The extent of the indices, which every job of the array receives. For a single range it is
    /// computed without listing the indices. `None` if the array is malformed.
    pub fn extent(&self) -> Option<ArrayExtent> {
        if let [range] = self.ranges[..]
            && range.step > 0
            && range.first <= range.last
        {
            let steps = range.steps();
            // `first + steps * step` is at most `last`.
            let greatest = range.first + steps * range.step;
            return Some(ArrayExtent { count: u64::from(steps) + 1, least: range.first, greatest });
        }
        let indices = self.indices(Self::MAX_TASKS).ok()?;
        let (least, greatest) = (*indices.first()?, *indices.last()?);
        Some(ArrayExtent { count: indices.len() as u64, least, greatest })
    }

    /// The distance of the indices as written, for a single range; 1 for a list.
    pub fn step(&self) -> u32 {
        match self.ranges[..] {
            [range] => range.step,
            _ => 1,
        }
    }
}

impl IndexRange {
    /// Indices after the first.
    fn steps(&self) -> u32 {
        (self.last - self.first) / self.step
    }
}

impl FromStr for ArraySpec {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<ArraySpec, ArrayError> {
        let wrong = || ArrayError::Syntax(text.to_owned());
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
        let (list, limit) = match text.split_once('%') {
            Some((list, limit)) => (list, Some(number(limit)?)),
            None => (text, None),
        };
        let range = |part: &str| {
            let (bounds, step) = match part.split_once(':') {
                Some((bounds, step)) => (bounds, number(step)?),
                None => (part, 1),
            };
            let (first, last) = match bounds.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(bounds)?, number(bounds)?),
            };
            Ok(IndexRange { first, last, step })
        };
        let ranges = list.split(',').map(range).collect::<Result<_, ArrayError>>()?;
        let array = ArraySpec { ranges, limit };
        array.indices(Self::MAX_TASKS).map(|_| array)
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |IndexRange { first, last, step }: &IndexRange| match (first == last, step) {
            (true, _) => first.to_string(),
            (false, 1) => format!("{first}-{last}"),
            (false, step) => format!("{first}-{last}:{step}"),
        };
        f.write_str(&self.ranges.iter().map(range).collect::<Vec<_>>().join(","))?;
        self.limit.iter().try_for_each(|limit| write!(f, "%{limit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_read_as_slurm_writes_them() {
        for (text, indices) in [
            ("3", vec![3]),
            ("0-3", vec![0, 1, 2, 3]),
            ("0-15:5", vec![0, 5, 10, 15]),
            ("0-14:5%2", vec![0, 5, 10]),
            ("7,1-3,2", vec![1, 2, 3, 7]),
            ("4294967290-4294967295:3", vec![4_294_967_290, 4_294_967_293]),
        ] {
            let array: ArraySpec = text.parse().expect(text);
            let (least, greatest) = (indices[0], indices[indices.len() - 1]);
            let extent = ArrayExtent { count: indices.len() as u64, least, greatest };
            assert_eq!(array.extent(), Some(extent), "{text}");
            assert_eq!(array.indices(16), Ok(indices), "{text}");
            assert_eq!(array.to_string(), text);
        }
        assert_eq!("0-7%2".parse::<ArraySpec>().map(|array| array.limit), Ok(Some(2)));
    }

    #[test]
    fn malformed_arrays_are_refused() {
        for text in ["", "-", "x", "1-", "3-1", "1-4:0", "1-4%0", "1-4%", "1,,2", "0-4294967295"] {
            assert!(text.parse::<ArraySpec>().is_err(), "{text:?}");
        }
        let array: ArraySpec = "0-9,20-29".parse().expect("an array");
        assert_eq!(array.indices(19), Err(ArrayError::TooLarge { most: 19 }));
        assert!(array.indices(20).is_ok());
        for (first, last, step) in [(0, 3, 0), (3, 0, 1)] {
            let ranges = vec![IndexRange { first, last, step }];
            assert_eq!(ArraySpec { ranges, limit: None }.extent(), None);
        }
    }
}
