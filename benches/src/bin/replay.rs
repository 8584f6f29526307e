//! The speed of replays in events per second, for each policy on the KTH log and on a generated
//! log. Also how the speed depends on the length of the queue, and the memory of a waiting job. An
//! event is a submission or the end of a job.

use anyhow::{Result, bail};
use clap::Parser;
use comfy_table::Table;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use storm_benches::replay::{MACHINE_PES, Outcome, Replayed, Workload, measure};
use storm_benches::spread::Spread;
use storm_sched::registry;

/// The path of the KTH log below the directory `STORM_SHARED`.
const KTH: &str = "swf/KTH-SP2-filtered.swf.gz";
/// The load of the generated log.
const LOAD: f64 = 0.7;
/// A load under which hardly a job waits.
const NO_QUEUE_LOAD: f64 = 0.1;
/// A load under which all jobs wait: they are submitted within a thousandth of the time that the
/// machine needs for them.
const QUEUE_LOAD: f64 = 1_000.0;

/// Job events per second of replays.
#[derive(Debug, Parser)]
struct Options {
    /// Policies [default: all]
    #[arg(long, value_delimiter = ',')]
    policies: Vec<String>,
    /// Directory with the KTH log [env: STORM_SHARED]
    #[arg(long)]
    shared: Option<PathBuf>,
    /// Jobs of the generated log; 0 for none
    #[arg(long, default_value_t = 1_000_000)]
    jobs: u32,
    /// Lengths of the queue
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    queue: Vec<u32>,
    /// Seconds after which a replay is ended
    #[arg(long, default_value_t = 60)]
    limit_s: u64,
    /// Times to measure each case
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Replay under this policy, and print the cost
    #[arg(long, hide = true)]
    one: Option<String>,
    #[command(flatten)]
    workload: Workload,
}

/// One policy on one workload.
#[derive(Debug, Serialize)]
struct Case {
    policy: String,
    workload: String,
    jobs: u64,
    /// Events in a second.
    events_per_s: Spread,
    /// Events per second of processor time, from the runs that were long enough.
    events_per_cpu_s: Spread,
    /// Memory in addition to the jobs, in KiB.
    memory_kib: Spread,
    /// Runs that were ended because they took longer than the limit.
    ended: usize,
}

/// A job that waits.
#[derive(Debug, Serialize)]
struct Queued {
    policy: String,
    queue: u32,
    /// Memory of the replay with the queue minus the memory without it, per job.
    bytes_per_job: f64,
}

/// The growth of an event's cost with the queue. It is 1 if the cost does not depend on the length.
#[derive(Debug, Serialize)]
struct Growth {
    policy: String,
    from: u32,
    to: u32,
    /// Processor time of an event with the longer queue, divided by that with the shorter queue.
    factor: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    cases: Vec<Case>,
    growth: Vec<Growth>,
    queued: Vec<Queued>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(sched) = &options.one {
        let replayed = Replayed::here(&options.workload, sched)?;
        println!("{}", serde_json::to_string(&replayed)?);
        return Ok(());
    }
    let policies = match options.policies.is_empty() {
        true => registry::names().map(str::to_owned).collect(),
        false => options.policies.clone(),
    };
    let mut report = Report { cases: Vec::new(), growth: Vec::new(), queued: Vec::new() };
    for policy in &policies {
        measure_policy(&options, policy, &mut report)?;
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("Median [least..greatest] of {} runs; {MACHINE_PES} PEs.", options.runs);
        println!("{}", cases(&report.cases));
        println!("{}\n{}", growth(&report.growth), queued(&report.queued));
    }
    Ok(())
}

fn measure_policy(options: &Options, policy: &str, report: &mut Report) -> Result<()> {
    match kth(options)? {
        Some(log) => {
            let workload = Workload::of_log(log);
            report.cases.push(case(options, policy, "KTH", &workload)?);
        }
        None => eprintln!("no KTH log: set STORM_SHARED"),
    }
    if options.jobs > 0 {
        let workload = Workload::of_jobs(options.jobs, LOAD);
        let name = format!("Lublin, load {LOAD}");
        report.cases.push(case(options, policy, &name, &workload)?);
    }
    let mut shorter: Option<(u32, f64)> = None;
    for &queue in &options.queue {
        let name = format!("a queue of {queue}");
        let long = case(options, policy, &name, &Workload::of_jobs(queue, QUEUE_LOAD))?;
        let name = format!("{queue}, no queue");
        let none = case(options, policy, &name, &Workload::of_jobs(queue, NO_QUEUE_LOAD))?;
        if long.ended == 0 && none.ended == 0 {
            let more_kib = long.memory_kib.median - none.memory_kib.median;
            let bytes_per_job = more_kib * 1024.0 / f64::from(queue);
            report.queued.push(Queued { policy: policy.to_owned(), queue, bytes_per_job });
        }
        let speed = long.events_per_cpu_s.median;
        if let Some((from, before)) = shorter
            && speed > 0.0
        {
            let (policy, factor) = (policy.to_owned(), before / speed);
            report.growth.push(Growth { policy, from, to: queue, factor });
        }
        shorter = (speed > 0.0).then_some((queue, speed));
        report.cases.extend([long, none]);
    }
    Ok(())
}

fn kth(options: &Options) -> Result<Option<PathBuf>> {
    let shared = options.shared.clone().or_else(|| Some(std::env::var_os("STORM_SHARED")?.into()));
    let Some(log) = shared.map(|shared| shared.join(Path::new(KTH))) else { return Ok(None) };
    match log.is_file() {
        true => Ok(Some(log)),
        false => bail!("{} is not there: correct --shared or STORM_SHARED", log.display()),
    }
}

fn case(options: &Options, policy: &str, name: &str, workload: &Workload) -> Result<Case> {
    eprintln!("{policy}: {name} ...");
    let mut arguments = vec!["--one".to_owned(), policy.to_owned()];
    arguments.extend(workload.options());
    let (mut speeds, mut of_cpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let (mut jobs, mut ended) = (0, 0);
    for _ in 0..options.runs {
        match measure(&arguments, Duration::from_secs(options.limit_s))? {
            Outcome::Measured(replayed) => {
                jobs = replayed.jobs;
                speeds.push(replayed.events_per_s());
                of_cpu.extend(replayed.events_per_cpu_s());
                memory.push(replayed.memory_kib as f64);
            }
            Outcome::LongerThanS(_) => {
                ended += 1;
                // The remaining runs would take as long.
                break;
            }
        }
    }
    Ok(Case {
        policy: policy.to_owned(),
        workload: name.to_owned(),
        jobs,
        events_per_s: Spread::of(speeds),
        events_per_cpu_s: Spread::of(of_cpu),
        memory_kib: Spread::of(memory),
        ended,
    })
}

fn cases(cases: &[Case]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "policy",
        "workload",
        "jobs",
        "job events/s",
        "by CPU second",
        "memory KiB",
    ]);
    for case in cases {
        let speed = |speed: &Spread| match case.ended {
            0 if speed.runs == 0 => "too short".to_owned(),
            0 => speed.to_string(),
            _ => "took too long".to_owned(),
        };
        table.add_row([
            case.policy.clone(),
            case.workload.clone(),
            case.jobs.to_string(),
            speed(&case.events_per_s),
            speed(&case.events_per_cpu_s),
            case.memory_kib.to_string(),
        ]);
    }
    table
}

fn growth(growth: &[Growth]) -> Table {
    let mut table = Table::new();
    let header = ["policy", "queue of", "instead of", "CPU time of an event grows by"];
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header(header);
    for one in growth {
        let factor = format!("{:.2}", one.factor);
        table.add_row([one.policy.clone(), one.to.to_string(), one.from.to_string(), factor]);
    }
    table
}

fn queued(queued: &[Queued]) -> Table {
    let mut table = Table::new();
    let header = ["policy", "queue", "bytes of a job that waits"];
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header(header);
    for one in queued {
        let bytes = format!("{:.0}", one.bytes_per_job);
        table.add_row([one.policy.clone(), one.queue.to_string(), bytes]);
    }
    table
}
