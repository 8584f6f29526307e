//! The times at which each job ran.

use std::time::Duration;

use storm_sched::metrics::{Capacity, JobOutcome};
use storm_sched::{ColumnSet, SchedTime};

use crate::{JobIndex, Trace};

/// The start of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The job.
    pub job: JobIndex,
    /// When it started.
    pub start: SchedTime,
    /// When it ended.
    pub end: SchedTime,
    /// The processors, if they were to be kept.
    pub columns: Option<ColumnSet>,
    /// The processors that the job was moved to later, if the replay keeps them.
    pub moves: Vec<(SchedTime, ColumnSet)>,
}

/// The busy processors in an interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// The beginning.
    pub from: SchedTime,
    /// The end.
    pub to: SchedTime,
    /// Processor-nanoseconds.
    pub pe_ns: u128,
}

/// The result of a replay: every job has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The starts, in their order.
    pub starts: Vec<Start>,
    /// The capacity that the machine lost.
    pub capacity: Capacity,
    /// The busy processors over time, without gaps, if they were recorded.
    pub busy: Vec<Busy>,
    /// Submissions and ends.
    pub job_events: u64,
    /// For policies that share time.
    pub time_sharing: Option<TimeSharing>,
}

/// The result of time sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeSharing {
    /// The length of a slice at the end.
    pub quantum: Duration,
    /// Slices that ended.
    pub edges: u64,
    /// Edges at which other jobs went on.
    pub switches: u64,
    /// Slice ends that the policy was asked about; the others repeat.
    pub asked_edges: u64,
}

impl Schedule {
    /// The outcome of each job, in the order of the trace.
    #[must_use]
    pub fn outcomes(&self, trace: &Trace) -> Vec<JobOutcome> {
        let mut starts: Vec<&Start> = self.starts.iter().collect();
        starts.sort_unstable_by_key(|start| start.job);
        starts.into_iter().filter_map(|start| start.outcome(trace)).collect()
    }
}

impl Busy {
    /// The mean number of processors.
    #[must_use]
    pub fn mean_pes(&self) -> f64 {
        let ns = self.to.since(self.from).as_nanos();
        if ns == 0 { 0.0 } else { self.pe_ns as f64 / ns as f64 }
    }
}

impl Start {
    /// The columns of the job over time, if they were recorded.
    pub fn stays(&self) -> impl Iterator<Item = (SchedTime, SchedTime, &ColumnSet)> + '_ {
        let first = self.columns.iter().map(|columns| (self.start, columns));
        let later = self.moves.iter().map(|(at, columns)| (*at, columns));
        let ends = self.moves.iter().map(|(at, _)| *at).chain(std::iter::once(self.end));
        first.chain(later).zip(ends).map(|((from, columns), to)| (from, to, columns))
    }

    /// The outcome of the job.
    #[must_use]
    pub fn outcome(&self, trace: &Trace) -> Option<JobOutcome> {
        let job = trace.job(self.job)?;
        let &Self { start, end, .. } = self;
        Some(JobOutcome { submit: job.submit, start, end, run: job.run, procs: job.procs })
    }
}
