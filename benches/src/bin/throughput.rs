//! One-process jobs per second from submission to end, for each way to submit them. Compared with
//! spawning and reaping as many processes. All nodes are on one host.

use anyhow::{Result, ensure};
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::path::Path;
use storm_benches::floor;
use storm_benches::measuring::Measuring;
use storm_benches::peers::{Absent, Hydra, Slurm, available};
use storm_benches::spread::Spread;
use storm_benches::switches::Percentiles;
use storm_benches::throughput::{HydraJobs, JobSystem, Sample, SlurmJobs, StormJobs, Way};

/// Gang scheduling does not matter here: Slurm's default slice, seconds.
const SLICE_S: u32 = 30;

/// Jobs per second, from submission to the end of the last.
#[derive(Debug, Parser)]
struct Options {
    /// Jobs of each measurement; a measurement that follows each job takes a tenth of them
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    jobs: u32,
    /// Nodes
    #[arg(long, default_value_t = 64)]
    nodes: u32,
    /// Processing elements of each node
    #[arg(long, default_value_t = 4)]
    pes: u32,
    /// Ways to submit
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "one-by-one,four-clients,at-once,array,followed"
    )]
    ways: Vec<Way>,
    #[command(flatten)]
    measuring: Measuring,
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Report {
    jobs: u32,
    nodes: u32,
    pes: u32,
    /// Processes per second that the machine spawns and reaps in a loop.
    floor_per_s: Spread,
    cases: Vec<Case>,
    absent: Vec<Absent>,
    /// The errors of failed runs. The jobs of a failed run are in no figure.
    failures: Vec<String>,
}

/// One way of one system.
#[derive(Debug, Serialize)]
struct Case {
    system: String,
    way: Way,
    jobs_per_s: Spread,
    /// The latency of each command that submits or runs a job.
    latency: Option<Percentiles>,
    /// storm's jobs per second divided by this system's, for each turn.
    storm_over_this: Spread,
}

/// The results of a system, turn by turn; a way that it lacks stays empty.
struct Turns {
    name: String,
    /// One entry per way, each with one sample per run.
    samples: Vec<Vec<Option<Sample>>>,
    failures: Vec<String>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let report = measure(&options)?;
    if options.measuring.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&options, &report);
    }
    let failures = &report.failures;
    ensure!(failures.is_empty(), "{} measurements failed: {failures:?}", failures.len());
    Ok(())
}

fn print(options: &Options, report: &Report) {
    println!(
        "{} one-process jobs on {} nodes x {} PEs, jobs/s: median [least..greatest] of {} runs.",
        options.jobs, options.nodes, options.pes, options.measuring.runs
    );
    println!("Spawned and reaped in a loop: {} processes/s.", report.floor_per_s);
    println!("{}", table(report));
    for failure in &report.failures {
        println!("FAILED, and in no figure: {failure}");
    }
}

fn measure(options: &Options) -> Result<Report> {
    let (mut peers, absent) =
        if options.measuring.peers { peers(options) } else { Default::default() };
    let mut turns: Vec<Turns> = (0..=peers.len()).map(|_| Turns::of(&options.ways)).collect();
    let mut floor_per_s = Vec::new();
    for run in 1..=options.measuring.runs {
        eprintln!("run {run} ...");
        let spawning = floor::spawn_and_reap(Path::new("/bin/true"), options.jobs)?;
        floor_per_s.push(f64::from(options.jobs) / spawning.as_secs_f64());
        {
            let mut storm = StormJobs::up(options.nodes, options.pes, &[])?;
            turns[0].take(&mut storm, options);
        }
        for (peer, turns) in peers.iter_mut().zip(&mut turns[1..]) {
            turns.take(&mut **peer, options);
        }
    }
    let mut cases = Vec::new();
    for (index, &way) in options.ways.iter().enumerate() {
        for system in &turns {
            cases.extend(case(
                way,
                &system.name,
                &system.samples[index],
                &turns[0].samples[index],
            )?);
        }
    }
    let failures = turns.into_iter().flat_map(|system| system.failures).collect();
    let Options { jobs, nodes, pes, .. } = *options;
    let floor_per_s = Spread::of(floor_per_s);
    Ok(Report { jobs, nodes, pes, floor_per_s, cases, absent, failures })
}

fn case(
    way: Way,
    name: &str,
    runs: &[Option<Sample>],
    storm: &[Option<Sample>],
) -> Result<Option<Case>> {
    let samples: Vec<Sample> = runs.iter().flatten().cloned().collect();
    if samples.is_empty() {
        return Ok(None);
    }
    let both = runs.iter().zip(storm).filter_map(|(this, storm)| this.as_ref().zip(storm.as_ref()));
    let over = both.map(|(this, storm)| storm.jobs_per_s() / this.jobs_per_s());
    Ok(Some(Case {
        system: name.to_owned(),
        way,
        jobs_per_s: Spread::of(samples.iter().map(Sample::jobs_per_s)),
        latency: Sample::latency(&samples)?,
        storm_over_this: Spread::of(over),
    }))
}

fn peers(options: &Options) -> (Vec<Box<dyn JobSystem>>, Vec<Absent>) {
    let mut systems: Vec<Box<dyn JobSystem>> = Vec::new();
    let mut absent = Vec::new();
    match available("Slurm", Slurm::up(options.nodes, options.pes, SLICE_S)) {
        Ok(slurm) => systems.push(Box::new(SlurmJobs::new(slurm))),
        Err(why) => absent.push(why),
    }
    match available("Hydra", Hydra::find()) {
        Ok(hydra) => systems.push(Box::new(HydraJobs(hydra))),
        Err(why) => absent.push(why),
    }
    (systems, absent)
}

impl Turns {
    fn of(ways: &[Way]) -> Turns {
        let samples = vec![Vec::new(); ways.len()];
        Turns { name: String::new(), samples, failures: Vec::new() }
    }

    fn take(&mut self, system: &mut dyn JobSystem, options: &Options) {
        self.name = system.name();
        let mut failed = false;
        for (&way, samples) in options.ways.iter().zip(&mut self.samples) {
            // Jobs left over from a failed way would count for the next way.
            let measured = if failed { Ok(None) } else { way.measure(system, options.jobs) };
            if let Err(error) = &measured {
                failed = true;
                self.failures.push(format!("{}, {}: {error}", self.name, way.name()));
            }
            samples.push(measured.ok().flatten());
        }
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "jobs",
        "with",
        "jobs/s",
        "command p50/p99/max ms",
        "storm's / these",
    ]);
    for case in &report.cases {
        let latency = case.latency.map_or("-".to_owned(), |latency| {
            let [p50, p99, max] = [latency.p50_us, latency.p99_us, latency.max_us];
            format!("{:.1}/{:.1}/{:.1}", p50 / 1e3, p99 / 1e3, max / 1e3)
        });
        table.add_row([
            case.way.name().to_owned(),
            case.system.clone(),
            case.jobs_per_s.to_string(),
            latency,
            case.storm_over_this.to_string(),
        ]);
    }
    for peer in &report.absent {
        table.add_row(["all", peer.name, "NOT MEASURED", &peer.not_measured]);
    }
    table
}
