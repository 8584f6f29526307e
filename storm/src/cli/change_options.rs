//! Options of `requeue`, `suspend`, `resume-job` and `update`.

use super::{ClusterOptions, DependencyArgument, JobName};
use crate::duration::parse_time_limit;
use clap::{ArgGroup, Args};
use std::time::Duration;
use thiserror::Error;

/// Options of `requeue`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The processes get SIGTERM, and SIGKILL after the grace. Then the job waits again with its number,
and runs from its beginning. This works for your jobs with --requeue and without.

Examples:
  storm requeue 7 8_3
  storm requeue $STORM_JOB_ID        in the job, when it has saved its state")]
pub(crate) struct RequeueOptions {
    /// Jobs, arrays (7), or jobs of arrays (7_3)
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<JobName>,
    /// Keep them from starting again until storm release
    #[arg(short = 'H', long)]
    pub(crate) hold: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `suspend` and `resume-job`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
For administrators. A suspended job keeps its processing elements and its memory, and its time
limit waits.

Examples:
  storm suspend 7
  storm resume-job 7")]
pub(crate) struct SuspendOptions {
    /// Jobs, arrays (7), or jobs of arrays (7_3)
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<JobName>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `update`.
#[derive(Clone, Debug, Args)]
#[command(
    group = ArgGroup::new("change").multiple(true).required(true)
        .args(["time", "partition", "nice", "name", "dependency", "comment"]),
    after_help = "\
You may shorten a time limit and lower a priority of your jobs; administrators may do the contrary,
and change the jobs of all. A partition and a dependency change while the job waits.
`storm show JOB` has what was changed, when and by whom.

Examples:
  storm update 7 --time 10m
  storm update 7 8_3 --partition long --nice 50
  storm update 7 --dependency none --comment 'second attempt'"
)]
pub(crate) struct UpdateOptions {
    /// Jobs, arrays (7), or jobs of arrays (7_3)
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<JobName>,
    /// Time limit, or UNLIMITED
    #[arg(long, short, value_name = "T", value_parser = parse_new_limit)]
    pub(crate) time: Option<NewLimit>,
    /// Partition
    #[arg(long, short, value_name = "P")]
    pub(crate) partition: Option<String>,
    /// Lower its priority by N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) nice: Option<i32>,
    /// Name of the job
    #[arg(long, short = 'J', value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Other jobs to wait for, as for `submit`, or none
    #[arg(long, short = 'd', value_name = "LIST", value_parser = parse_new_dependency)]
    pub(crate) dependency: Option<NewDependency>,
    /// Comment; '' takes it away
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// A new time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewLimit {
    None,
    Of(Duration),
}

/// A new dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewDependency {
    None,
    On(DependencyArgument),
}

/// The text is not a change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct NotAChange(String);

fn parse_new_limit(text: &str) -> Result<NewLimit, NotAChange> {
    if text.eq_ignore_ascii_case("unlimited") {
        return Ok(NewLimit::None);
    }
    parse_time_limit(text).map(NewLimit::Of).map_err(|why| NotAChange(why.to_string()))
}

fn parse_new_dependency(text: &str) -> Result<NewDependency, NotAChange> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(NewDependency::None);
    }
    text.parse()
        .map(NewDependency::On)
        .map_err(|why: super::needs_options::NotADependency| NotAChange(why.to_string()))
}
