//! Every start of a replay as comma-separated values.

use crate::failure::Failure;
use csv::Writer;
use std::time::Duration;
use storm_replay::{Schedule, Start, Trace};
use storm_sched::SchedTime;

const COLUMNS: [&str; 10] = [
    "job",
    "user",
    "procs",
    "submit_s",
    "start_s",
    "end_s",
    "wait_s",
    "run_s",
    "estimate_s",
    "bounded_slowdown",
];

/// A row for each start, in order; jobs have the numbers of the log.
pub(super) fn csv(trace: &Trace, schedule: &Schedule) -> Result<Vec<u8>, Failure> {
    let mut writer = Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| Failure::of("file", &error);
    writer.write_record(COLUMNS).map_err(failed)?;
    for start in &schedule.starts {
        if let Some(row) = row(trace, start) {
            writer.write_record(row).map_err(failed)?;
        }
    }
    writer.into_inner().map_err(|error| Failure::of("file", error.error()))
}

fn row(trace: &Trace, start: &Start) -> Option<[String; 10]> {
    let (job, outcome) = (trace.job(start.job)?, start.outcome(trace)?);
    Some([
        job.number.to_string(),
        job.user.to_string(),
        job.procs.to_string(),
        seconds(since_begin(job.submit)),
        seconds(since_begin(start.start)),
        seconds(since_begin(start.end)),
        seconds(outcome.wait()),
        seconds(job.run),
        seconds(job.estimate),
        outcome.bounded_slowdown().to_string(),
    ])
}

fn since_begin(time: SchedTime) -> Duration {
    time.since(SchedTime::ZERO)
}

/// Seconds, without a fraction if there is none.
fn seconds(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => time.as_secs().to_string(),
        _ => time.as_secs_f64().to_string(),
    }
}
