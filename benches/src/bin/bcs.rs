//! The cost and gain of buffered coscheduling on a simulated machine. Measures slices by their
//! work, a blocking ping-pong, stencils with and without blocking, and two jobs on the same
//! processing elements. Times are virtual, so the numbers are the same on any host.

use anyhow::Result;
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::time::Duration;
use storm_bcs::BcsConfig;
use storm_bcs::modelled::{Exchange, Stencil};
use storm_benches::buffered::{PingPong, Setting, StencilTimes, TwoJobs};
use storm_benches::slice_kinds::{SliceKind, SliceTime};

/// Buffered coscheduling compared with direct message passing, simulated.
#[derive(Debug, Parser)]
struct Options {
    /// The simulated machine
    #[arg(long, default_value = "es40-qsnet")]
    profile: String,
    /// Length of a slice, in microseconds
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    slice_us: u64,
    /// Bytes that a link carries in the point-to-point microphase of a slice
    #[arg(long, default_value_t = BcsConfig::default().link_bytes)]
    link_bytes: u64,
    /// Numbers of nodes, each as the sides of a grid
    #[arg(long, value_delimiter = ',', default_value = "2x2,4x4", value_parser = grid)]
    grids: Vec<(u32, u32)>,
    /// Computation per step of the stencils, in microseconds
    #[arg(long, value_delimiter = ',', default_value = "500,1000,2000,5000,10000")]
    granularity_us: Vec<u64>,
    /// Bytes of a message of the ping-pong
    #[arg(long, value_delimiter = ',', default_value = "8,4096,65536,1048576")]
    sizes: Vec<usize>,
    /// Bytes of a border of the stencils
    #[arg(long, default_value_t = 4096)]
    border_bytes: usize,
    /// Messages each way, and steps
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    slices: Vec<SliceTime>,
    ping_pong: Vec<PingPong>,
    stencils: Vec<StencilTimes>,
    two_jobs: Vec<TwoJobs>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let report = measure(&options)?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

fn measure(options: &Options) -> Result<Report> {
    let config = BcsConfig {
        slice: Duration::from_micros(options.slice_us),
        link_bytes: options.link_bytes,
        ..BcsConfig::default()
    };
    let (profile, seed) = (options.profile.clone(), options.seed);
    let setting = Setting { profile, config: config.checked()?, seed };
    let mut report = Report::default();
    for bytes in &options.sizes {
        report.ping_pong.push(setting.ping_pong(*bytes, options.rounds)?);
    }
    for &(columns, rows) in &options.grids {
        for kind in SliceKind::ALL {
            report.slices.push(setting.slice_of(kind, columns * rows, options.rounds)?);
        }
        for &granularity_us in &options.granularity_us {
            for exchange in [Exchange::NonBlocking, Exchange::Blocking] {
                let stencil = Stencil {
                    columns,
                    rows,
                    steps: options.rounds,
                    granularity: Duration::from_micros(granularity_us),
                    border_bytes: options.border_bytes,
                    exchange,
                };
                report.stencils.push(setting.stencil(stencil)?);
                if exchange == Exchange::Blocking {
                    report.two_jobs.push(setting.two_jobs(stencil)?);
                }
            }
        }
    }
    Ok(report)
}

impl Report {
    fn print(&self) {
        let mut slices = table(&["nodes", "in the slice", "us"]);
        for case in &self.slices {
            let kind = format!("{:?}", case.kind).to_lowercase();
            slices.add_row([case.nodes.to_string(), kind, format!("{:.1}", case.took_us)]);
        }
        let mut messages =
            table(&["bytes", "slices, mean", "least", "most", "answered at once", "direct us"]);
        for case in &self.ping_pong {
            messages.add_row([
                case.bytes.to_string(),
                format!("{:.3}", case.mean_slices),
                format!("{:.3}", case.least_slices),
                format!("{:.3}", case.most_slices),
                format!("{:.3}", case.at_once_slices),
                format!("{:.1}", case.direct_us),
            ]);
        }
        let mut stencils =
            table(&["nodes", "exchange", "computes us", "buffered us", "direct us", "slowdown %"]);
        for case in &self.stencils {
            stencils.add_row([
                case.nodes.to_string(),
                if case.blocking { "blocking" } else { "non-blocking" }.to_owned(),
                case.granularity_us.to_string(),
                format!("{:.1}", case.buffered_us),
                format!("{:.1}", case.direct_us),
                format!("{:.2}", case.slowdown_percent),
            ]);
        }
        let mut jobs =
            table(&["nodes", "computes us", "one ms", "both at once ms", "of one after the other"]);
        for case in &self.two_jobs {
            jobs.add_row([
                case.nodes.to_string(),
                case.granularity_us.to_string(),
                format!("{:.1}", case.one_ms),
                format!("{:.1}", case.both_ms),
                format!("{:.3}", case.ratio),
            ]);
        }
        println!("{slices}\n\n{messages}\n\n{stencils}\n\n{jobs}");
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}

/// Parses the sides of a grid, such as `4x4`.
fn grid(text: &str) -> Result<(u32, u32), String> {
    const MOST_NODES: u32 = 4096;
    let sides = text.split_once('x').and_then(|(columns, rows)| {
        Some((columns.parse().ok()?, rows.parse().ok()?)).filter(|(c, r): &(u32, u32)| {
            c.checked_mul(*r).is_some_and(|nodes| (1..=MOST_NODES).contains(&nodes))
        })
    });
    sides
        .ok_or_else(|| format!("{text:?} is not a grid of at most {MOST_NODES} nodes, such as 4x4"))
}
