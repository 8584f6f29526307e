//! Kills, stops and restarts the daemons of a cluster at random while jobs are submitted and run.
//! Checks the promises to users. No acknowledged job is lost. No job without `--requeue` runs
//! twice, and no job runs twice at a time. A COMPLETED job has done all its work. Nothing is left
//! behind.

use anyhow::{Result, bail};
use clap::Parser;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::Serialize;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use storm_benches::chaos::cluster::Cluster;
use storm_benches::chaos::faults::{Fault, Faults};
use storm_benches::chaos::workload::Workload;

/// Longest pause between two events.
const MOST_PAUSE_MS: u64 = 300;
/// One in this number of events is a fault; the others are submissions.
const EVENTS_PER_FAULT: u32 = 2;
/// How long jobs may take once the faults have ended. The fences of a job that may run again take
/// some 20 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a cluster may take to end.
const DOWN_PATIENCE: Duration = Duration::from_secs(30);

/// Checks the promises of a cluster whose daemons are killed and stopped at random.
#[derive(Debug, Parser)]
struct Options {
    /// First seed; each seed is a cluster of its own
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Seconds of faults for each seed
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Nodes of the cluster
    #[arg(long, default_value_t = 6)]
    nodes: u32,
    /// Processing elements of each
    #[arg(long, default_value_t = 2)]
    pes: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The outcome of one seed.
#[derive(Debug, Serialize)]
struct Outcome {
    seed: u64,
    /// Acknowledged.
    jobs: usize,
    /// Submissions that were not acknowledged.
    unanswered: u32,
    faults: BTreeMap<Fault, u32>,
    violations: Vec<String>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut outcomes = Vec::new();
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        eprintln!("seed {seed} ...");
        let outcome = run(&options, seed)?;
        for violation in &outcome.violations {
            eprintln!("  {violation}");
        }
        outcomes.push(outcome);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        for Outcome { seed, jobs, unanswered, faults, violations } in &outcomes {
            let faults: u32 = faults.values().sum();
            println!(
                "seed {seed}: {jobs} jobs, {unanswered} submissions unanswered, {faults} faults, \
                 {} violations",
                violations.len()
            );
        }
    }
    let broken = outcomes.iter().find(|outcome| !outcome.violations.is_empty());
    if let Some(Outcome { seed, .. }) = broken {
        let Options { seconds, nodes, pes, .. } = options;
        bail!(
            "to do the same once more: chaos --seed {seed} --seconds {seconds} --nodes {nodes} --pes {pes}"
        );
    }
    Ok(())
}

fn run(options: &Options, seed: u64) -> Result<Outcome> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut cluster = Cluster::start(options.nodes, options.pes)?;
    let (mut workload, mut faults) = (Workload::new(&cluster)?, Faults::default());
    let end = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        if random.random_range(0..EVENTS_PER_FAULT) == 0 {
            faults.strike(&mut cluster, &mut random);
        } else {
            workload.submit(&cluster, options.nodes * options.pes, &mut random)?;
        }
        thread::park_timeout(Duration::from_millis(random.random_range(0..MOST_PAUSE_MS)));
        faults.undo(&mut cluster, false)?;
    }
    faults.undo(&mut cluster, true)?;
    let mut violations = workload.judge(&cluster, PATIENCE)?;
    // A node may have left the cluster meanwhile.
    cluster.revive()?;
    let left = cluster.down(DOWN_PATIENCE)?;
    violations.extend(left.into_iter().map(|what| format!("left behind: {what}")));
    let (jobs, unanswered) = workload.counts();
    Ok(Outcome { seed, jobs, unanswered, faults: faults.done().clone(), violations })
}
