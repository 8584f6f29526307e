//! Compares a trace on a cluster with the same trace in virtual time.

use super::log::Log;
use crate::cli::ReplayOptions;
use crate::output::Sheet;
use serde::Serialize;
use std::time::Duration;
use storm_replay::Trace;
use storm_sched::SchedTime;
use storm_sched::metrics::{JobOutcome, Summary};

/// Longest delay before the policy of a busy host learns of a submission or an end.
const RESOLUTION: Duration = Duration::from_millis(50);

/// The output for programs.
#[derive(Debug, Serialize)]
struct Document<'a> {
    live: bool,
    sched: &'a str,
    speedup: f64,
    /// Length of a slice of the cluster in seconds, if the policy has slices.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantum_s: Option<f64>,
    /// The slice of the plan, in time of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_quantum_s: Option<f64>,
    pes: u32,
    dropped: u64,
    damaged_lines: u64,
    /// The cluster's results, in time of the log.
    #[serde(flatten)]
    happened: Summary,
    /// The results in virtual time.
    planned: Summary,
    /// Of the pairs of jobs with different starts in virtual time, the part that the cluster
    /// started in the same order; 1 without such pairs.
    same_order: f64,
    /// The same for pairs of jobs with starts further apart than `resolution_s`.
    same_order_apart: f64,
    /// The shortest difference that a cluster can resolve at this speedup, in seconds of the log:
    /// the delay before the policy learns of a submission or an end.
    resolution_s: f64,
    /// Every job in the order of its start on the cluster.
    starts: Vec<Start>,
}

/// The start of a job, in seconds of the log.
#[derive(Debug, Serialize)]
struct Start {
    job: i64,
    start_s: f64,
    end_s: f64,
    planned_start_s: f64,
}

/// Both results, in the order of the trace.
pub(super) fn sheet(
    options: &ReplayOptions,
    log: &Log,
    trace: &Trace,
    happened: &[JobOutcome],
    planned: &[JobOutcome],
) -> Sheet {
    let start =
        |((job, happened), planned): ((&storm_replay::TraceJob, &JobOutcome), &JobOutcome)| Start {
            job: job.number,
            start_s: seconds(happened.start),
            end_s: seconds(happened.end),
            planned_start_s: seconds(planned.start),
        };
    let mut starts: Vec<Start> =
        trace.jobs().iter().zip(happened).zip(planned).map(start).collect();
    starts.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    let resolution_s = RESOLUTION.as_secs_f64() * options.speedup;
    let document = Document {
        live: true,
        sched: &options.sched,
        speedup: options.speedup,
        quantum_s: super::quantum(options).map(|quantum| quantum.as_secs_f64()),
        planned_quantum_s: super::quantum(&super::in_log_time(options))
            .map(|quantum| quantum.as_secs_f64()),
        pes: trace.pes(),
        dropped: log.drops.total(),
        damaged_lines: log.contents.damaged_count,
        happened: Summary::of(trace.pes(), happened),
        planned: Summary::of(trace.pes(), planned),
        same_order: same_order(&starts, 0.0),
        same_order_apart: same_order(&starts, resolution_s),
        resolution_s,
        starts,
    };
    let Document { happened, planned, same_order, same_order_apart, .. } = &document;
    let row = |name: &str, value: fn(&Summary) -> f64| {
        vec![name.to_owned(), format!("{:.3}", value(happened)), format!("{:.3}", value(planned))]
    };
    let rows = [
        row("bounded slowdown", |summary| summary.avg_bounded_slowdown),
        row("wait s", |summary| summary.avg_wait_s),
        row("response s", |summary| summary.avg_response_s),
        row("utilisation %", |summary| 100.0 * summary.utilisation),
        row("makespan s", |summary| summary.makespan_s),
    ];
    let order = format!(
        "{:.2} % of the pairs of jobs start in the same order, {:.2} % of those that start more \
         than {resolution_s} s apart",
        100.0 * same_order,
        100.0 * same_order_apart
    );
    let sheet = Sheet::new(&document).table(["METRIC", ">CLUSTER", ">VIRTUAL TIME"], rows);
    let sheet = match (document.quantum_s, document.planned_quantum_s) {
        (Some(slice_s), Some(planned_s)) => sheet.note(format!(
            "planned with slices of {planned_s} s of the log's time: {slice_s} s of the cluster's, at \
             a speedup of {}",
            options.speedup
        )),
        (_, _) => sheet,
    };
    sheet.note(order)
}

/// For jobs in the order of their starts: of the pairs planned further apart than `apart_s`, the
/// part that is in the planned order.
fn same_order(starts: &[Start], apart_s: f64) -> f64 {
    let (mut pairs, mut same) = (0_u64, 0_u64);
    for (position, first) in starts.iter().enumerate() {
        for second in &starts[position + 1..] {
            let later_s = second.planned_start_s - first.planned_start_s;
            pairs += u64::from(later_s.abs() > apart_s);
            same += u64::from(later_s > apart_s);
        }
    }
    if pairs == 0 { 1.0 } else { same as f64 / pairs as f64 }
}

fn seconds(time: SchedTime) -> f64 {
    let since: Duration = time.since(SchedTime::ZERO);
    since.as_secs_f64()
}
