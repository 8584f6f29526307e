//! Options of `partition`, and of the verbs that hold and release jobs.

use super::{ClusterOptions, JobName};
use crate::duration::parse_time;
use clap::{Args, Subcommand};
use std::time::Duration;

/// Options of `partition`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A partition that gets another policy keeps all of its jobs: running jobs go on where they
are, waiting jobs keep their order. While more rows hold jobs than the new policy allows,
no job starts and the rows run in turn; `storm partition show` says so. A setting survives
restarts of the Machine Manager until --reset, or until its key is edited in the
configuration; lists mark it with (set).

Examples:
  storm partition list
  storm partition set-sched main fcfs
  storm partition set-quantum main 2ms
  storm partition set-quantum main --reset")]
pub(crate) struct PartitionOptions {
    #[command(subcommand)]
    pub(crate) command: PartitionCommand,
}

/// The actions on partitions.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    /// List the partitions
    List {
        #[command(flatten)]
        cluster: ClusterOptions,
    },
    /// Show everything about a partition
    Show {
        /// Name of the partition
        #[arg(value_name = "PARTITION")]
        name: String,
        #[command(flatten)]
        cluster: ClusterOptions,
    },
    /// Change the scheduling policy of a partition at work; for administrators
    SetSched {
        /// Name of the partition
        #[arg(value_name = "PARTITION")]
        name: String,
        #[arg(
            value_name = "POLICY", required_unless_present = "reset",
            help = super::with_policies("Name of the policy")
        )]
        sched: Option<String>,
        /// Return to the configured policy
        #[arg(long, conflicts_with = "sched")]
        reset: bool,
        #[command(flatten)]
        cluster: ClusterOptions,
    },
    /// Change the length of a partition's slices; for administrators
    SetQuantum {
        /// Name of the partition
        #[arg(value_name = "PARTITION")]
        name: String,
        /// Length of a slice, as 2ms
        #[arg(value_name = "TIME", value_parser = parse_time, required_unless_present = "reset")]
        quantum: Option<Duration>,
        /// Return to the configured length
        #[arg(long, conflicts_with = "quantum")]
        reset: bool,
        #[command(flatten)]
        cluster: ClusterOptions,
    },
}

/// Options of `hold` and `release`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Only administrators can release a job that an administrator holds.

Examples:
  storm hold 7 8_3
  storm release 7 8_3")]
pub(crate) struct HoldOptions {
    /// Jobs, arrays (7), or jobs of arrays (7_3)
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<JobName>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}
