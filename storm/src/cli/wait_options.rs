//! Options of `wait`.

use super::{ClusterOptions, JobName};
use crate::duration::parse_time;
use clap::Args;
use std::time::Duration;

/// Options of `wait`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
An array is waited for as a whole, also for its jobs that wait themselves. How the jobs
ended is listed when all have, of more than 16 those that did not end well; jobs that had
ended before count as well, as long as `storm hist` has them. Of jobs of an array that are
forgotten while others of it are not, it is said how many they are and how they ended, which
counts. Ctrl-C ends the waiting and leaves the jobs alone.

Examples:
  storm wait 7 && ./evaluate
  storm wait $(storm submit --quiet -n 64 ./solver) --timeout 2h
  storm wait 7 8_3

Exit status:
  the highest of the jobs', as `storm run` has it: 0 when all ended well
  124 --timeout was over before   125 storm itself failed while it waited")]
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
