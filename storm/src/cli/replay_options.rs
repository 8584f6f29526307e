//! The options of `storm replay`.

use super::ClusterOptions;
use super::count::{decimal, parse_count, within};
use super::defaults::{QUANTUM, with_default};
use crate::config::GivenParam;
use crate::duration::parse_time;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use storm_replay::{DEFAULT_TRIM_PERCENT, EventOrder, TrimPercent};

/// Replays a log in virtual time.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The log is in the Standard Workload Format, version 2.2, as in the Parallel Workloads Archive,
with or without gzip; `-` is standard input. Times are virtual: a year of a machine takes a
moment. A job ends at its estimate at the latest. Jobs that did not run, had no processors or
more than the machine, or have no time of submission are left out and counted. A line that
cannot be read or has an impossible time is reported with its number, and skipped. Published
results decide after each event; for those of sjf, which decide once a second, give
--event-order batched. local, ics, pb and fcs cannot be replayed: there the nodes' kernels or
the processes themselves decide when jobs run.

With --live, a slice of the cluster lasts --speedup times as long in the log's time, and so it
does in the plan: `--quantum 10s --speedup 200` plans with 2000 s. The table shows both.

Examples:
  storm replay KTH-SP2.swf.gz --sched easy
  storm replay KTH-SP2.swf.gz --sched easy --clairvoyant --json
  storm replay log.swf --sched gang --mpl-limit 4 --quantum 10s
  storm replay log.swf --sched gang --param packing=best-fit --repack
  storm replay log.swf --sched fcfs --load 0.9 --csv starts.csv --plot fcfs.svg
  storm workload lublin --load 0.7 --pes 256 | storm replay - --sched easy
  storm replay short.swf --sched gang --live --speedup 100 --nodes 2

Exit status: 0 replayed; 1 the log cannot be used, or with --strict is damaged.")]
pub(crate) struct ReplayOptions {
    /// The log; `-` is standard input
    #[arg(value_name = "LOG.swf[.gz]")]
    pub(crate) log: PathBuf,
    #[arg(long, value_name = "NAME", default_value = "fcfs",
          help = super::with_policies("Scheduling policy"))]
    pub(crate) sched: String,
    /// Processors of the machine [default: the log's MaxProcs, else its MaxNodes]
    #[arg(long, value_name = "P", value_parser = processors)]
    pub(crate) pes: Option<u32>,
    /// Use each job's run time as its estimate
    #[arg(long)]
    pub(crate) clairvoyant: bool,
    /// Refuse a log with a line that cannot be read or does not have 18 fields
    #[arg(long)]
    pub(crate) strict: bool,
    /// Scale the times between submissions to this load, 1 for a machine always busy
    #[arg(long, value_name = "L", allow_negative_numbers = true, value_parser = decimal)]
    pub(crate) load: Option<f64>,
    /// When the policy decides: after each event, or once all events of a second are in
    #[arg(long, value_name = "ORDER", default_value = "per-event")]
    pub(crate) event_order: EventOrderArgument,
    #[arg(long, value_name = "ROWS", allow_negative_numbers = true, value_parser = parse_count,
          help = with_default("Most rows of gang scheduling", storm_sched::DEFAULT_MPL_LIMIT))]
    pub(crate) mpl_limit: Option<u32>,
    #[arg(long, value_name = "TIME", value_parser = parse_time, help = with_default(
        "Time slice of gang scheduling, as 50ms; with --live of the cluster",
        &*QUANTUM
    ))]
    pub(crate) quantum: Option<Duration>,
    /// Setting of the policy, by its name in `params` of a partition; may be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = GivenParam::from_str)]
    pub(crate) params: Vec<GivenParam>,
    /// Map all jobs anew when one comes or goes, which no cluster can: --param repack=true
    #[arg(long, conflicts_with = "live")]
    pub(crate) repack: bool,
    /// Percent of the jobs to leave out at either end for the averages of the steady state
    #[arg(long, value_name = "PERCENT", default_value_t = DEFAULT_TRIM_PERCENT,
          allow_negative_numbers = true, value_parser = decimal)]
    pub(crate) trim: f64,
    /// Show each user as well
    #[arg(long)]
    pub(crate) users: bool,
    /// Write every start to this file, as CSV; `-` is standard output, with nothing else on it
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw utilisation and queue and, for a few thousand jobs at most, which job ran where
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Submit the jobs to a cluster as well, at their times divided by --speedup; each does
    /// nothing for as long as it ran. Without a cluster, an embedded one is used
    #[arg(long, conflicts_with_all = ["csv", "plot", "mpl_limit", "event_order", "users"])]
    pub(crate) live: bool,
    /// How much faster than the log's time the cluster runs
    #[arg(long, value_name = "N", default_value_t = 1_000.0, requires = "live",
          value_parser = speedup)]
    pub(crate) speedup: f64,
    /// Nodes of the embedded cluster, among which --pes are divided [default: 1]
    #[arg(long, value_name = "N", requires = "live",
          allow_negative_numbers = true, value_parser = within::<1, 4096>)]
    pub(crate) nodes: Option<u32>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// When a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventOrderArgument {
    /// After each event, as in published results
    PerEvent,
    /// When all events of the second are in
    Batched,
}

impl EventOrderArgument {
    /// The order in the replay's own type.
    pub(crate) fn order(self) -> EventOrder {
        match self {
            EventOrderArgument::PerEvent => EventOrder::PerEvent,
            EventOrderArgument::Batched => EventOrder::Batched,
        }
    }
}

impl ReplayOptions {
    /// Whether only the starts are printed.
    pub(crate) fn csv_to_stdout(&self) -> bool {
        self.csv.as_deref() == Some(Path::new("-"))
    }

    /// The percentage to leave out at either end; `None` if it is out of range.
    pub(crate) fn trim(&self) -> Option<TrimPercent> {
        TrimPercent::new(self.trim)
    }
}

/// Outside this range, a log's times get too long or too short for a clock.
const SPEEDUPS: std::ops::RangeInclusive<f64> = 0.001..=1e6;

fn speedup(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speedup) if SPEEDUPS.contains(&speedup) => Ok(speedup),
        Ok(_) | Err(_) => {
            let (least, most) = (SPEEDUPS.start(), SPEEDUPS.end());
            Err(format!("a number from {least} to {most} is expected, for example 1000"))
        }
    }
}

fn processors(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        Ok(_) | Err(_) => {
            Err("a number of processors, 1 or more, is expected, for example 128".to_owned())
        }
    }
}
