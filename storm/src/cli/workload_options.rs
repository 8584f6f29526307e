//! The options of `storm workload`.

use super::count::{decimal, parse_count, whole};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use storm_replay::lublin::DEFAULT_JOBS;

/// Generates workloads.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadOptions {
    #[command(subcommand)]
    pub(crate) model: WorkloadModel,
}

/// The models.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum WorkloadModel {
    /// The model of Lublin and Feitelson: rigid jobs with a daily cycle
    Lublin(LublinArguments),
}

/// Options of `workload lublin`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The log is in the Standard Workload Format: batch jobs in queue 1, interactive ones in queue
0. Its jobs have no estimates, so a replay uses their run times. The same options give the
same log.

Examples:
  storm workload lublin --load 0.7 --pes 256 > lublin.swf
  storm workload lublin --load 0.9 --pes 128 --jobs 100000 --seed 7 -o lublin.swf.gz
  storm workload lublin --pes 256 --typeless | storm replay - --sched easy")]
pub(crate) struct LublinArguments {
    /// Processors of the machine
    #[arg(long, value_name = "P", default_value_t = 256,
          allow_negative_numbers = true, value_parser = parse_count)]
    pub(crate) pes: u32,
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = DEFAULT_JOBS,
          allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub(crate) jobs: u32,
    /// Scale the times between submissions to this load [default: the model's]
    #[arg(long, value_name = "L", allow_negative_numbers = true, value_parser = decimal)]
    pub(crate) load: Option<f64>,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub(crate) seed: u64,
    /// Do not distinguish batch and interactive jobs
    #[arg(long)]
    pub(crate) typeless: bool,
    /// Write the log to this file, compressed if the name ends in .gz; `-` is standard output,
    /// where --json prints the jobs as one JSON object [default: -]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
