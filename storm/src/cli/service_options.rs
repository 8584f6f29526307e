//! Options of `submit` and `run` for the account and the urgency of a job, and options of
//! `priority` and `shares`.

use super::count::whole;
use super::{ClusterOptions, JobName};
use clap::Args;

/// Account and urgency of a job.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServiceOptions {
    /// Account to charge [default: your own]
    #[arg(long, short = 'A', value_name = "NAME", help_heading = "When")]
    pub(crate) account: Option<String>,
    /// Quality of service
    #[arg(long, value_name = "NAME", help_heading = "When")]
    pub(crate) qos: Option<String>,
    /// Lower its priority by N, if the cluster's configuration has priorities; less than 0 for
    /// administrators only
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "When", value_parser = whole::<i32>)]
    pub(crate) nice: i32,
}

/// Options of `priority`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Each column with + is what a factor contributes: its weight in the configuration times a factor
from 0 to 1. The priority is their sum minus the job's --nice. Without [priority] in the
configuration, as on a cluster of `storm up`, all jobs are equal.")]
pub(crate) struct PriorityOptions {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<JobName>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `shares`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Usage is in processor-seconds, and half of it is forgotten in each half-life. Without
[priority] or [[accounts]] in the configuration, nobody is charged. The fair-share factor is
the user's rank among all users (Fair Tree): the account that used least of its share comes
first, and within an account the user that did.")]
pub(crate) struct SharesOptions {
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}
