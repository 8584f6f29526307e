//! The time of a launch and its parts (paper, section 4.4.1): do-nothing programs of 0, 4 and 12 MB
//! on 1 to 64 nodes of 4 processes. They are compared with the time that the machine itself needs
//! for as many copies and processes. With `--peers`, they are compared with Slurm and Hydra.
//! Everything runs on one host, so the results do not describe a network.

use anyhow::Result;
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use storm_benches::cluster::{Breakdown, Cluster};
use storm_benches::daemons::{Cost, Costs, Role, costs, of_cluster};
use storm_benches::floor;
use storm_benches::measuring::Measuring;
use storm_benches::payload::Payloads;
use storm_benches::peers::{Absent, LaunchPeer, PeerLaunches, launch_peers, launch_table};
use storm_benches::spread::Spread;

/// Processes of each node, as on the paper's machine.
const PES: u32 = 4;

/// Launch time of do-nothing programs, compared with the machine's physical floor.
#[derive(Debug, Parser)]
struct Options {
    /// Numbers of nodes
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    nodes: Vec<u32>,
    /// Sizes of the program in MB (10^6 bytes); 0 is the bare static program
    #[arg(long, value_delimiter = ',', default_value = "0,4,12")]
    sizes: Vec<usize>,
    #[command(flatten)]
    measuring: Measuring,
}

/// One case. Times are milliseconds.
#[derive(Debug, Serialize)]
struct Case {
    nodes: u32,
    processes: u32,
    size_mb: usize,
    /// No node has the program.
    first: Launch,
    /// The second launch, when every node has the program.
    again: Launch,
    /// Launches left out of `first` and `again`, because the cluster did not report their parts.
    without_breakdown: u32,
    /// Writing a copy for each node to tmpfs.
    floor_write_ms: Spread,
    /// Spawning and reaping as many processes.
    floor_spawn_ms: Spread,
    /// Median of the first launch over the sum of both floors.
    ratio: f64,
    /// The same launches by other systems, with `--peers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<PeerLaunches>,
}

/// With `--peers`: the cases, and the peers without figures.
#[derive(Debug, Serialize)]
struct Compared {
    cases: Vec<Case>,
    absent: Vec<Absent>,
}

#[derive(Debug, Serialize)]
struct Launch {
    read_ms: Spread,
    send_ms: Spread,
    write_ms: Spread,
    exec_ms: Spread,
    wait_for_slice_ms: Spread,
    total_ms: Spread,
    /// The whole `storm run`, with the end of the job.
    command_ms: Spread,
    sent_bytes: u64,
    /// The daemons' work for the launch, from before the command to its end. Together with the
    /// job's processes, it bounds the launch on one host.
    costs: Costs,
}

/// The times of one launch.
struct Sample {
    breakdown: Breakdown,
    /// The whole command.
    command_ms: f64,
    costs: BTreeMap<Role, Cost>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let most = options.nodes.iter().copied().max().unwrap_or(1);
    let (peers, absent) =
        if options.measuring.peers { launch_peers(most, PES) } else { Default::default() };
    let mut cases = Vec::new();
    for &nodes in &options.nodes {
        for &size_mb in &options.sizes {
            eprintln!("{nodes} nodes, {size_mb} MB ...");
            cases.push(measure(nodes, size_mb, options.measuring.runs, &peers)?);
        }
    }
    if options.measuring.json && options.measuring.peers {
        println!("{}", serde_json::to_string_pretty(&Compared { cases, absent })?);
    } else if options.measuring.json {
        println!("{}", serde_json::to_string_pretty(&cases)?);
    } else {
        println!("Milliseconds: median [least..greatest] of {} runs.", options.measuring.runs);
        println!("{}", table(&cases));
        print_costs(&cases);
        let missing: u32 = cases.iter().map(|case| case.without_breakdown).sum();
        if missing > 0 {
            println!("{missing} launches are left out: the cluster had no breakdown of them.");
        }
        if options.measuring.peers {
            println!("{}", compared(&cases, &absent));
        }
    }
    Ok(())
}

fn measure(nodes: u32, size_mb: usize, runs: u32, peers: &[Box<dyn LaunchPeer>]) -> Result<Case> {
    let dir = tempfile::tempdir()?;
    let mut payloads = Payloads::new(dir.path())?;
    let processes = nodes * PES;
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let (mut write_ms, mut spawn_ms) = (Vec::new(), Vec::new());
    let mut without_breakdown = 0;
    let mut turns = vec![Vec::new(); peers.len()];
    for _ in 0..runs {
        let program = payloads.make(size_mb * 1_000_000)?;
        write_ms.push(floor::write_copies(&program, nodes)?.as_secs_f64() * 1e3);
        spawn_ms.push(floor::spawn_and_reap(&program, processes)?.as_secs_f64() * 1e3);
        // Each case has a cluster of its own, so that the copies of earlier runs are gone.
        let mut cluster = Cluster::up(nodes, PES, &[])?;
        let mut commands_ms = [0.0; 2];
        for (samples, command_ms) in [&mut first, &mut again].into_iter().zip(&mut commands_ms) {
            let before = of_cluster(cluster.runtime_dir())?;
            let finished = cluster.run(processes, &[], &[&program])?;
            let costs = costs(&before, &of_cluster(cluster.runtime_dir())?);
            *command_ms = finished.wall.as_secs_f64() * 1e3;
            match cluster.breakdown(finished.job)? {
                Some(breakdown) => {
                    samples.push(Sample { breakdown, command_ms: *command_ms, costs });
                }
                None => without_breakdown += 1,
            }
        }
        cluster.down()?;
        let [storm_first_ms, storm_again_ms] = commands_ms;
        for (peer, turns) in peers.iter().zip(&mut turns) {
            let first_ms = peer.first(nodes, processes, &program)?.as_secs_f64() * 1e3;
            let again_ms = peer.again(nodes, processes)?.as_secs_f64() * 1e3;
            turns.push([first_ms, again_ms, storm_first_ms, storm_again_ms]);
        }
        // The nodes keep up to 64 copies of each run. This copy is not needed.
        std::fs::remove_file(program)?;
    }
    let peers = peers.iter().zip(&turns).map(|(peer, turns)| PeerLaunches::of(peer.name(), turns));
    let (floor_write_ms, floor_spawn_ms) = (Spread::of(write_ms), Spread::of(spawn_ms));
    let (first, again) = (Launch::of(&first), Launch::of(&again));
    let ratio = first.total_ms.median / (floor_write_ms.median + floor_spawn_ms.median);
    Ok(Case {
        nodes,
        processes,
        size_mb,
        first,
        again,
        without_breakdown,
        floor_write_ms,
        floor_spawn_ms,
        ratio,
        peers: peers.collect(),
    })
}

/// Prints the work of the daemons, which bounds the launches: the daemons share the processors with
/// each other and with the job.
fn print_costs(cases: &[Case]) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("Processor time of the daemons, and how often they gave up a processor:");
    for case in cases {
        for (name, launch) in [("first", &case.first), ("again", &case.again)] {
            let (costs, available_ms) =
                (&launch.costs, launch.command_ms.median * processors as f64);
            let share = 100.0 * costs.cpu_ms() / available_ms.max(f64::MIN_POSITIVE);
            println!(
                "  {} x {PES}, {} MB, {name}: {share:.0} % of {processors} processors: {costs}",
                case.nodes, case.size_mb
            );
        }
    }
}

/// The users' waiting times, with storm and with the peers.
fn compared(cases: &[Case], absent: &[Absent]) -> Table {
    let rows = cases.iter().map(|case| {
        let name = [format!("{} x {PES}", case.nodes), case.size_mb.to_string()];
        (name, [case.first.command_ms, case.again.command_ms], case.peers.as_slice())
    });
    launch_table(rows, absent)
}

impl Launch {
    fn of(samples: &[Sample]) -> Launch {
        let part = |of: fn(&Breakdown) -> f64| Spread::of(samples.iter().map(|s| of(&s.breakdown)));
        Launch {
            read_ms: part(|b| b.read_ms),
            send_ms: part(|b| b.send_ms),
            write_ms: part(|b| b.write_ms),
            exec_ms: part(|b| b.exec_ms),
            wait_for_slice_ms: part(|b| b.wait_for_slice_ms),
            total_ms: part(|b| b.total_ms),
            command_ms: Spread::of(samples.iter().map(|sample| sample.command_ms)),
            sent_bytes: samples.iter().map(|s| s.breakdown.sent_bytes).max().unwrap_or(0),
            costs: Costs::median(&samples.iter().map(|s| s.costs.clone()).collect::<Vec<_>>()),
        }
    }
}

fn table(cases: &[Case]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "nodes x procs",
        "MB",
        "launch",
        "read",
        "send",
        "write",
        "exec",
        "slice",
        "total",
        "command",
        "floor write",
        "floor spawn",
        "total/floor",
    ]);
    for case in cases {
        let again_ratio = case.again.total_ms.median / case.floor_spawn_ms.median;
        // A launch that writes nothing has no floor of writing.
        let first = ("first", &case.first, case.floor_write_ms.to_string(), case.ratio);
        let again = ("again", &case.again, "-".to_owned(), again_ratio);
        for (name, launch, floor_write, ratio) in [first, again] {
            table.add_row([
                format!("{} x {PES}", case.nodes),
                case.size_mb.to_string(),
                name.to_owned(),
                format!("{:.1}", launch.read_ms.median),
                format!("{:.1}", launch.send_ms.median),
                format!("{:.1}", launch.write_ms.median),
                format!("{:.1}", launch.exec_ms.median),
                format!("{:.1}", launch.wait_for_slice_ms.median),
                launch.total_ms.to_string(),
                launch.command_ms.to_string(),
                floor_write,
                case.floor_spawn_ms.to_string(),
                format!("{ratio:.1}"),
            ]);
        }
    }
    table
}
