//! `replay`: replays the log of a parallel machine in virtual time, and measures how well its jobs
//! are served.
//!
//! `storm_replay` does the replay. This module reads and writes files, and shows the result.

mod live;
mod live_report;
mod log;
mod plot;
mod starts;

use super::progress::Patient;
use super::{note, print};
use crate::cli::{EventOrderArgument, ReplayOptions};
use crate::config::{Idle, policies, refuse_both, with_params};
use crate::failure::{EXIT_USAGE, Failure};
use crate::output::{Output, Sheet};
use log::Log;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};
use storm_replay::{Estimates, ReplayError, Report, Schedule, Trace, TrimPercent};
use storm_sched::metrics::UserService;
use storm_sched::swf::{DamagedLine, Drops};
use storm_sched::{
    DEFAULT_QUANTUM, MAX_QUANTUM_US, Machine, MachineError, MplLimit, ParamError, Policy,
    PolicyParams, Quantum,
};

/// The failure's word for programs.
const CODE: &str = "replay";
/// Most users that a report shows.
const SHOWN_USERS: usize = 50;

/// The output for programs.
#[derive(Debug, Serialize)]
struct Document<'a> {
    sched: &'a str,
    clairvoyant: bool,
    event_order: &'static str,
    /// Length of a slice in seconds, if the policy has slices.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantum_s: Option<f64>,
    /// Number of jobs of the log that cannot be replayed.
    dropped: u64,
    dropped_by_reason: Drops,
    /// Number of lines of the log that could not be read.
    damaged_lines: u64,
    /// The first of those lines.
    damaged: Vec<Damaged>,
    /// Seconds of real time, without reading the log.
    real_s: f64,
    job_events_per_real_s: f64,
    #[serde(flatten)]
    report: &'a Report,
}

/// A line that could not be read.
#[derive(Debug, Serialize)]
struct Damaged {
    line: u64,
    why: String,
}

/// `replay`.
pub(super) fn run(
    options: &ReplayOptions,
    output: &dyn Output,
    quiet: bool,
    silent: bool,
) -> Result<u8, Failure> {
    let (log, trim, trace) = prepare(options, quiet, silent)?;
    let begun = Instant::now();
    let schedule = replay(options, &trace, silent)?;
    let real = begun.elapsed();
    let report = Report::new(&trace, &schedule, trim);
    if options.csv_to_stdout() {
        return print(&String::from_utf8_lossy(&starts::csv(&trace, &schedule)?)).map(|()| 0);
    }
    if let Some(path) = &options.csv {
        write(path, &starts::csv(&trace, &schedule)?)?;
    }
    if let Some(path) = &options.plot {
        let title = format!("{} under {}", options.log.display(), options.sched);
        write(path, plot::svg(&title, &trace, &schedule)?.as_bytes())?;
    }
    print(&output.sheet(&sheet(options, &log, &report, real)))?;
    Ok(0)
}

/// `replay --live`.
pub(super) async fn live(
    options: &ReplayOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    let (log, _, trace) = prepare(options, silent, silent)?;
    let planned = replay(&in_log_time(options), &trace, silent)?.outcomes(&trace);
    let happened = live::replay(options, &trace, &planned, silent).await?;
    print(&output.sheet(&live_report::sheet(options, &log, &trace, &happened, &planned)))?;
    Ok(0)
}

/// The options for the plan of a live replay: in time of the log, a slice of the cluster is longer.
fn in_log_time(options: &ReplayOptions) -> ReplayOptions {
    let quantum = self::quantum(options).unwrap_or(DEFAULT_QUANTUM);
    let longest = Duration::from_micros(MAX_QUANTUM_US);
    let quantum = Duration::try_from_secs_f64(quantum.as_secs_f64() * options.speedup);
    let quantum = quantum.map_or(longest, |quantum| quantum.min(longest));
    let mut params = options.params.clone();
    params.retain(|param| param.name() != "quantum-us");
    ReplayOptions { quantum: Some(quantum), params, ..options.clone() }
}

/// Length of a slice, if the policy has slices.
fn quantum(options: &ReplayOptions) -> Option<Duration> {
    policy(options, 1).ok()?.quantum()
}

/// Refuses output files that are the log or each other.
fn refuse_overwriting(options: &ReplayOptions) -> Result<(), Failure> {
    // A file that does not exist yet is compared by name only.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut taken = vec![real(&options.log)];
    for path in [&options.csv, &options.plot].into_iter().flatten() {
        let path = real(path);
        if taken.contains(&path) {
            let what = format!("{} would be written over", path.display());
            return Err(Failure::new("usage", what)
                .hint("give the log, --csv and --plot a file each")
                .exit(EXIT_USAGE));
        }
        taken.push(path);
    }
    Ok(())
}

/// Reads the log, and notes problems in it.
fn prepare(
    options: &ReplayOptions,
    quiet: bool,
    silent: bool,
) -> Result<(Log, TrimPercent, Trace), Failure> {
    let trim = options.trim().ok_or_else(|| {
        Failure::new("usage", format!("{} percent cannot be left out at either end", options.trim))
            .hint(format!("use 0 to {}", storm_replay::MAX_TRIM_PERCENT))
            .exit(EXIT_USAGE)
    })?;
    plot::check(options.plot.as_deref())?;
    refuse_overwriting(options)?;
    // Checked first, as reading a long log takes a while.
    policy(options, 1)?;
    if !silent {
        tell_idle(options);
    }
    let log = log::read(options, silent)?;
    if !quiet {
        tell(&log, &options.log);
    }
    let trace = trace(options, &log)?;
    Ok((log, trim, trace))
}

fn trace(options: &ReplayOptions, log: &Log) -> Result<Trace, Failure> {
    let estimates = if options.clairvoyant { Estimates::Perfect } else { Estimates::OfUsers };
    let trace = Trace::new(log.pes, &log.jobs, estimates);
    let trace = trace.map_err(|error| Failure::of(CODE, &error))?;
    match options.load {
        None => Ok(trace),
        Some(load) => trace.scaled_to(load).map_err(|error| {
            Failure::of("usage", &error).hint("for example --load 0.7").exit(EXIT_USAGE)
        }),
    }
}

fn policy(options: &ReplayOptions, pes: u32) -> Result<Box<dyn Policy>, Failure> {
    let refused = |error: ParamError| Failure::of("usage", &error).exit(EXIT_USAGE);
    let mut params = PolicyParams::default();
    if let Some(rows) = options.mpl_limit {
        params.mpl_limit = MplLimit::try_from(rows).map_err(refused)?;
    }
    if let Some(quantum) = options.quantum {
        params.quantum_us = Quantum::try_from(quantum).map_err(refused)?;
    }
    params.repack = options.repack;
    refuse_twice(options)?;
    let params = with_params(params, &options.params)
        .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    // A log knows no nodes, so all processors are on one.
    let machine = Machine::uniform(1, pes)
        .map_err(|error: MachineError| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    policies()
        .make(&options.sched, machine, &params)
        .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))
}

/// Refuses an option together with a parameter for the same setting.
fn refuse_twice(options: &ReplayOptions) -> Result<(), Failure> {
    let same = [
        ("--mpl-limit", "mpl-limit", options.mpl_limit.is_some()),
        ("--quantum", "quantum-us", options.quantum.is_some()),
        ("--repack", "repack", options.repack),
    ];
    for (option, name, _) in same.iter().filter(|(.., given)| *given) {
        refuse_both(option, name, &options.params)
            .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    }
    Ok(())
}

fn replay(options: &ReplayOptions, trace: &Trace, silent: bool) -> Result<Schedule, Failure> {
    let mut policy = policy(options, trace.pes())?;
    let mut progress = Patient::new(silent, "replaying {bar:30} {pos}/{len} jobs ({eta})");
    let jobs = trace.jobs().len() as u64;
    let order = options.event_order.order();
    let keep_columns = options.plot.is_some() && plot::draws_jobs(trace);
    let keep_busy = options.plot.is_some();
    let how = storm_replay::ReplayOptions { order, keep_columns, keep_busy };
    let mut watch = |ended: u64| progress.show(ended, jobs);
    storm_replay::replay(trace, policy.as_mut(), how, &mut watch)
        .map_err(|error| Failure::of(CODE, &error).hint(hint_of(&error)))
}

/// The hint if a policy cannot replay the log.
fn hint_of(error: &ReplayError) -> &'static str {
    match error {
        ReplayError::NotModelled { .. } => {
            "local, ics, pb and fcs cannot be replayed: choose another --sched, as fcfs or gang"
        }
        _ => "another --sched may do; --pes gives a larger machine",
    }
}

/// Notes options that the policy does not use.
fn tell_idle(options: &ReplayOptions) {
    let Some(idle) = Idle::under(&options.sched) else { return };
    let mut given = vec![
        ("--mpl-limit".to_owned(), idle.mpl_limit && options.mpl_limit.is_some()),
        ("--quantum".to_owned(), idle.quantum && options.quantum.is_some()),
        ("--repack".to_owned(), idle.means_nothing("repack") && options.repack),
    ];
    given.extend(
        options
            .params
            .iter()
            .map(|param| (format!("--param {}", param.name()), idle.means_nothing(param.name()))),
    );
    for (option, _) in given.iter().filter(|(_, in_vain)| *in_vain) {
        note(&format!("storm: {option} has no effect under {}\n", options.sched));
    }
}

/// Notes problems of the log.
fn tell(log: &Log, path: &Path) {
    let name = path.display();
    for DamagedLine { line, why } in &log.contents.damaged {
        note(&format!("storm: {name}: line {line}: {why}\n"));
    }
    let unnamed = log.contents.damaged_count - log.contents.damaged.len() as u64;
    if unnamed > 0 {
        note(&format!("storm: {name}: {unnamed} more lines cannot be read\n"));
    }
    if log.from_max_nodes {
        let pes = log.pes;
        note(&format!("storm: {name} has no MaxProcs: its MaxNodes, {pes}, are taken for them\n"));
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, content).map_err(|error| {
        let mut failure = Failure::new("file", format!("{} cannot be written", path.display()));
        failure.causes.push(error.to_string());
        failure.hint("name a file in a directory that exists and is yours")
    })
}

fn sheet(options: &ReplayOptions, log: &Log, report: &Report, real: Duration) -> Sheet {
    let real_s = real.as_secs_f64();
    let job_events_per_real_s = report.job_events as f64 / real_s.max(f64::MIN_POSITIVE);
    let damaged =
        |DamagedLine { line, why }: &DamagedLine| Damaged { line: *line, why: why.to_string() };
    let document = Document {
        sched: &options.sched,
        clairvoyant: options.clairvoyant,
        event_order: match options.event_order {
            EventOrderArgument::PerEvent => "per-event",
            EventOrderArgument::Batched => "batched",
        },
        quantum_s: quantum(options).map(|quantum| quantum.as_secs_f64()),
        dropped: log.drops.total(),
        dropped_by_reason: log.drops,
        damaged_lines: log.contents.damaged_count,
        damaged: log.contents.damaged.iter().map(damaged).collect(),
        real_s,
        job_events_per_real_s,
        report,
    };
    let mut pairs = pairs(&document);
    pairs.push(("real time", format!("{real_s:.2} s, {job_events_per_real_s:.0} job events/s")));
    let sheet = Sheet::new(&document).pairs(pairs);
    if !options.users {
        return sheet;
    }
    let columns = [">USER", ">JOBS", ">PE HOURS", ">WAIT S", ">RESPONSE S", ">BOUNDED SLOWDOWN"];
    let sheet = sheet.table(columns, report.users.iter().take(SHOWN_USERS).map(user));
    match report.users.len().saturating_sub(SHOWN_USERS) {
        0 => sheet,
        more => sheet.note(format!("and {more} more users; --json has all of them")),
    }
}

fn pairs(document: &Document<'_>) -> Vec<(&'static str, String)> {
    let Document { report, dropped, dropped_by_reason: drops, damaged_lines, .. } = document;
    let summary = &report.summary;
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let mut pairs = vec![
        ("policy", document.sched.to_owned()),
        ("quantum", document.quantum_s.map(|quantum| format!("{quantum} s")).unwrap_or_default()),
        ("machine", format!("{} processors, at most {} busy", report.pes, report.peak_procs)),
        ("jobs", summary.jobs.to_string()),
        ("left out", if *dropped == 0 { String::new() } else { reasons(drops) }),
        (
            "damaged",
            if *damaged_lines == 0 { String::new() } else { format!("{damaged_lines} lines") },
        ),
        ("offered load", report.offered_load.map(|load| format!("{load:.3}")).unwrap_or_default()),
        ("bounded slowdown", format!("{:.4}", summary.avg_bounded_slowdown)),
        ("slowdown", format!("{:.4}", summary.avg_slowdown)),
        ("wait", format!("{:.2} s", summary.avg_wait_s)),
        ("response", format!("{:.2} s", summary.avg_response_s)),
        ("utilisation", percent(summary.utilisation)),
        ("loss of capacity", percent(report.loss_of_capacity)),
        ("makespan", format!("{} s", summary.makespan_s)),
    ];
    if let Some(steady) = &report.steady_state {
        let mean = |interval: storm_replay::Interval| {
            format!("{:.2} ({:.2}..{:.2})", interval.mean, interval.low, interval.high)
        };
        let told = format!(
            "bounded slowdown {}, wait {} s, response {} s ({} jobs; intervals of {:.0} %)",
            mean(steady.avg_bounded_slowdown),
            mean(steady.avg_wait_s),
            mean(steady.avg_response_s),
            steady.jobs,
            100.0 * steady.confidence,
        );
        pairs.push(("steady state", told));
    }
    if let Some(sharing) = &report.time_sharing {
        let every_s = sharing.context_switches_per_s;
        let told = format!("{}, {every_s:.3} a second", sharing.context_switches);
        pairs.push(("context switches", told));
    }
    pairs
}

fn reasons(drops: &Drops) -> String {
    let reasons = [
        (drops.no_run_time, "without a run time"),
        (drops.no_procs, "without processors"),
        (drops.too_many_procs, "too large for the machine"),
        (drops.no_submit_time, "without a time of submission"),
        (drops.beyond_time, "beyond 136 years"),
    ];
    let told = reasons.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, why)| format!("{count} {why}")).collect();
    format!("{} jobs: {}", drops.total(), told.join(", "))
}

fn user(user: &UserService) -> Vec<String> {
    vec![
        user.user.to_string(),
        user.jobs.to_string(),
        format!("{:.1}", user.work_pe_s / 3_600.0),
        format!("{:.1}", user.avg_wait_s),
        format!("{:.1}", user.avg_response_s),
        format!("{:.2}", user.avg_bounded_slowdown),
    ]
}
