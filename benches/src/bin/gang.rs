//! The cost of time-slicing, by the length of the slice (paper, section 4.4.2). Compares two jobs
//! at once under gang scheduling with the same two one after the other. The 2 nodes have 1
//! processing element each and are processes of one host. Also measures how soon after a strobe the
//! nodes switch, and how far apart.

use anyhow::{Result, ensure};
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::hint::black_box;
use std::time::{Duration, Instant};
use storm_benches::cluster::{Cluster, program};
use storm_benches::measuring::Measuring;
use storm_benches::peers::{Absent, SlurmGang, gang_table, slurm_gang, spin_seconds};
use storm_benches::spread::Spread;
use storm_benches::switch_floor::{SwitchFloor, slowdown_percent};
use storm_benches::switches::{Percentiles, Switches};

/// Nodes, each of one processing element: a job is one process on each.
const NODES: u32 = 2;
/// Iterations that are timed to find how many make a job of the wanted length.
const CALIBRATION_ITERATIONS: u64 = 100_000_000;

/// Slowdown under gang scheduling and times of its switches.
#[derive(Debug, Parser)]
struct Options {
    /// Time slices in milliseconds
    #[arg(long, value_delimiter = ',', default_value = "0.3,0.5,1,2,5,10,50")]
    quantum: Vec<f64>,
    #[command(flatten)]
    measuring: Measuring,
    /// Seconds of processor time of each process of the spinning job
    #[arg(long, default_value_t = 1.0)]
    spin_seconds: f64,
    /// Times that sweep3d solves its problem
    #[arg(long, default_value_t = 4)]
    sweep_steps: u32,
    /// Be the spinning job
    #[arg(long, hide = true, value_name = "ITERATIONS")]
    spin: Option<u64>,
}

/// A job to run two copies of.
struct Workload {
    name: &'static str,
    argv: Vec<String>,
    waits_for_nobody: bool,
}

impl Workload {
    /// The least cost of taking turns with this quantum, if it is known.
    fn floor(&self, quantum_ms: f64, runs: u32) -> Result<Option<SwitchFloor>> {
        let quantum = Duration::from_secs_f64(quantum_ms / 1e3);
        let floor = || slowdown_percent(&self.argv, NODES as usize, quantum, runs);
        self.waits_for_nobody.then(floor).transpose()
    }
}

/// One workload under one time slice.
#[derive(Debug, Serialize)]
struct Case {
    workload: &'static str,
    quantum_ms: f64,
    /// The result, or the reason why there is none.
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Measured(Box<Measured>),
    Failed(String),
}

#[derive(Debug, Serialize)]
struct Measured {
    /// Seconds for two copies, one after the other.
    in_turn_s: Spread,
    /// Seconds for two copies at once.
    at_once_s: Spread,
    /// By how many percent gang scheduling takes longer; over all pairs of measurements.
    slowdown_percent: Spread,
    /// The cost for processes that a bare loop freezes and thaws, without any manager. Only for
    /// spinning processes, which do not wait for others.
    floor_percent: Option<Spread>,
    /// The cost for processes that run undisturbed while a bare thread wakes at each time slice.
    wakes_percent: Option<Spread>,
    /// The time from the issue of a strobe to the end of a node's switch.
    latency: Percentiles,
    /// The time between the two nodes' ends of a switch.
    skew: Percentiles,
    /// The time from the first stop to the last resume of a node.
    switch: Percentiles,
}

/// With `--peers`: the cases, and the peer's results.
#[derive(Debug, Serialize)]
struct Compared<'a, T> {
    cases: &'a [Case],
    slurm: T,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(iterations) = options.spin {
        spin(iterations);
        return Ok(());
    }
    let workloads = [spinning(options.spin_seconds)?, sweeping(options.sweep_steps)?];
    let mut cases = Vec::new();
    for workload in &workloads {
        for &quantum_ms in &options.quantum {
            eprintln!("{}, {quantum_ms} ms ...", workload.name);
            let outcome = match measure(workload, quantum_ms, options.measuring.runs) {
                Ok(measured) => Outcome::Measured(Box::new(measured)),
                Err(error) => Outcome::Failed(format!("{error:#}")),
            };
            cases.push(Case { workload: workload.name, quantum_ms, outcome });
        }
    }
    // The time slices of Slurm are a hundred times as long, and its two jobs must last several of
    // them. They have runs of their own afterwards.
    let peer = match options.measuring.peers {
        true => Some(slurm_gang(NODES, &spinning(spin_seconds())?.argv, options.measuring.runs)),
        false => None,
    };
    print(&options, &cases, peer)?;
    let failed = cases.iter().filter(|c| matches!(c.outcome, Outcome::Failed(_))).count();
    ensure!(failed == 0, "{failed} of {} cases failed", cases.len());
    Ok(())
}

fn print(options: &Options, cases: &[Case], peer: Option<Result<SlurmGang, Absent>>) -> Result<()> {
    if options.measuring.json {
        let text = match peer {
            None => serde_json::to_string_pretty(cases)?,
            Some(Ok(slurm)) => serde_json::to_string_pretty(&Compared { cases, slurm })?,
            Some(Err(slurm)) => serde_json::to_string_pretty(&Compared { cases, slurm })?,
        };
        println!("{text}");
        return Ok(());
    }
    println!("Median [least..greatest] of {} runs; p50/p99/max in us.", options.measuring.runs);
    println!("{}", table(cases));
    if let Some(peer) = peer {
        println!("{}", gang_table(&peer));
    }
    Ok(())
}

fn measure(workload: &Workload, quantum_ms: f64, runs: u32) -> Result<Measured> {
    let quantum = format!("{}us", (quantum_ms * 1e3).round());
    let mut cluster = Cluster::up(NODES, 1, &["--quantum", &quantum])?;
    let options = ["--no-bcast", "--bind", "core"];
    let (mut in_turn, mut at_once, mut slowdown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let since = Instant::now();
        cluster.run(NODES, &options, &workload.argv)?;
        cluster.run(NODES, &options, &workload.argv)?;
        let in_turn_s = since.elapsed().as_secs_f64();
        let since = Instant::now();
        let one = cluster.start(NODES, &options, &workload.argv)?;
        let other = cluster.start(NODES, &options, &workload.argv)?;
        // Wait for both even if the first fails.
        let ends = [one.finish(), other.finish()];
        let at_once_s = since.elapsed().as_secs_f64();
        ends.into_iter().collect::<Result<Vec<_>>>()?;
        in_turn.push(in_turn_s);
        at_once.push(at_once_s);
        slowdown.push((at_once_s / in_turn_s - 1.0) * 100.0);
    }
    let switches = Switches::read(&cluster.down()?)?;
    let floor = workload.floor(quantum_ms, runs)?;
    Ok(Measured {
        floor_percent: floor.map(|floor| floor.turns),
        wakes_percent: floor.map(|floor| floor.wakes),
        in_turn_s: Spread::of(in_turn),
        at_once_s: Spread::of(at_once),
        slowdown_percent: Spread::of(slowdown),
        latency: Percentiles::of(&switches.latency),
        skew: Percentiles::of(&switches.skew),
        switch: Percentiles::of(&switches.switch),
    })
}

fn spinning(seconds: f64) -> Result<Workload> {
    let since = Instant::now();
    spin(CALIBRATION_ITERATIONS);
    let scale = seconds / since.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    let iterations = (CALIBRATION_ITERATIONS as f64 * scale) as u64;
    let own = std::env::current_exe()?.display().to_string();
    let argv = vec![own, "--spin".to_owned(), iterations.to_string()];
    Ok(Workload { name: "spin", argv, waits_for_nobody: true })
}

fn sweeping(steps: u32) -> Result<Workload> {
    let sweep3d = program("sweep3d")?.display().to_string();
    let argv = vec![sweep3d, "--steps".to_owned(), steps.to_string()];
    Ok(Workload { name: "sweep3d", argv, waits_for_nobody: false })
}

/// Keeps a processor busy: each step depends on the previous one.
fn spin(iterations: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..iterations {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(state);
}

fn table(cases: &[Case]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "job",
        "quantum ms",
        "in turn s",
        "at once s",
        "slowdown %",
        "floor %",
        "of it wakes %",
        "strobe to switched",
        "skew of nodes",
        "stop to resume",
        "switches",
    ]);
    for case in cases {
        let mut row = vec![case.workload.to_owned(), case.quantum_ms.to_string()];
        match &case.outcome {
            Outcome::Measured(m) => row.extend([
                m.in_turn_s.to_string(),
                m.at_once_s.to_string(),
                m.slowdown_percent.to_string(),
                m.floor_percent.map_or_else(|| "-".to_owned(), |floor| floor.to_string()),
                m.wakes_percent.map_or_else(|| "-".to_owned(), |wakes| wakes.to_string()),
                percentiles(&m.latency),
                percentiles(&m.skew),
                percentiles(&m.switch),
                m.skew.count.to_string(),
            ]),
            Outcome::Failed(why) => row.push(format!("failed: {why}")),
        }
        table.add_row(row);
    }
    table
}

fn percentiles(p: &Percentiles) -> String {
    format!("{:.0}/{:.0}/{:.0}", p.p50_us, p.p99_us, p.max_us)
}
