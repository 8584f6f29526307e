//! The result of a run: the times of its jobs and strobes, and the cost of their
//! simulation.

use crate::{JobTimes, Machine};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;
use storm_mm::api::{JobState, LaunchBreakdown};
use storm_rm::{JobId, ProcessClass, Rank};

/// The result of a run. It is the same for the same scenario and seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Nodes.
    pub nodes: u32,
    /// Processing elements of each.
    pub pes: u32,
    /// Virtual time in milliseconds.
    pub virtual_ms: f64,
    /// The number of facts that the invariants checked.
    pub facts: u64,
    /// Events of the simulation: tasks polled and network events.
    pub events: u64,
    /// The jobs, in order of their number.
    pub jobs: Vec<JobReport>,
    /// Jobs of the scenario that could not be submitted in time.
    pub not_submitted: usize,
    /// From the issue of a strobe to its switch on each node.
    pub strobe_to_switch: HistogramSummary,
    /// From the first to the last node that obeyed each strobe.
    pub skew: HistogramSummary,
}

/// One job. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    /// The number.
    pub job: u64,
    /// The name.
    pub name: String,
    /// The ranks.
    pub procs: u32,
    /// The nodes.
    pub nodes: usize,
    /// The job's state: its final one if it has ended.
    pub state: String,
    /// The reason for the state, if there is one. For a job that has not ended: where it is.
    pub reason: Option<String>,
    /// When the job was submitted.
    pub submitted_ms: f64,
    /// From its submission to its place in the matrix.
    pub wait_ms: Option<f64>,
    /// From its place in the matrix to the order to start its ranks: the send time
    /// of the paper's Fig. 2.
    pub send_ms: Option<f64>,
    /// From the order to start until the manager knows the end: the execution time of Fig. 2.
    pub exec_ms: Option<f64>,
    /// From its submission to its end, when the manager first knew of it.
    pub response_ms: Option<f64>,
    /// The response time divided by the CPU time of a rank: how many times longer the job took than
    /// on a machine of its own. Only completed jobs that computed have a slowdown.
    pub slowdown: Option<f64>,
    /// How often the job was put back in the queue.
    pub requeued: u32,
    /// The parts of the launch time, as the manager measured them.
    pub breakdown: Option<LaunchBreakdown>,
    /// The last class that flexible coscheduling gave each rank, in order of the ranks. Ranks that
    /// still have the first class (CS) are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ProcessClass>,
}

/// A summary of a histogram. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HistogramSummary {
    /// Samples.
    pub count: u64,
    /// Smallest.
    pub min_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Largest.
    pub max_us: f64,
}

impl Report {
    /// The result of a machine's run so far, for a workload of `workload` jobs. `work` gives
    /// the CPU time of a rank of a job by the job's name.
    pub fn of(
        machine: &Machine,
        workload: usize,
        work: impl Fn(&str) -> Option<Duration>,
    ) -> Report {
        let config = machine.config();
        let jobs = machine.jobs();
        Report {
            seed: config.seed,
            nodes: config.nodes,
            pes: config.pes,
            virtual_ms: milliseconds(machine.now().since_origin()),
            facts: machine.facts(),
            events: machine.events(),
            jobs: jobs.iter().map(|(id, times)| job(*id, times, work(&times.name))).collect(),
            not_submitted: workload.saturating_sub(jobs.len()),
            strobe_to_switch: HistogramSummary::of(&machine.switch_ns()),
            skew: HistogramSummary::of(&machine.skew_ns()),
        }
    }
}

impl HistogramSummary {
    /// Sums up a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> HistogramSummary {
        if histogram.is_empty() {
            return HistogramSummary::default();
        }
        let us = |ns: u64| ns as f64 / 1e3;
        HistogramSummary {
            count: histogram.len(),
            min_us: us(histogram.min()),
            p50_us: us(histogram.value_at_quantile(0.5)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            p999_us: us(histogram.value_at_quantile(0.999)),
            max_us: us(histogram.max()),
        }
    }
}

fn job(id: JobId, times: &JobTimes, work: Option<Duration>) -> JobReport {
    let response = times.over().map(|over| over - times.submitted);
    let slowdown = |response: Duration| {
        let completed = times.state == Some(JobState::Completed);
        let work = work.filter(|work| completed && !work.is_zero())?;
        Some(response.as_secs_f64() / work.as_secs_f64())
    };
    JobReport {
        job: id.0,
        name: times.name.clone(),
        procs: times.procs,
        nodes: times.nodes,
        state: times.last_state().to_string(),
        reason: match times.ended {
            Some(_) => times.reason.clone(),
            None => Some(times.whereabouts()),
        },
        submitted_ms: milliseconds(times.submitted.since_origin()),
        wait_ms: times.placed.map(|placed| milliseconds(placed - times.submitted)),
        send_ms: times.send().map(milliseconds),
        exec_ms: times.exec().map(milliseconds),
        response_ms: response.map(milliseconds),
        slowdown: response.and_then(slowdown),
        requeued: times.requeued,
        breakdown: times.breakdown,
        classes: match times.classes.is_empty() {
            true => Vec::new(),
            false => (0..times.procs).map(|rank| class(times, Rank(rank))).collect(),
        },
    }
}

fn class(times: &JobTimes, rank: Rank) -> ProcessClass {
    times.classes.get(&rank).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
