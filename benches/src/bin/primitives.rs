//! How long XFER-AND-SIGNAL and COMPARE-AND-WRITE take by size and node count, on TCP, on
//! RDMA verbs, and on a simulated machine. Every node is a process of this host.

use anyhow::Result;
use clap::{Parser, ValueEnum};
use comfy_table::Table;
use std::time::Duration;
use storm_benches::primitives::live::{self, Network};
use storm_benches::primitives::{Figure, MAX_BYTES, Work, hop, simulated};

/// The primitives by size and node count.
#[derive(Debug, Parser)]
struct Options {
    /// What carries them
    #[arg(long, value_enum, default_value = "tcp")]
    backend: Backend,
    /// Numbers of nodes
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    nodes: Vec<u32>,
    /// Bytes of a transfer
    #[arg(long, value_delimiter = ',', default_value = "8,4096,65536,1048576",
        value_parser = clap::value_parser!(u64).range(1..=MAX_BYTES))]
    sizes: Vec<u64>,
    /// Operations per figure
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Children of a node in the tree
    #[arg(long, default_value_t = 4)]
    fan_out: u32,
    /// On verbs: look for completions so long before going to sleep, in microseconds
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
    /// On verbs: only the lanes between two processes, as perftest measures a queue pair
    #[arg(long)]
    hop: bool,
    /// With `--hop`: chunks of a transfer for its bandwidth
    #[arg(long, default_value_t = 200)]
    chunks: u32,
    /// The simulated machine
    #[arg(long, default_value = "es40-qsnet")]
    profile: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What carries the primitives.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    Tcp,
    Verbs,
    QsnetSim,
}

fn main() -> Result<()> {
    if live::serve_if_node()? || hop::serve_if_other_end()? {
        return Ok(());
    }
    let options = Options::parse();
    let work = Work { nodes: options.nodes, sizes: options.sizes, rounds: options.rounds };
    let spin = Duration::from_micros(options.spin_us);
    let figures = match options.backend {
        Backend::Tcp => live::run(Network::Tcp, options.fan_out, &work)?,
        Backend::Verbs if options.hop => hop::run(spin, &work.sizes, work.rounds, options.chunks)?,
        Backend::Verbs => live::run(Network::Verbs { spin }, options.fan_out, &work)?,
        Backend::QsnetSim => simulated::run(&options.profile, &work)?,
    };
    if options.json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        println!("{}", table(&figures));
    }
    Ok(())
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header([
        "operation",
        "nodes",
        "bytes",
        "least us",
        "p50 us",
        "p99 us",
        "MiB/s per node",
    ]);
    for figure in figures {
        table.add_row([
            figure.operation.to_owned(),
            figure.nodes.to_string(),
            figure.bytes.to_string(),
            format!("{:.1}", figure.least_us),
            format!("{:.1}", figure.p50_us),
            format!("{:.1}", figure.p99_us),
            figure.mib_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
        ]);
    }
    table
}
