//! Options of `wait`.

use super::{ClusterOptions, JobName};
use crate::duration::parse_time;
use clap::Args;
use std::time::Duration;

/// Options of `wait`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
An array counts as a whole, with its jobs that have not started. When all jobs have ended,
storm lists their results; of more than 16 jobs, only the failed ones. Jobs that ended before
count too, as long as `storm hist` has them. If only part of an array is still remembered,
storm prints how many of its jobs are forgotten and how they ended; they count too. Ctrl-C
ends the waiting and leaves the jobs alone.

Examples:
  storm wait 7 && ./evaluate
  storm wait $(storm submit --quiet -n 64 ./solver) --timeout 2h
  storm wait 7 8_3

Exit status:
  the highest status of the jobs, as for `storm run`; 0 when all ended well
  124 --timeout ended first   125 storm itself failed while it waited")]
pub(crate) struct WaitOptions {
    /// Jobs, arrays (7), or jobs of arrays (7_3)
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<JobName>,
    /// Wait no longer than this, a number with its unit: 90s, 10m, 1h30m
    #[arg(long, value_name = "T", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}
