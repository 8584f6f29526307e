//! The options that the benchmarks have in common.

use clap::Args;

/// How many times to measure, with which peers, and how to report.
#[derive(Clone, Debug, Args)]
pub struct Measuring {
    /// Times to measure each case, each on a fresh cluster if clusters are measured
    #[arg(long, default_value_t = 3)]
    pub runs: u32,
    /// Measure Slurm and Hydra as well, by turns, where they are installed and can do such work
    #[arg(long)]
    pub peers: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
