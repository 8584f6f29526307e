//! The result of a simulation, for users and for programs.

use super::campaign::FailedSeed;
use super::table_form::{pairs, table};
use procfs::process::Process;
use serde::Serialize;
use std::time::Instant;
use storm_sim::{HistogramSummary, JobReport, Report};

/// The resources of this machine that a simulation took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct RealCost {
    /// Seconds of real time.
    pub(crate) real_s: f64,
    /// Peak resident memory of this process in KiB; 0 if unknown.
    pub(crate) peak_rss_kib: u64,
}

/// A finished simulation.
#[derive(Debug, Serialize)]
pub(crate) struct Simulated<'a> {
    /// The simulation's result.
    #[serde(flatten)]
    pub(crate) report: &'a Report,
    /// Simulated events per second of real time.
    pub(crate) events_per_s: f64,
    /// The resources that it took.
    #[serde(flatten)]
    pub(crate) cost: RealCost,
    /// How it failed, if it did.
    pub(crate) failed: Option<&'a FailedSeed>,
}

impl<'a> Simulated<'a> {
    /// A report of a finished simulation.
    pub(crate) fn new(
        report: &'a Report,
        cost: RealCost,
        failed: Option<&'a FailedSeed>,
    ) -> Simulated<'a> {
        let events_per_s = report.events as f64 / cost.real_s.max(f64::MIN_POSITIVE);
        Simulated { report, events_per_s, cost, failed }
    }
}

impl RealCost {
    /// The resources from `begun` until now.
    pub(crate) fn since(begun: Instant) -> RealCost {
        let status = Process::myself().and_then(|own| own.status());
        let peak_rss_kib = status.ok().and_then(|status| status.vmhwm).unwrap_or(0);
        RealCost { real_s: begun.elapsed().as_secs_f64(), peak_rss_kib }
    }
}

/// For users.
pub(super) fn text(run: &Simulated<'_>) -> String {
    let Simulated { report, events_per_s, cost, .. } = run;
    let columns = [
        ">JOB",
        "NAME",
        ">RANKS",
        ">NODES",
        "STATE",
        ">WAIT",
        ">SEND",
        ">EXEC",
        ">RESPONSE",
        ">SLOWDOWN",
        "REASON",
    ];
    let mut text = table(&columns, report.jobs.iter().map(job));
    text.push_str("times in ms\n\n");
    text.push_str(&pairs(&[
        (
            "machine",
            format!("{} nodes of {} elements, seed {}", report.nodes, report.pes, report.seed),
        ),
        ("not submitted", not_submitted(report.not_submitted)),
        ("virtual time", format!("{:.3} ms", report.virtual_ms)),
        ("strobe to switch", histogram(&report.strobe_to_switch)),
        ("skew of a strobe", histogram(&report.skew)),
        ("events", format!("{}, {events_per_s:.0} a second", report.events)),
        ("real time", format!("{:.2} s", cost.real_s)),
        ("peak memory", format!("{} MiB", cost.peak_rss_kib / 1024)),
    ]));
    text
}

fn job(job: &JobReport) -> Vec<String> {
    let ms = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
    vec![
        job.job.to_string(),
        job.name.clone(),
        job.procs.to_string(),
        job.nodes.to_string(),
        job.state.clone(),
        ms(job.wait_ms),
        ms(job.send_ms),
        ms(job.exec_ms),
        ms(job.response_ms),
        job.slowdown.map_or_else(|| "-".to_owned(), |slowdown| format!("{slowdown:.3}")),
        job.reason.clone().unwrap_or_default(),
    ]
}

/// For scripts: ids and states.
pub(super) fn bare(run: &Simulated<'_>) -> String {
    run.report.jobs.iter().map(|job| format!("{} {}\n", job.job, job.state)).collect()
}

fn not_submitted(jobs: usize) -> String {
    if jobs == 0 { String::new() } else { format!("{jobs} jobs of the scenario") }
}

fn histogram(summary: &HistogramSummary) -> String {
    let HistogramSummary { count, p50_us, p99_us, max_us, .. } = summary;
    if *count == 0 {
        return String::new();
    }
    format!("median {p50_us:.1} us, 99 % {p99_us:.1} us, largest {max_us:.1} us, of {count}")
}
