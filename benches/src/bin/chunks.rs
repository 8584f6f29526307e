//! Finds the best chunk size and number of slots for sending a program. Measures the time until all
//! nodes have a program, for each pair of settings (paper, section 3.3: 2 slots of 512 KB on its
//! machine).

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use storm_benches::cluster::program;
use storm_benches::configured_cluster::ConfiguredCluster;
use storm_benches::measuring::Measuring;
use storm_benches::payload::Payloads;
use storm_benches::peers::{
    Absent, LaunchCase, PeerTimes, launch_peers, launch_times, launch_times_table,
};
use storm_benches::spread::Spread;

/// Launch time over chunk size and slots.
#[derive(Debug, Parser)]
struct Options {
    /// Nodes, of one process each
    #[arg(long, default_value_t = 8)]
    nodes: u32,
    /// Size of the program in MB (10^6 bytes)
    #[arg(long, default_value_t = 12)]
    size: usize,
    /// Chunk sizes in KiB
    #[arg(long, value_delimiter = ',', default_value = "64,256,512,1024,4096")]
    chunks: Vec<u32>,
    /// Numbers of slots
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    slots: Vec<u32>,
    #[command(flatten)]
    measuring: Measuring,
}

/// With `--peers`: the cases, and the times of the peers.
#[derive(Debug, Serialize)]
struct Compared {
    cases: Vec<Case>,
    peers: Vec<PeerTimes>,
    absent: Vec<Absent>,
}

/// One pair of settings.
#[derive(Debug, Serialize)]
struct Case {
    chunk_kib: u32,
    slots: u32,
    /// The whole `storm run` of a do-nothing program that no node has.
    command_ms: Spread,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let dir = tempfile::tempdir()?;
    let mut payloads = Payloads::new(dir.path())?;
    let mut cases = Vec::new();
    for &chunk_kib in &options.chunks {
        for &slots in &options.slots {
            eprintln!("{slots} slots of {chunk_kib} KiB ...");
            let network = format!("chunk-bytes = {}\nchunk-slots = {slots}", chunk_kib << 10);
            let cluster = ConfiguredCluster::start(options.nodes, &network)?;
            let mut times_ms = Vec::new();
            for _ in 0..options.measuring.runs {
                let program = payloads.make(options.size * 1_000_000)?;
                times_ms.push(launch(&cluster, options.nodes, &program)?);
                std::fs::remove_file(program)?;
            }
            cases.push(Case { chunk_kib, slots, command_ms: Spread::of(times_ms) });
        }
    }
    let (mut peers, mut absent) = (Vec::new(), Vec::new());
    if options.measuring.peers {
        let (launchers, missing) = launch_peers(options.nodes, 1);
        let Options { nodes, size: size_mb, .. } = options;
        let case = LaunchCase { nodes, processes: nodes, size_mb };
        (peers, absent) = (launch_times(&launchers, case, options.measuring.runs)?, missing);
    }
    if options.measuring.json && options.measuring.peers {
        println!("{}", serde_json::to_string_pretty(&Compared { cases, peers, absent })?);
    } else if options.measuring.json {
        println!("{}", serde_json::to_string_pretty(&cases)?);
    } else {
        println!(
            "Milliseconds to launch {} MB on {} nodes: median [least..greatest] of {} runs.",
            options.size, options.nodes, options.measuring.runs
        );
        println!("{}", table(&options, &cases));
        if options.measuring.peers {
            println!("{}", launch_times_table(&peers, &absent));
        }
    }
    Ok(())
}

/// The user's waiting time for a launch, in milliseconds.
fn launch(cluster: &ConfiguredCluster, nodes: u32, job: &Path) -> Result<f64> {
    let mut command = Command::new(program("storm")?);
    command.args(["run", "--quiet", "--input", "none", "--socket"]).arg(cluster.socket());
    command.args(["-n", &nodes.to_string()]).arg(job);
    let since = std::time::Instant::now();
    let status = command.status().context("cannot start storm")?;
    ensure!(status.success(), "storm run failed: {status}");
    Ok(since.elapsed().as_secs_f64() * 1e3)
}

fn table(options: &Options, cases: &[Case]) -> Table {
    let mut table = Table::new();
    let slots = options.slots.iter().map(|slots| format!("{slots} slots"));
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["chunk KiB".to_owned()].into_iter().chain(slots));
    for &chunk_kib in &options.chunks {
        let row = cases.iter().filter(|case| case.chunk_kib == chunk_kib);
        let times = row.map(|case| case.command_ms.to_string());
        table.add_row([chunk_kib.to_string()].into_iter().chain(times));
    }
    table
}
