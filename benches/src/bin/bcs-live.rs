//! Buffered coscheduling with real daemons and processes on this host, compared with gang
//! scheduling. Measures the number of slices, and the times of blocking messages and collectives in
//! slices. Compares a stencil that does not block with direct messages. Compares two jobs on the
//! same processing elements, at once and one after the other.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use storm_benches::cluster::{Cluster, program};
use storm_benches::spread::Spread;

/// Buffered coscheduling and gang scheduling on a local cluster.
#[derive(Debug, Parser)]
struct Options {
    /// Nodes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Processing elements of each, which a job takes all of
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pes: u32,
    /// Computing between two exchanges, in microseconds of processor time
    #[arg(long, value_delimiter = ',', default_value = "200,1000,5000")]
    granularity_us: Vec<u64>,
    /// Exchanges of a job
    #[arg(long, default_value_t = 100)]
    steps: u32,
    /// The quantum of rows
    #[arg(long, default_value = "20ms")]
    quantum: String,
    /// Cells along a side of the stencil's plate
    #[arg(long, value_delimiter = ',', default_value = "500,1500,3000")]
    cells: Vec<u32>,
    /// Steps of the stencil
    #[arg(long, default_value_t = 200)]
    stencil_steps: u32,
    /// Messages each way, and collectives of each kind
    #[arg(long, default_value_t = 300)]
    rounds: u32,
    /// Longest time of other work before a message that is sent at any time, in microseconds
    #[arg(long, default_value_t = 4000)]
    pause_us: u32,
    /// Times to measure each case
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One policy and granularity.
#[derive(Debug, Serialize)]
struct Case {
    sched: &'static str,
    granularity_us: u64,
    /// One job alone, in seconds.
    one_s: Spread,
    /// Two jobs at once, until both have ended.
    both_s: Spread,
    /// The time of both jobs at once, divided by their time one after the other.
    ratio: f64,
    /// Slices in a second, while one job runs.
    slices_per_s: Option<Spread>,
}

/// All measurements.
#[derive(Debug, Default, Serialize)]
struct Report {
    latencies: Vec<Latency>,
    stencils: Vec<Stencil>,
    two_jobs: Vec<Case>,
}

/// The time of one message or collective.
#[derive(Debug, Serialize)]
struct Latency {
    sched: &'static str,
    what: &'static str,
    /// The means of the runs.
    us: Spread,
    /// The time in slices of the nominal length: the mean, and the 5th and 95th percentiles.
    slices: Option<[f64; 3]>,
    /// Slices in a second, while all of these are measured.
    slices_per_s: Option<Spread>,
}

/// A step of a stencil that computes during its exchange.
#[derive(Debug, Serialize)]
struct Stencil {
    cells: u32,
    direct_ms: Spread,
    buffered_ms: Spread,
    slowdown_percent: f64,
}

/// The output of `bcs-probe`, in microseconds.
#[derive(Deserialize)]
struct Probed {
    message: Times,
    at_once: Times,
    barrier: Times,
    allreduce: Times,
}

#[derive(Clone, Copy, Deserialize)]
struct Times {
    mean: f64,
    p5: f64,
    p95: f64,
}

#[derive(Deserialize)]
struct Partition {
    #[serde(default)]
    checkpoint: Option<u64>,
    #[serde(default)]
    slice_us: Option<u64>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut report = Report::default();
    let mut steps = Vec::new();
    for sched in ["gang", "bcs"] {
        let up = ["--sched", sched, "--quantum", &options.quantum];
        let mut cluster = Cluster::up(options.nodes, options.pes, &up)?;
        report.latencies.extend(probe(&cluster, sched, &options)?);
        for &cells in &options.cells {
            steps.push(stencil_step(&cluster, cells, &options)?);
        }
        for &granularity_us in &options.granularity_us {
            report.two_jobs.push(measure(&cluster, sched, granularity_us, &options)?);
        }
        cluster.down()?;
    }
    let (direct, buffered) = steps.split_at(options.cells.len());
    for ((&cells, direct), buffered) in options.cells.iter().zip(direct).zip(buffered) {
        report.stencils.push(Stencil {
            cells,
            direct_ms: *direct,
            buffered_ms: *buffered,
            slowdown_percent: 100.0 * (buffered.median / direct.median - 1.0),
        });
    }
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &Report) {
    let told = |slices: Option<Spread>| slices.map_or_else(|| "-".to_owned(), |s| s.to_string());
    println!("| sched | one | us | slices, mean | p5 | p95 | slices/s |");
    println!("|---|---|---|---|---|---|---|");
    for latency in &report.latencies {
        let slices = latency.slices.map_or_else(
            || "- | - | -".to_owned(),
            |[mean, p5, p95]| format!("{mean:.2} | {p5:.2} | {p95:.2}"),
        );
        let (sched, what, us) = (latency.sched, latency.what, latency.us);
        println!("| {sched} | {what} | {us} | {slices} | {} |", told(latency.slices_per_s));
    }
    println!("\n| cells | direct ms | buffered ms | slowdown % |");
    println!("|---|---|---|---|");
    for Stencil { cells, direct_ms, buffered_ms, slowdown_percent } in &report.stencils {
        println!("| {cells} | {direct_ms} | {buffered_ms} | {slowdown_percent:.1} |");
    }
    println!(
        "\n| sched | computes us | one s | both at once s | of one after the other | slices/s |"
    );
    println!("|---|---|---|---|---|---|");
    for case in &report.two_jobs {
        println!(
            "| {} | {} | {} | {} | {:.3} | {} |",
            case.sched,
            case.granularity_us,
            case.one_s,
            case.both_s,
            case.ratio,
            told(case.slices_per_s)
        );
    }
}

/// Blocking messages and collectives.
fn probe(cluster: &Cluster, sched: &'static str, options: &Options) -> Result<Vec<Latency>> {
    let (mut all, mut per_s, mut slice_us) = (Vec::new(), Vec::new(), None);
    let (pause_us, rounds) = (options.pause_us.to_string(), options.rounds.to_string());
    for _ in 0..options.runs {
        let before = partition(cluster)?;
        let began = Instant::now();
        let arguments = ["--rounds", &rounds, "--pause-us", &pause_us];
        let said = ended(start(cluster, "bcs-probe", &arguments, options)?)?;
        let probed: Probed = serde_json::from_str(&said)?;
        per_s.extend(slices_per_s(cluster, &before, began.elapsed())?);
        slice_us = before.slice_us;
        all.push(probed);
    }
    let slices_per_s = (!per_s.is_empty()).then(|| Spread::of(per_s));
    let of = |what, times: fn(&Probed) -> Times| {
        let median = |part: fn(Times) -> f64| Spread::of(all.iter().map(|p| part(times(p))));
        let us = median(|times| times.mean);
        let slices = slice_us.map(|slice_us| {
            let edges = [us, median(|times| times.p5), median(|times| times.p95)];
            edges.map(|us| us.median / slice_us as f64)
        });
        Latency { sched, what, us, slices, slices_per_s }
    };
    Ok(vec![
        of("message, sent at any time", |probed| probed.message),
        of("message, sent at once", |probed| probed.at_once),
        of("barrier", |probed| probed.barrier),
        of("sum for all", |probed| probed.allreduce),
    ])
}

/// The time of a step of the stencil, in milliseconds. A run of one step is subtracted, so that the
/// start of the job does not count.
fn stencil_step(cluster: &Cluster, cells: u32, options: &Options) -> Result<Spread> {
    let cells = cells.to_string();
    let mut ms = Vec::new();
    for _ in 0..options.runs {
        let took = |steps: u32| -> Result<f64> {
            let began = Instant::now();
            let arguments = ["stencil", &cells, &steps.to_string()];
            ended(start(cluster, "kernels", &arguments, options)?)?;
            Ok(began.elapsed().as_secs_f64() * 1e3)
        };
        let one = took(1)?;
        ms.push((took(1 + options.stencil_steps)? - one) / f64::from(options.stencil_steps));
    }
    Ok(Spread::of(ms))
}

fn measure(
    cluster: &Cluster,
    sched: &'static str,
    granularity_us: u64,
    options: &Options,
) -> Result<Case> {
    let (mut one, mut both, mut slices) = (Vec::new(), Vec::new(), Vec::new());
    let mut answers = Vec::new();
    for _ in 0..options.runs {
        let before = partition(cluster)?;
        let began = Instant::now();
        answers.push(ended(supersteps(cluster, granularity_us, options)?)?);
        let took = began.elapsed();
        one.push(took.as_secs_f64());
        slices.extend(slices_per_s(cluster, &before, took)?);
        let began = Instant::now();
        let jobs = [0, 1].map(|_| supersteps(cluster, granularity_us, options));
        for job in jobs {
            answers.push(ended(job?)?);
        }
        both.push(began.elapsed().as_secs_f64());
    }
    ensure!(answers.windows(2).all(|two| two[0] == two[1]), "other answers: {answers:?}");
    let (one_s, both_s) = (Spread::of(one), Spread::of(both));
    let ratio = both_s.median / (2.0 * one_s.median);
    let slices_per_s = (!slices.is_empty()).then(|| Spread::of(slices));
    Ok(Case { sched, granularity_us, one_s, both_s, ratio, slices_per_s })
}

fn supersteps(cluster: &Cluster, granularity_us: u64, options: &Options) -> Result<Child> {
    let (steps, granularity) = (options.steps.to_string(), granularity_us.to_string());
    let exchange = ["bsp", "--exchange", "neighbours"];
    let arguments = ["--steps", &steps, "--granularity", &granularity];
    start(cluster, "kernels", &[&exchange[..], &arguments].concat(), options)
}

/// A job with a rank on each processing element.
fn start(cluster: &Cluster, name: &str, arguments: &[&str], options: &Options) -> Result<Child> {
    let (nodes, ranks) = (options.nodes.to_string(), (options.nodes * options.pes).to_string());
    let mut command = cluster.command();
    command.args(["run", "--input", "none", "-N", &nodes, "-n", &ranks]);
    command.arg(program(name)?).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot start storm")
}

/// The first line of its output: its answer.
fn ended(job: Child) -> Result<String> {
    let output = job.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a job ended with {}: {said}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().next().map(str::to_owned).context("a job said nothing")
}

/// Slices per second over the last `took`, if there are slices.
fn slices_per_s(cluster: &Cluster, before: &Partition, took: Duration) -> Result<Option<f64>> {
    let now = partition(cluster)?;
    let since = |now: u64| now.saturating_sub(before.checkpoint.unwrap_or(0)) as f64;
    Ok(now.checkpoint.map(|now| since(now) / took.as_secs_f64()))
}

fn partition(cluster: &Cluster) -> Result<Partition> {
    let output = cluster.command().args(["partition", "list", "--json"]).output()?;
    ensure!(output.status.success(), "storm partition list failed: {}", output.status);
    let partitions: Vec<Partition> = serde_json::from_slice(&output.stdout)?;
    partitions.into_iter().next().context("no partition")
}
