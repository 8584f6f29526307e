//! Options of `model`: questions to the analytic model.

use super::Backend;
use super::count::within;
use crate::duration::parse_time;
use crate::size::parse_size;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Size of the program: that of the paper's largest launch.
const PROGRAM: &str = "12MiB";
/// Processes of each node, as on the paper's machine.
const PES: u32 = 4;

/// Options of `model`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A machine profile is one of es40-qsnet (the paper's), ideal, gigabit-ethernet,
infiniband, ethernet-100g, soft-roce, or a file that `storm model predict --show-profile` or
`storm model calibrate --output` wrote.
An MB is 10^6 bytes and an MiB 2^20 bytes; the MB of the paper are MiB.

Examples:
  storm model predict --nodes 1024 --profile gigabit-ethernet --bytes 12MiB
  storm model size --launch 150ms --quantum 2ms --cost 2
  storm model table 3
  storm model compare --nodes 64,4096
  storm model calibrate --output here.toml")]
pub(crate) struct ModelOptions {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

/// The questions.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Predict the cost of a launch, a strobe and a COMPARE-AND-WRITE on a machine
    Predict(PredictOptions),
    /// A table or figure of the paper, computed
    Table(TableOptions),
    /// How large a machine can be for a launch and a time slice, and what limits it
    Size(SizeOptions),
    /// Measure clusters on this machine and fit a profile to them
    Calibrate(CalibrateOptions),
    /// Launch times of rsh, RMS, GLUnix, Cplant, BProc and STORM
    Compare(CompareOptions),
}

/// Options of `model predict`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  storm model predict --nodes 64                        the paper's machine
  storm model predict --nodes 512 --profile infiniband --quantum 2ms
  storm model predict --nodes 512 --profile infiniband --fan-out 8 --chunk 128KiB
  storm model predict --profile ideal --show-profile > mine.toml")]
pub(crate) struct PredictOptions {
    /// Number of nodes
    #[arg(long, value_name = "N", required_unless_present = "show_profile")]
    pub(crate) nodes: Option<u64>,
    /// Machine profile: a name or a file
    #[arg(long, value_name = "P", default_value = "es40-qsnet")]
    pub(crate) profile: String,
    /// Size of the program; 0 if every node already has it
    #[arg(long, value_name = "SIZE", default_value = PROGRAM, value_parser = parse_size)]
    pub(crate) bytes: u64,
    /// Processes of each node
    #[arg(long, value_name = "P", default_value_t = PES)]
    pub(crate) pes: u32,
    /// Children of each node of a tree; `auto` takes the number with the fastest launch
    #[arg(long, value_name = "K|auto", default_value = "auto")]
    pub(crate) fan_out: FanOutArgument,
    /// Size of a chunk [default: the profile's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) chunk: Option<u64>,
    /// Longest cable in metres [default: from the number of nodes]
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    pub(crate) cable: Option<f64>,
    /// Time slice whose cost is to be predicted
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) quantum: Option<Duration>,
    /// Print the profile, to be changed and given to --profile, instead of a prediction
    #[arg(long, conflicts_with_all = ["nodes", "bytes", "pes", "fan_out", "chunk", "cable", "quantum"])]
    pub(crate) show_profile: bool,
}

/// Options of `model table`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TableOptions {
    /// The table or figure
    #[arg(value_name = "WHICH")]
    pub(crate) which: TableArgument,
}

/// Tables and figures of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableArgument {
    /// Terms of the bandwidth model
    #[value(name = "2", alias = "table2")]
    Table2,
    /// Bandwidth by nodes and cable
    #[value(name = "3", alias = "table3")]
    Table3,
    /// Launch times on 4,096 nodes
    #[value(name = "5", alias = "table5")]
    Table5,
    /// Launch times by nodes
    Fig8,
    /// Launch times of all systems by nodes
    Fig9,
    /// Where other systems would overtake STORM
    Crossover,
}

/// Options of `model size`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
For each profile: the largest number of nodes that meets both limits, its fan-out and chunk,
and the limit that one more node would break. --fan-out and --chunk apply to trees; a machine
with multicast in hardware ignores them (n/a).

Examples:
  storm model size --launch 150ms --quantum 2ms --cost 2
  storm model size --profile gigabit-ethernet --bytes 4MiB --launch 1s
  storm model size --profile infiniband,ethernet-100g --nodes 10000")]
pub(crate) struct SizeOptions {
    /// Machine profiles: names or files [default: all that are built in]
    #[arg(long, value_name = "P,...", value_delimiter = ',')]
    pub(crate) profile: Vec<String>,
    /// Size of the program
    #[arg(long, value_name = "SIZE", default_value = PROGRAM, value_parser = parse_size)]
    pub(crate) bytes: u64,
    /// Processes of each node
    #[arg(long, value_name = "P", default_value_t = PES)]
    pub(crate) pes: u32,
    /// Longest launch allowed
    #[arg(long, value_name = "TIME", default_value = "150ms", value_parser = parse_time)]
    pub(crate) launch: Duration,
    /// Time slice
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_time)]
    pub(crate) quantum: Duration,
    /// Most that the time slice may cost, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, allow_negative_numbers = true)]
    pub(crate) cost: f64,
    /// Do not look for more nodes than this
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub(crate) nodes: u64,
    /// Children of each node of a tree; `auto` tries all
    #[arg(long, value_name = "K|auto", default_value = "auto")]
    pub(crate) fan_out: FanOutArgument,
    /// Size of a chunk [default: 16 KiB to 4 MiB are tried]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) chunk: Option<u64>,
}

/// Options of `model calibrate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Starts clusters of real daemons on this machine, one after the other, and launches
do-nothing programs on them. The fitted profile holds for clusters on this machine.

Examples:
  storm model calibrate --output here.toml
  storm model predict --profile here.toml --nodes 64 --bytes 12MB
  storm model calibrate --nodes 1,4,8 --sizes 1MB,4MB --runs 5
  storm model calibrate --backend verbs --output rdma.toml    on RDMA queue pairs")]
pub(crate) struct CalibrateOptions {
    /// Numbers of nodes to measure
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,3,6,12,24,56",
          allow_negative_numbers = true, value_parser = within::<1, 4096>)]
    pub(crate) nodes: Vec<u32>,
    /// Processes of each node
    #[arg(long, value_name = "P", default_value_t = PES,
          allow_negative_numbers = true, value_parser = within::<1, 1024>)]
    pub(crate) pes: u32,
    /// Sizes of programs to measure
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "1MB,12MB",
          value_parser = parse_size)]
    pub(crate) sizes: Vec<u64>,
    /// Clusters for each number of nodes and each size; the median of their results counts
    #[arg(long, value_name = "N", default_value_t = 3,
          allow_negative_numbers = true, value_parser = within::<1, 100>)]
    pub(crate) runs: u32,
    /// The network of the clusters [default: STORM_BACKEND, else tcp]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
    /// Launch this program, padded to each size [default: the smallest program that ends at once]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Fit to the measurements of an earlier calibration as well: the output of its --json
    #[arg(long, value_name = "FILE")]
    pub(crate) with: Option<PathBuf>,
    /// Write the profile to this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `model compare`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The laws of the other systems are the paper's (Table 5): for launches of 12 MB, or of a
minimal job for rsh and GLUnix. They say little below the sizes at which they were measured.

Example:
  storm model compare --nodes 64,1024,16384")]
pub(crate) struct CompareOptions {
    /// Numbers of nodes
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "64,256,1024,4096,16384"
    )]
    pub(crate) nodes: Vec<u64>,
}

/// Children of each node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FanOutArgument {
    /// The number of children with the fastest launch.
    Auto,
    /// This many children.
    Fixed(u32),
}

/// The text is not a fan-out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a number of children is expected, or auto")]
pub(crate) struct NotAFanOut;

impl FromStr for FanOutArgument {
    type Err = NotAFanOut;

    fn from_str(text: &str) -> Result<FanOutArgument, NotAFanOut> {
        match text {
            "auto" => Ok(FanOutArgument::Auto),
            _ => text.parse().map(FanOutArgument::Fixed).map_err(|_| NotAFanOut),
        }
    }
}
