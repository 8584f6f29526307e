//! The times of XFER-AND-SIGNAL and COMPARE-AND-WRITE by size and node count. They are measured on
//! TCP, on RDMA verbs and on a simulated machine. Every node is a process of this host.

use anyhow::Result;
use clap::{Parser, ValueEnum};
use comfy_table::Table;
use std::collections::BTreeMap;
use std::time::Duration;
use storm_backend_verbs::Multicast;
use storm_benches::primitives::live::{self, Network};
use storm_benches::primitives::{Figure, MAX_BYTES, Work, floor, hop, simulated};

/// The primitives by size and node count.
#[derive(Debug, Parser)]
struct Options {
    /// Backend; several are measured one after the other, for one table
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    backend: Vec<Backend>,
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
    /// On verbs: poll for completions this long before going to sleep, in microseconds
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
    /// On verbs: multicast data for all members, where it works
    #[arg(long)]
    multicast: bool,
    /// On verbs: measures only the lanes between two processes, as perftest measures a queue pair,
    /// and compares with the least cost of such a hop
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

/// The backend of the primitives.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    Tcp,
    Verbs,
    QsnetSim,
}

fn main() -> Result<()> {
    if live::serve_if_node()? || hop::serve_if_other_end()? || floor::serve_if_other_end()? {
        return Ok(());
    }
    let options = Options::parse();
    let mut measured = Vec::new();
    for &backend in &options.backend {
        measured.push((backend, measure(&options, backend)?));
    }
    match &measured[..] {
        [(_, figures)] if options.json => println!("{}", serde_json::to_string(figures)?),
        _ if options.json => {
            let all: BTreeMap<_, _> =
                measured.iter().map(|(backend, figures)| (backend.name(), figures)).collect();
            println!("{}", serde_json::to_string(&all)?);
        }
        [(_, figures)] => println!("{}", table(figures)),
        _ => println!("{}", comparison(&measured)),
    }
    Ok(())
}

fn measure(options: &Options, backend: Backend) -> Result<Vec<Figure>> {
    let (nodes, sizes) = (options.nodes.clone(), options.sizes.clone());
    let work = Work { nodes, sizes, rounds: options.rounds };
    let spin = Duration::from_micros(options.spin_us);
    let multicast = Some(if options.multicast { Multicast::On } else { Multicast::Off });
    let network = Network::Verbs { spin, multicast };
    match backend {
        Backend::Tcp => live::run(Network::Tcp, options.fan_out, &work),
        Backend::Verbs if options.hop => {
            let mut figures = floor::run(&work.sizes, work.rounds, options.chunks)?;
            figures.extend(hop::run(spin, &work.sizes, work.rounds, options.chunks)?);
            Ok(figures)
        }
        Backend::Verbs => live::run(network, options.fan_out, &work),
        Backend::QsnetSim => simulated::run(&options.profile, &work),
    }
}

/// The medians and bandwidths of several backends side by side.
fn comparison(measured: &[(Backend, Vec<Figure>)]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    let mut header = vec!["operation".to_owned(), "nodes".to_owned(), "bytes".to_owned()];
    let names = measured.iter().map(|(backend, _)| backend.name());
    header.extend(names.clone().map(|name| format!("{name} us")));
    header.extend(names.map(|name| format!("{name} MiB/s")));
    table.set_header(header);
    let Some((_, first)) = measured.first() else { return table };
    for (row, figure) in first.iter().enumerate() {
        let mut cells =
            vec![figure.operation.to_owned(), figure.nodes.to_string(), figure.bytes.to_string()];
        let figures = || measured.iter().map(|(_, figures)| figures.get(row));
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        cells.extend(figures().map(|it| or_none(it.map(|it| format!("{:.1}", it.p50_us)))));
        let rate = |it: &Figure| it.mib_s.map(|rate| format!("{rate:.1}"));
        cells.extend(figures().map(|it| or_none(it.and_then(rate))));
        table.add_row(cells);
    }
    table
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Backend::Tcp => "tcp",
            Backend::Verbs => "verbs",
            Backend::QsnetSim => "qsnet-sim",
        }
    }
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
