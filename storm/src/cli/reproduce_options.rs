//! The options of `storm reproduce`.

use super::count::{parse_count, whole};
use clap::Args;
use std::path::PathBuf;
use storm_sim::reproduction::{Exhibit, UnknownExhibit};

/// The largest machine of the paper's figures.
const MAX_NODES: u32 = 16_384;

/// The tables and figures to reproduce, and what to do with them.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
WHICH is one of table3 table4 table5 table6 fig2a fig2b fig2c fig2d fig3 fig4 fig5 fig7
fig8 fig9, several of them, or all.

Each number stands beside the paper's. It is `predicted` if it follows from what the paper
gives elsewhere, and `calibrated` if something was fitted to that very figure, so that
agreement proves nothing.

Examples:
  storm reproduce table3
  storm reproduce fig8 --max-nodes 1024
  storm reproduce all --check --output report
  storm reproduce fig3 fig5 --live              on this host, too")]
pub(crate) struct ReproduceOptions {
    /// Tables and figures of the paper, or `all`
    #[arg(value_name = "WHICH", required = true, num_args = 1.., value_parser = which)]
    pub(crate) which: Vec<WhichArgument>,
    /// Fail, and name the bound, if a bound that must hold does not
    #[arg(long)]
    pub(crate) check: bool,
    /// Write CSV files, plots in SVG and report.html to this directory
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Measure fig3 and fig5 on a cluster of this host as well
    #[arg(long)]
    pub(crate) live: bool,
    /// Program for --live [default: the sweep3d beside storm or in PATH]
    #[arg(long, value_name = "PROGRAM", requires = "live")]
    pub(crate) program: Option<PathBuf>,
    /// Simulate no larger machine; bounds for larger ones are not tested
    #[arg(long, value_name = "N", default_value_t = MAX_NODES,
          value_parser = parse_count)]
    pub(crate) max_nodes: u32,
    /// Seed of the simulations
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub(crate) seed: u64,
}

/// A table or figure, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhichArgument {
    /// All of them.
    All,
    /// A single table or figure.
    One(Exhibit),
}

fn which(text: &str) -> Result<WhichArgument, String> {
    let unknown = |error: UnknownExhibit| format!("{error}, and `all` for all of them");
    match text {
        "all" => Ok(WhichArgument::All),
        name => name.parse().map(WhichArgument::One).map_err(unknown),
    }
}

impl ReproduceOptions {
    /// The selected tables and figures, each once, in the paper's order.
    pub(crate) fn exhibits(&self) -> Vec<Exhibit> {
        let asked = |exhibit: &Exhibit| {
            self.which.contains(&WhichArgument::All)
                || self.which.contains(&WhichArgument::One(*exhibit))
        };
        Exhibit::ALL.into_iter().filter(asked).collect()
    }
}
