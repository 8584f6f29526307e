//! Resident memory of the daemons: every Node Manager before the first job and after some, and the
//! Machine Manager with thousands of queued jobs.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::thread;
use std::time::Duration;
use storm_benches::cluster::Cluster;
use storm_benches::daemons::{Daemon, Resident, Role, of_cluster};
use storm_benches::measuring::Measuring;
use storm_benches::payload::Payloads;
use storm_benches::peers::{Absent, Slurm, available};
use storm_benches::spread::Spread;
use storm_benches::throughput::StormJobs;

/// Slurm's default slice in seconds. Nothing runs, so the value does not matter.
const SLICE_S: u32 = 30;

/// The pause between two checks of idle daemons, which free memory that only their start needed.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// The number of checks after which the memory counts as settled.
const LOOKS_MAX: u32 = 10;

/// Launches of a program on all elements. The first launch sends the program to the nodes.
const LAUNCHES: u32 = 3;
const PROGRAM_BYTES: usize = 12_000_000;

/// Resident memory of the daemons.
#[derive(Debug, Parser)]
struct Options {
    /// Nodes
    #[arg(long, default_value_t = 64)]
    nodes: u32,
    /// Processing elements of each node
    #[arg(long, default_value_t = 4)]
    pes: u32,
    /// Jobs that wait
    #[arg(long, default_value_t = 10_000)]
    jobs: u32,
    /// Seconds between the jobs and the look at the Node Managers: twice the interval at which they
    /// look for memory to free
    #[arg(long, default_value_t = 20)]
    rest: u64,
    #[command(flatten)]
    measuring: Measuring,
}

/// Memory in MiB.
#[derive(Debug, Serialize)]
struct Report {
    nodes: u32,
    jobs: u32,
    /// All Node Managers of all runs, before the first job.
    node_manager_idle: Memory,
    /// The Node Manager's memory some time after jobs on all elements. The first job brought a
    /// program.
    node_manager_after_jobs: Memory,
    /// The Machine Manager before the first job.
    machine_manager_idle: Memory,
    /// The Machine Manager while the jobs wait.
    machine_manager_queued: Memory,
    /// Slurm's, with `--peers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    slurm: Option<SlurmMemory>,
    /// Peers that should have been measured and are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absent: Vec<Absent>,
}

/// The memory of an idle Slurm.
#[derive(Debug, Serialize)]
struct SlurmMemory {
    version: String,
    slurmd: Memory,
    slurmctld: Memory,
}

#[derive(Debug, Serialize)]
struct Memory {
    /// All resident memory, including the program text that all share.
    rss_mib: Spread,
    /// Private memory without a file behind it.
    anonymous_mib: Spread,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let Options { nodes, jobs, .. } = options;
    let (mut idle, mut after, mut queued) = (Vec::new(), Vec::new(), Vec::new());
    let dir = tempfile::tempdir()?;
    let mut payloads = Payloads::new(dir.path())?;
    for run in 1..=options.measuring.runs {
        eprintln!("run {run} ...");
        let storm = StormJobs::up(nodes, options.pes, &["--sched", "fcfs"])?;
        idle.extend(settled(storm.cluster())?);
        let program = payloads.make(PROGRAM_BYTES)?;
        for _ in 0..LAUNCHES {
            storm.cluster().run(nodes * options.pes, &[], &[&program])?;
        }
        thread::park_timeout(Duration::from_secs(options.rest));
        after.extend(settled(storm.cluster())?);
        storm.queue_behind_a_job(nodes * options.pes, jobs)?;
        queued.extend(daemons(storm.cluster())?);
    }
    let (mut slurm, mut absent) = (None, Vec::new());
    if options.measuring.peers {
        // Hydra has no daemons: it starts its proxies with each job.
        match available("Slurm", Slurm::up(nodes, options.pes, SLICE_S)) {
            Ok(cluster) => slurm = Some(slurm_memory(&cluster)?),
            Err(why) => absent.push(why),
        }
    }
    let report = Report {
        slurm,
        absent,
        nodes,
        jobs,
        node_manager_idle: Memory::of(&idle, Role::NodeManager),
        node_manager_after_jobs: Memory::of(&after, Role::NodeManager),
        machine_manager_idle: Memory::of(&idle, Role::MachineManager),
        machine_manager_queued: Memory::of(&queued, Role::MachineManager),
    };
    if options.measuring.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!(
            "MiB: median [least..greatest] of {} runs.\n{}",
            options.measuring.runs,
            table(&report)
        );
    }
    Ok(())
}

fn slurm_memory(slurm: &Slurm) -> Result<SlurmMemory> {
    slurm.wait_idle()?;
    let of = |name: &str| -> Result<Memory> {
        let daemons = slurm.daemons(name)?;
        ensure!(!daemons.is_empty(), "no {name} runs");
        Ok(Memory::spread(&daemons))
    };
    Ok(SlurmMemory {
        version: slurm.version().to_owned(),
        slurmd: of("slurmd")?,
        slurmctld: of("slurmctld")?,
    })
}

/// The daemons once their memory no longer changes.
fn settled(cluster: &Cluster) -> Result<Vec<Daemon>> {
    let total = |daemons: &[Daemon]| daemons.iter().map(|one| one.resident.rss_kib).sum::<u64>();
    let mut before = daemons(cluster)?;
    for _ in 0..LOOKS_MAX {
        thread::park_timeout(LOOK_PAUSE);
        let now = daemons(cluster)?;
        if total(&now).abs_diff(total(&before)) * 100 < total(&before) {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

fn daemons(cluster: &Cluster) -> Result<Vec<Daemon>> {
    let daemons = of_cluster(cluster.runtime_dir())?;
    ensure!(
        daemons.iter().any(|daemon| daemon.role == Role::MachineManager),
        "the Machine Manager is not among {} processes",
        daemons.len()
    );
    daemons.iter().find(|daemon| daemon.role == Role::NodeManager).context("no Node Manager")?;
    Ok(daemons)
}

impl Memory {
    fn of(daemons: &[Daemon], role: Role) -> Memory {
        let ours = daemons.iter().filter(|daemon| daemon.role == role);
        Memory::spread(&ours.map(|daemon| daemon.resident).collect::<Vec<_>>())
    }

    fn spread(daemons: &[Resident]) -> Memory {
        let of = |kib: fn(&Resident) -> u64| {
            Spread::of(daemons.iter().map(|daemon| kib(daemon) as f64 / 1024.0))
        };
        Memory { rss_mib: of(|daemon| daemon.rss_kib), anonymous_mib: of(|daemon| daemon.anon_kib) }
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["daemon", "resident", "of it anonymous"]);
    let queued = format!("Machine Manager, {} jobs queued", report.jobs);
    for (name, memory) in [
        ("Node Manager, idle", &report.node_manager_idle),
        ("Node Manager, idle after jobs", &report.node_manager_after_jobs),
        ("Machine Manager, idle", &report.machine_manager_idle),
        (queued.as_str(), &report.machine_manager_queued),
    ] {
        table.add_row([
            name.to_owned(),
            memory.rss_mib.to_string(),
            memory.anonymous_mib.to_string(),
        ]);
    }
    table
}
