//! Buffered coscheduling with real daemons and processes on this host, beside gang scheduling: how long
//! a slice takes, and two jobs on the same processing elements at once beside one after the other.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use std::process::{Child, Stdio};
use std::time::Instant;
use storm_benches::cluster::{Cluster, program};
use storm_benches::spread::Spread;

/// Two jobs at once under buffered coscheduling and under gang scheduling, on a local cluster.
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
    /// Two at once, until both have ended.
    both_s: Spread,
    /// That, of the time of one after the other.
    ratio: f64,
    /// From the beginning of a slice to the next, in milliseconds, while one job runs.
    slice_ms: Option<Spread>,
}

#[derive(Deserialize)]
struct Partition {
    #[serde(default)]
    checkpoint: Option<u64>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut cases = Vec::new();
    for sched in ["gang", "bcs"] {
        let up = ["--sched", sched, "--quantum", &options.quantum];
        let mut cluster = Cluster::up(options.nodes, options.pes, &up)?;
        for &granularity_us in &options.granularity_us {
            cases.push(measure(&cluster, sched, granularity_us, &options)?);
        }
        cluster.down()?;
    }
    if options.json {
        println!("{}", serde_json::to_string(&cases)?);
        return Ok(());
    }
    println!(
        "| sched | computes us | one s | both at once s | of one after the other | slice ms |"
    );
    println!("|---|---|---|---|---|---|");
    for case in &cases {
        let slice = case.slice_ms.map_or_else(|| "-".to_owned(), |slice| slice.to_string());
        println!(
            "| {} | {} | {} | {} | {:.3} | {slice} |",
            case.sched, case.granularity_us, case.one_s, case.both_s, case.ratio
        );
    }
    Ok(())
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
        let before = checkpoint(cluster)?;
        let began = Instant::now();
        answers.push(ended(start(cluster, granularity_us, options)?)?);
        let took_s = began.elapsed().as_secs_f64();
        one.push(took_s);
        if let (Some(before), Some(after)) = (before, checkpoint(cluster)?) {
            slices.push(took_s * 1000.0 / after.saturating_sub(before).max(1) as f64);
        }
        let began = Instant::now();
        let jobs = [0, 1].map(|_| start(cluster, granularity_us, options));
        for job in jobs {
            answers.push(ended(job?)?);
        }
        both.push(began.elapsed().as_secs_f64());
    }
    ensure!(answers.windows(2).all(|two| two[0] == two[1]), "other answers: {answers:?}");
    let (one_s, both_s) = (Spread::of(one), Spread::of(both));
    let ratio = both_s.median / (2.0 * one_s.median);
    let slice_ms = (!slices.is_empty()).then(|| Spread::of(slices));
    Ok(Case { sched, granularity_us, one_s, both_s, ratio, slice_ms })
}

fn start(cluster: &Cluster, granularity_us: u64, options: &Options) -> Result<Child> {
    let (nodes, ranks) = (options.nodes.to_string(), (options.nodes * options.pes).to_string());
    let mut command = cluster.command();
    command.args(["run", "--input", "none", "-N", &nodes, "-n", &ranks]);
    command.arg(program("kernels")?).args(["bsp", "--exchange", "neighbours", "--steps"]);
    command.arg(options.steps.to_string()).arg("--granularity").arg(granularity_us.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot start storm")
}

/// The line with its check sum.
fn ended(job: Child) -> Result<String> {
    let output = job.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a job ended with {}: {said}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().next().map(str::to_owned).context("a job said nothing")
}

/// The last slice that ended, where there are slices.
fn checkpoint(cluster: &Cluster) -> Result<Option<u64>> {
    let output = cluster.command().args(["partition", "list", "--json"]).output()?;
    ensure!(output.status.success(), "storm partition list failed: {}", output.status);
    let partitions: Vec<Partition> = serde_json::from_slice(&output.stdout)?;
    Ok(partitions.first().and_then(|partition| partition.checkpoint))
}
