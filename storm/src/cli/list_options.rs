//! Options of the verbs that list jobs and nodes, and that end jobs.

use super::count::parse_count;
use super::signal_argument::parse_signal;
use super::{ClusterOptions, JobName};
use clap::Args;
use storm_mm::api::JobState;

/// Selects jobs by their properties; if jobs are named, among those.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhichJobs {
    /// Only jobs of this user, by name or number
    #[arg(long, short, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Only your own jobs
    #[arg(long, conflicts_with = "user")]
    pub(crate) me: bool,
    /// Only jobs in these states, as PENDING,RUNNING
    #[arg(long, short = 't', value_name = "STATE,...", value_delimiter = ',')]
    pub(crate) state: Vec<JobState>,
    /// Only jobs in these partitions
    #[arg(long, short, value_name = "P,...", value_delimiter = ',')]
    pub(crate) partition: Vec<String>,
}

impl WhichJobs {
    /// Whether all jobs are selected.
    pub(crate) fn is_any(&self) -> bool {
        self.user.is_none() && !self.me && self.state.is_empty() && self.partition.is_empty()
    }
}

/// Options of `queue`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueOptions {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<JobName>,
    #[command(flatten)]
    pub(crate) which: WhichJobs,
    /// Also jobs that have ended
    #[arg(long, short)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `hist`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistOptions {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<JobName>,
    /// Only jobs of this user, by name or number
    #[arg(long, short, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Only your own jobs
    #[arg(long, conflicts_with = "user")]
    pub(crate) me: bool,
    /// Only jobs that ended in these states, as FAILED,TIMEOUT
    #[arg(long, short = 't', value_name = "STATE,...", value_delimiter = ',', value_parser = ended_state)]
    pub(crate) state: Vec<JobState>,
    /// Only jobs of these partitions
    #[arg(long, short, value_name = "P,...", value_delimiter = ',')]
    pub(crate) partition: Vec<String>,
    /// At most this many, the latest first [default: 20; with --json all that the manager keeps]
    #[arg(long, short = 'n', value_name = "N", allow_negative_numbers = true, value_parser = parse_count)]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// A job.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArgument {
    /// Job, or job of an array (7_3)
    #[arg(value_name = "JOB")]
    pub(crate) job: JobName,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `cancel`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  storm cancel 7 8_3
  storm cancel 7 --signal USR1
  storm cancel --user ada --state PENDING     all jobs of ada that wait
  storm cancel -u ada -p batch                all jobs of ada in the partition batch")]
pub(crate) struct CancelOptions {
    /// Jobs, arrays (7), or jobs of arrays (7_3)
    #[arg(value_name = "JOB", required_unless_present_any = ["user", "me", "state", "partition"])]
    pub(crate) jobs: Vec<JobName>,
    #[command(flatten)]
    pub(crate) which: WhichJobs,
    /// Send this signal to the jobs' processes instead, by name or number
    #[arg(long, short, value_name = "SIGNAL", value_parser = parse_signal)]
    pub(crate) signal: Option<i32>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `nodes`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodesOptions {
    /// One line per node instead of one per group of equal nodes
    #[arg(long, short)]
    pub(crate) long: bool,
    /// Show the RDMA devices of this host instead, as `--backend verbs` would use them
    #[arg(long, conflicts_with = "long")]
    pub(crate) fabric: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `drain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Jobs that run on the nodes go on. Only administrators can drain nodes. Nodes stay drained
when the Machine Manager restarts.

Examples:
  storm drain n3 n7 --reason 'disk is failing'
  storm drain 'n[1-8]' --reason 'new kernel at 18:00'")]
pub(crate) struct DrainOptions {
    /// Nodes, as n3 or n[1-8,12]
    #[arg(value_name = "NODES", required = true)]
    pub(crate) nodes: Vec<String>,
    /// Reason, shown to everybody
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `resume`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeOptions {
    /// Nodes, as n3 or n[1-8,12]
    #[arg(value_name = "NODES", required = true)]
    pub(crate) nodes: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

fn ended_state(text: &str) -> Result<JobState, String> {
    let state: JobState = text.parse().map_err(|unknown| format!("{unknown}"))?;
    match state.is_final() {
        true => Ok(state),
        false => Err(format!("jobs in it have not ended: storm queue --state {state}")),
    }
}
