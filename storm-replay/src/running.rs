//! The running jobs as the driver sees them: the next to end, and when.

use std::time::Duration;

use storm_sched::metrics::Capacity;
use storm_sched::{Policy, SchedTime};

use crate::{JobIndex, TimeSharing};

/// A job that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) job: JobIndex,
    /// The number of jobs started before it.
    pub(crate) order: u32,
    pub(crate) run: Duration,
    pub(crate) procs: u32,
}

/// The jobs that run, and how they progress.
pub(crate) trait Running {
    /// A job was started.
    fn start(&mut self, now: SchedTime, started: Started);

    /// The time of the next event if no job is submitted: a job or a slice ends.
    fn next(&self) -> Option<SchedTime>;

    /// Lets time pass until `now`, which is no later than [`Running::next`].
    fn pass(&mut self, now: SchedTime);

    /// Takes the jobs that end now, in the order of their starts.
    fn ended(&mut self, now: SchedTime, ended: &mut Vec<JobIndex>);

    /// Whether a slice ends now. The policy learns of it at the end of the instant.
    fn edge(&self, now: SchedTime) -> bool;

    /// The policy made a row active; `on_edge` when a slice had ended.
    fn activated(&mut self, on_edge: bool);

    /// The events of an instant are over. Returns `now`, or a later time before the next event to
    /// which time was let pass.
    fn settle(&mut self, instant: Instant<'_>, capacity: &mut Capacity) -> SchedTime;

    /// Processors of the jobs that run now.
    fn busy_pes(&self) -> u32;

    /// The result of time sharing.
    fn time_sharing(&self) -> Option<TimeSharing>;
}

/// An instant after its events.
pub(crate) struct Instant<'a> {
    pub(crate) now: SchedTime,
    /// A slice ended, and the policy got the event.
    pub(crate) edge: bool,
    /// Other events happened.
    pub(crate) others: bool,
    pub(crate) policy: &'a mut dyn Policy,
    pub(crate) next_submit: Option<SchedTime>,
}
