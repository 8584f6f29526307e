//! Latency and bandwidth of message-passing libraries between two ranks, and the times of their
//! collectives: storm-mpi, MPICH and Open MPI, by turns in one run.

use anyhow::Result;
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::path::{Path, PathBuf};
use storm_benches::peers::Absent;
use storm_benches::pingpong::{Contestant, Way, What, contestants};
use storm_benches::spread::Spread;

/// 1 B to 4 MiB, in steps of four.
const SIZES: [u32; 12] =
    [1, 4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Ping-pong or collectives between two ranks: on one node, and on two nodes through TCP.
#[derive(Debug, Parser)]
struct Options {
    /// Times to measure each library, by turns
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Seconds for each size of a run
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Lengths of the messages, in bytes
    #[arg(long, value_delimiter = ',', default_values_t = SIZES)]
    sizes: Vec<u32>,
    /// What the ranks do
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [What::Message])]
    what: Vec<What>,
    /// How storm-mpi waits
    #[arg(long, value_delimiter = ',', default_values_t = ["spin".to_owned(), "spin-block".to_owned()])]
    waits: Vec<String>,
    /// Measure MPICH and Open MPI as well, by turns, where they are installed
    #[arg(long)]
    peers: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    cases: Vec<Case>,
    /// Libraries that should have been measured and are missing.
    absent: Vec<Absent>,
}

#[derive(Debug, Serialize)]
struct Case {
    way: Way,
    what: What,
    library: String,
    bytes: u32,
    /// Half of the best time there and back, or the best of a collective, of each run.
    us: Spread,
    /// At the median.
    mib_per_s: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let storm = sibling_program("storm")?;
    let directory = tempfile::tempdir()?;
    let (all, absent) = contestants(&storm, &options.waits, options.peers, &directory)?;
    let mut cases = Vec::new();
    for way in [Way::Node, Way::Tcp] {
        for &what in &options.what {
            cases.extend(measured(&options, &storm, &all, (way, what))?);
        }
    }
    let report = Report { cases, absent };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("us, of messages one way: median [least..greatest] of {} runs; MiB/s.", options.runs);
    for (way, title) in [(Way::Node, "One node"), (Way::Tcp, "TCP on one host")] {
        for &what in &options.what {
            println!("\n{title}: {what}\n{}", table(&report, (way, what), &options.sizes));
        }
    }
    Ok(())
}

/// A program of this build.
fn sibling_program(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    anyhow::ensure!(path.exists(), "{} is missing: build the workspace", path.display());
    Ok(path)
}

fn measured(
    options: &Options,
    storm: &Path,
    all: &[Contestant],
    (way, what): (Way, What),
) -> Result<Vec<Case>> {
    let mut times = vec![vec![Vec::new(); options.sizes.len()]; all.len()];
    for run in 1..=options.runs {
        for (contestant, times) in all.iter().zip(&mut times) {
            eprintln!("run {run}, {way:?}, {what}: {} ...", contestant.name);
            let points = contestant.measure(storm, (way, what), options.seconds, &options.sizes)?;
            for (point, times) in points.iter().zip(times) {
                times.push(point.us);
            }
        }
    }
    let mut cases = Vec::new();
    for (contestant, times) in all.iter().zip(times) {
        for (&bytes, times) in options.sizes.iter().zip(times) {
            let us = Spread::of(times);
            let mib_per_s = f64::from(bytes) / f64::from(1 << 20) / (us.median / 1e6);
            let library = contestant.name.clone();
            cases.push(Case { way, what, library, bytes, us, mib_per_s });
        }
    }
    Ok(cases)
}

fn table(report: &Report, (way, what): (Way, What), sizes: &[u32]) -> Table {
    let cases = || report.cases.iter().filter(|case| (case.way, case.what) == (way, what));
    let mut libraries: Vec<&str> = cases().map(|case| case.library.as_str()).collect();
    libraries.dedup();
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    let titles = libraries.iter().flat_map(|&library| [library.to_owned(), "MiB/s".to_owned()]);
    table.set_header(std::iter::once("bytes".to_owned()).chain(titles));
    for &bytes in sizes {
        let of = |library: &&str| {
            let case = cases().find(|case| case.bytes == bytes && case.library == *library);
            case.map(|case| [case.us.to_string(), format!("{:.0}", case.mib_per_s)])
        };
        let cells = libraries.iter().filter_map(of).flatten();
        table.add_row(std::iter::once(bytes.to_string()).chain(cells));
    }
    table
}
