//! Options of `submit` and `run` for what a job waits for besides processing elements.

use super::JobName;
use crate::begin_time::parse_begin;
use clap::{Args, ValueEnum};
use jiff::{Timestamp, Zoned};
use std::str::FromStr;
use storm_rm::{ArraySpec, Condition, JobId};
use thiserror::Error;

/// When a job may start.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NeedsOptions {
    /// Hold it until `storm release JOB`
    #[arg(long, short = 'H', help_heading = "When")]
    pub(crate) hold: bool,
    /// Start not before this time: now+1hour, 16:00, tomorrow, 2026-12-24T08:00
    #[arg(long, short = 'b', value_name = "TIME", help_heading = "When",
          value_parser = |text: &str| parse_begin(text, &Zoned::now()))]
    pub(crate) begin: Option<Timestamp>,
    /// After other jobs: afterok|afterany|afternotok|aftercorr:JOB[:JOB...],
    /// after:JOB[+MINUTES][:JOB...], singleton; with `,` all, with `?` any
    #[arg(long, short = 'd', value_name = "LIST", help_heading = "When")]
    pub(crate) dependency: Option<DependencyArgument>,
    /// End the job when its dependency can never be satisfied [default: no]
    #[arg(
        long,
        value_name = "yes|no",
        hide_possible_values = true,
        requires = "dependency",
        help_heading = "When"
    )]
    pub(crate) kill_on_invalid_dep: Option<YesNo>,
    /// Submit many jobs, one for each index: 0-15, 1,3,7, 0-14:2, 0-99%4 (four at once)
    #[arg(long, short = 'a', value_name = "INDICES", help_heading = "When")]
    pub(crate) array: Option<ArraySpec>,
}

/// A choice, as Slurm writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// A dependency as typed. Jobs of arrays are still named, not numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DependencyArgument {
    /// Whether one condition is enough.
    pub(crate) any: bool,
    /// The conditions in the order typed, each with its job; only `singleton` has none.
    pub(crate) conditions: Vec<(ConditionKind, Option<JobName>)>,
}

/// The word of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionKind {
    AfterOk,
    AfterAny,
    AfterNotOk,
    /// This many minutes after the start of the job.
    After(u32),
    AfterCorr,
    Singleton,
}

impl ConditionKind {
    /// The condition on a job.
    pub(crate) fn on(self, job: JobId) -> Condition {
        match self {
            ConditionKind::AfterOk => Condition::AfterOk(job),
            ConditionKind::AfterAny => Condition::AfterAny(job),
            ConditionKind::AfterNotOk => Condition::AfterNotOk(job),
            ConditionKind::After(minutes) => Condition::After { job, minutes },
            ConditionKind::AfterCorr => Condition::AfterCorr(job),
            ConditionKind::Singleton => Condition::Singleton,
        }
    }
}

/// The text is not a dependency.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotADependency {
    #[error(
        "{0:?} is not a condition: use afterok:JOB, afterany:JOB, afternotok:JOB, after:JOB, \
         aftercorr:JOB or singleton"
    )]
    Unknown(String),
    #[error("{0} needs a job, as in {0}:7 or {0}:7:8")]
    NoJob(String),
    #[error("{0:?} is not a job: write a number, or 7_3 for a job of an array")]
    Job(String),
    #[error("{0:?} is not a number of minutes after the start, as in after:7+10")]
    Minutes(String),
    #[error("`,` (all conditions) and `?` (any condition) cannot be mixed")]
    Mixed,
}

impl FromStr for DependencyArgument {
    type Err = NotADependency;

    fn from_str(text: &str) -> Result<DependencyArgument, NotADependency> {
        let any = text.contains('?');
        if any && text.contains(',') {
            return Err(NotADependency::Mixed);
        }
        let mut conditions = Vec::new();
        for part in text.split(['?', ',']) {
            let mut words = part.split(':');
            let word = words.next().unwrap_or_default();
            let kind = match word {
                "afterok" => ConditionKind::AfterOk,
                "afterany" => ConditionKind::AfterAny,
                "afternotok" => ConditionKind::AfterNotOk,
                "after" => ConditionKind::After(0),
                "aftercorr" => ConditionKind::AfterCorr,
                "singleton" if part == word => {
                    conditions.push((ConditionKind::Singleton, None));
                    continue;
                }
                _ => return Err(NotADependency::Unknown(part.to_owned())),
            };
            let before = conditions.len();
            for job in words {
                let (kind, job) = delayed(kind, job)?;
                let name = job.parse().map_err(|_| NotADependency::Job(job.to_owned()))?;
                conditions.push((kind, Some(name)));
            }
            if conditions.len() == before {
                return Err(NotADependency::NoJob(word.to_owned()));
            }
        }
        Ok(DependencyArgument { any, conditions })
    }
}

/// Splits the argument of `after` into the condition, with its minutes if any, and the job's name.
fn delayed(kind: ConditionKind, job: &str) -> Result<(ConditionKind, &str), NotADependency> {
    match (kind, job.split_once('+')) {
        (ConditionKind::After(_), Some((job, minutes))) => {
            let wrong = || NotADependency::Minutes(minutes.to_owned());
            // `parse` would accept a sign as part of the number.
            let digits = minutes.bytes().all(|byte| byte.is_ascii_digit());
            let minutes = minutes.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
            Ok((ConditionKind::After(minutes), job))
        }
        _ => Ok((kind, job)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_read_as_slurm_writes_them() {
        let name = |job, task| Some(JobName { job: JobId(job), task });
        let parsed: DependencyArgument =
            "afterok:7:8_3,afternotok:9,singleton".parse().expect("a dependency");
        assert!(!parsed.any);
        assert_eq!(
            parsed.conditions,
            [
                (ConditionKind::AfterOk, name(7, None)),
                (ConditionKind::AfterOk, name(8, Some(3))),
                (ConditionKind::AfterNotOk, name(9, None)),
                (ConditionKind::Singleton, None),
            ]
        );
        let begun: DependencyArgument = "after:7+10:8_3,aftercorr:9".parse().expect("one");
        assert_eq!(
            begun.conditions,
            [
                (ConditionKind::After(10), name(7, None)),
                (ConditionKind::After(0), name(8, Some(3))),
                (ConditionKind::AfterCorr, name(9, None)),
            ]
        );
        let any: DependencyArgument = "afterany:1?afterok:2".parse().expect("a dependency");
        assert!(any.any);
        for wrong in [
            "",
            "afterok",
            "afterok:",
            "afterok:0",
            "afterok:x",
            "after",
            "after:1+",
            "after:1++5",
            "after:1+-5",
            "afterok:1+5",
            "1",
            "afterok:1,afterany:2?afterany:3",
            "singleton:1",
            "afterok:1,",
        ] {
            assert!(wrong.parse::<DependencyArgument>().is_err(), "{wrong:?}");
        }
    }
}
