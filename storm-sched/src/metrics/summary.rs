//! The summary of a whole schedule.

use serde::Serialize;

use super::{JobOutcome, Service};
use crate::SchedTime;

/// The metrics of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Jobs.
    pub jobs: u64,
    /// The mean bounded slowdown.
    pub avg_bounded_slowdown: f64,
    /// The greatest bounded slowdown.
    pub max_bounded_slowdown: f64,
    /// The mean bounded slowdown per processor.
    pub avg_bounded_slowdown_per_proc: f64,
    /// The mean slowdown.
    pub avg_slowdown: f64,
    /// The mean wait in seconds.
    pub avg_wait_s: f64,
    /// The mean response time in seconds.
    pub avg_response_s: f64,
    /// The work, divided by the work that the machine could have done from the first submission to
    /// the last end; 0 to 1.
    pub utilisation: f64,
    /// Seconds from the first submission to the last end.
    pub makespan_s: f64,
    /// The jobs that ended per second of that time.
    pub jobs_per_s: f64,
}

impl Summary {
    /// Returns the summary of these jobs on a machine of that many processors.
    #[must_use]
    pub fn of<'a>(pes: u32, jobs: impl IntoIterator<Item = &'a JobOutcome>) -> Self {
        let mut service = Service::default();
        let mut ends: Option<(SchedTime, SchedTime)> = None;
        for job in jobs {
            service.add(job);
            let (first, last) = ends.unwrap_or((job.submit, job.end));
            ends = Some((first.min(job.submit), last.max(job.end)));
        }
        let makespan = ends.map(|(first, last)| last.since(first)).unwrap_or_default();
        let makespan_s = makespan.as_secs_f64();
        let whole_pe_ns = u128::from(pes) * makespan.as_nanos();
        let of_time = |value: f64, time: f64| if time > 0.0 { value / time } else { 0.0 };
        Self {
            jobs: service.jobs(),
            avg_bounded_slowdown: service.avg_bounded_slowdown(),
            max_bounded_slowdown: service.max_bounded_slowdown(),
            avg_bounded_slowdown_per_proc: service.avg_bounded_slowdown_per_proc(),
            avg_slowdown: service.avg_slowdown(),
            avg_wait_s: service.avg_wait_s(),
            avg_response_s: service.avg_response_s(),
            utilisation: of_time(service.work_pe_ns() as f64, whole_pe_ns as f64),
            makespan_s,
            jobs_per_s: of_time(service.jobs() as f64, makespan_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_metrics_of_two_jobs_by_hand() {
        let job = |submit, start, end, procs| JobOutcome {
            submit: SchedTime::from_secs(submit),
            start: SchedTime::from_secs(start),
            end: SchedTime::from_secs(end),
            run: Duration::from_secs(end - start),
            procs,
        };
        let summary = Summary::of(4, &[job(10, 10, 30, 2), job(20, 30, 50, 4)]);
        assert_eq!((summary.jobs, summary.makespan_s), (2, 40.0));
        assert_eq!((summary.avg_wait_s, summary.avg_response_s), (5.0, 25.0));
        assert_eq!(summary.avg_bounded_slowdown, 1.25);
        assert_eq!(summary.utilisation, 120.0 / 160.0);
        assert_eq!(summary.jobs_per_s, 0.05);
    }

    #[test]
    fn no_jobs_give_no_metrics_and_no_division_by_zero() {
        let summary = Summary::of(4, &[]);
        assert_eq!((summary.jobs, summary.avg_wait_s, summary.utilisation), (0, 0.0, 0.0));
    }
}
