//! The metrics of a replay.

use serde::Serialize;
use storm_sched::metrics::{Summary, UserService, by_user};

use crate::{Schedule, SteadyState, Trace, TrimPercent};

/// The report of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The averages over all jobs.
    #[serde(flatten)]
    pub summary: Summary,
    /// The part of the machine that idled although a waiting job would have
    /// fitted; 0 to 1.
    pub loss_of_capacity: f64,
    /// The most processors that were busy at a time.
    pub peak_procs: u32,
    /// The processors of the machine.
    pub pes: u32,
    /// The work over the machine's capacity between the first submission and the last.
    pub offered_load: Option<f64>,
    /// Submissions and ends.
    pub job_events: u64,
    /// The result of time sharing, if the policy shares time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_sharing: Option<SharingReport>,
    /// The steady state, without the beginning and the end, with confidence; `None` for few jobs.
    pub steady_state: Option<SteadyState>,
    /// The users, those with the most work first.
    pub users: Vec<UserService>,
}

/// The result of time sharing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SharingReport {
    /// The length of a slice in microseconds.
    pub quantum_us: u64,
    /// Slices that ended.
    pub slices: u64,
    /// Times that other jobs went on.
    pub context_switches: u64,
    /// The context switches per second of the makespan.
    pub context_switches_per_s: f64,
}

impl Report {
    /// The report of a trace's schedule.
    #[must_use]
    pub fn new(trace: &Trace, schedule: &Schedule, trim: TrimPercent) -> Self {
        let outcomes = schedule.outcomes(trace);
        let summary = Summary::of(trace.pes(), &outcomes);
        let users = trace.jobs().iter().map(|job| job.user).zip(&outcomes);
        let sharing = |sharing: crate::TimeSharing| SharingReport {
            quantum_us: u64::try_from(sharing.quantum.as_micros()).unwrap_or(u64::MAX),
            slices: sharing.edges,
            context_switches: sharing.switches,
            context_switches_per_s: if summary.makespan_s > 0.0 {
                sharing.switches as f64 / summary.makespan_s
            } else {
                0.0
            },
        };
        Self {
            loss_of_capacity: schedule.capacity.loss(),
            peak_procs: schedule.capacity.most_busy_pes(),
            pes: trace.pes(),
            offered_load: trace.offered_load(),
            job_events: schedule.job_events,
            time_sharing: schedule.time_sharing.map(sharing),
            steady_state: SteadyState::of(&outcomes, trim),
            users: by_user(users),
            summary,
        }
    }
}
