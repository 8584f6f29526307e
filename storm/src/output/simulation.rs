//! What came of a simulated machine, for people and for programs.

use super::table_form::{pairs, table};
use serde::Serialize;
use std::time::Instant;
use storm_sim::{HistogramSummary, JobReport, Report};

/// What a simulation took of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct RealCost {
    /// Seconds of real time.
    pub(crate) real_s: f64,
    /// Peak resident memory of this process in KiB; 0 where it is not known.
    pub(crate) peak_rss_kib: u64,
}

#[derive(Serialize)]
struct Everything<'a> {
    #[serde(flatten)]
    report: &'a Report,
    events_per_s: f64,
    #[serde(flatten)]
    cost: &'a RealCost,
}

impl RealCost {
    /// From `begun` until now.
    pub(crate) fn since(begun: Instant) -> RealCost {
        // Field VmHWM of proc(5).
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok());
        RealCost { real_s: begun.elapsed().as_secs_f64(), peak_rss_kib: kib.unwrap_or_default() }
    }
}

/// The report as text, or as JSON.
pub(crate) fn simulation(report: &Report, cost: &RealCost, json: bool) -> String {
    let events_per_s = report.events as f64 / cost.real_s.max(f64::MIN_POSITIVE);
    if json {
        // Numbers, strings and lists: nothing that JSON lacks.
        let text = serde_json::to_string(&Everything { report, events_per_s, cost });
        return text.unwrap_or_default() + "\n";
    }
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
    ];
    let mut text = table(&columns, report.jobs.iter().map(job));
    text.push_str("times in ms\n\n");
    text.push_str(&pairs(&[
        (
            "machine",
            format!("{} nodes of {} elements, seed {}", report.nodes, report.pes, report.seed),
        ),
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
    ]
}

fn histogram(summary: &HistogramSummary) -> String {
    let HistogramSummary { count, p50_us, p99_us, max_us, .. } = summary;
    if *count == 0 {
        return String::new();
    }
    format!("median {p50_us:.1} us, 99 % {p99_us:.1} us, largest {max_us:.1} us, of {count}")
}
