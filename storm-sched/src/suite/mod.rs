//! The policy suite. Generated workloads drive a policy, and after each step every invariant is
//! checked against an independent model of the machine.
//!
//! A policy must pass the suite to be accepted:
//!
//! ```
//! use storm_sched::{policies::Fcfs, suite};
//!
//! let make = |machine| -> Box<dyn storm_sched::Policy> {
//!     Box::new(Fcfs::new(machine))
//! };
//! suite::run_seeds(0..3, &make, &suite::space_sharing).unwrap();
//! ```
//!
//! One seed fixes a whole run, and a [`Failure`] names it. The suite depends on no policy, because
//! its model follows from the events and the actions alone.

mod failure;
pub mod invariants;
pub mod oracle;
mod trace;
mod workload;
mod world;

use std::collections::BTreeSet;
use std::ops::Range;

pub use failure::Failure;
pub use invariants::{
    Invariant, any_policy, any_space_sharing, at_once, at_once_backfilling, backfilling, gang,
    gang_backfilling, gang_preempting, gang_repacking, preempting, reserving,
    reserving_and_preempting, shortest_first, space_sharing,
};
pub use trace::{Coverage, Trace};
pub use workload::Workload;
pub use world::{Running, World};

use crate::{
    Action, Event, JobId, JobRequest, JobView, Machine, MplLimit, Policy, RowView, SchedTime,
};

/// The number of events of a run: enough to fill the queue and to empty it several times.
pub const STEPS: usize = 300;

/// A function that makes the policy under test on an idle machine.
pub type Make<'a> = &'a dyn Fn(Machine) -> Box<dyn Policy>;

/// The effects of one event.
pub struct Step<'a> {
    /// The model before the event.
    pub before: &'a World,
    /// The model after the actions.
    pub after: &'a World,
    /// When the event happened.
    pub now: SchedTime,
    /// The event.
    pub event: &'a Event,
    /// The answer.
    pub actions: &'a [Action],
    /// The policy after the event.
    pub policy: &'a dyn Policy,
}

impl Step<'_> {
    /// Whether a job fits some row, or a new row within the limit, once the given jobs have ended.
    /// The policy tells which columns a job holds.
    #[must_use]
    pub fn would_fit_without(
        &self,
        limit: MplLimit,
        gone: &BTreeSet<JobId>,
        request: &JobRequest,
    ) -> bool {
        let mut world = self.after.clone();
        world.running.retain(|job, _| !gone.contains(job));
        let held = oracle::held_bytes(&world);
        let rows = self.policy.rows();
        let stays = |job: &&JobView| !gone.contains(&job.job);
        let fits = |free: &[bool]| oracle::fits_beside(&world.machine, free, &held, request);
        let in_row = |row: &RowView| {
            let taken = row.jobs.iter().filter(stays).flat_map(|job| job.columns.columns());
            fits(&oracle::free_pes(&world.machine, taken))
        };
        let live = rows.iter().filter(|row| row.jobs.iter().any(|job| stays(&job))).count();
        let new_row = live < limit.get() as usize;
        (new_row && fits(&world.usable())) || rows.iter().any(in_row)
    }

    /// The waiting jobs after the event and before any decision, in queue order.
    #[must_use]
    pub fn queue_before_decisions(&self) -> Vec<JobId> {
        let mut world = self.before.clone();
        world.apply(self.event, &[]);
        world.queue.iter().map(|request| request.id).collect()
    }
}

/// Runs a generated workload of [`STEPS`] events, then drains the machine. The invariants are
/// checked after each event.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run(
    seed: u64,
    make: Make<'_>,
    invariants: Vec<Box<dyn Invariant>>,
) -> Result<Trace, Failure> {
    run_of(seed, Workload::new(seed), make, invariants)
}

/// Like [`run`], with a workload of another kind, such as [`Workload::preempting`].
///
/// # Errors
/// The first invariant that does not hold.
pub fn run_of(
    seed: u64,
    mut workload: Workload,
    make: Make<'_>,
    mut invariants: Vec<Box<dyn Invariant>>,
) -> Result<Trace, Failure> {
    let machine = workload.machine().clone();
    let mut policy = make(machine.clone());
    let mut world = World::new(machine);
    let mut trace = Trace::default();
    while let Some((now, event)) = workload.next(&world) {
        let actions = policy.handle(now, event.clone());
        let before = world.clone();
        world.apply(&event, &actions);
        let policy = policy.as_ref();
        let step =
            Step { before: &before, after: &world, now, event: &event, actions: &actions, policy };
        for invariant in &mut invariants {
            invariant.check(&step).map_err(|why| Failure {
                policy: policy.name(),
                seed,
                step: trace.len(),
                event: Box::new(event.clone()),
                invariant: invariant.name(),
                why,
            })?;
        }
        trace.push(event, actions, &world);
    }
    Ok(trace)
}

/// Like [`run_seeds`], with workloads made from the seeds.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run_seeds_of(
    seeds: Range<u64>,
    workload: impl Fn(u64) -> Workload,
    make: Make<'_>,
    invariants: &dyn Fn() -> Vec<Box<dyn Invariant>>,
) -> Result<Coverage, Failure> {
    let mut coverage = Coverage::default();
    for seed in seeds {
        coverage.add(&run_of(seed, workload(seed), make, invariants())?);
    }
    Ok(coverage)
}

/// Runs one workload for each seed.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run_seeds(
    seeds: Range<u64>,
    make: Make<'_>,
    invariants: &dyn Fn() -> Vec<Box<dyn Invariant>>,
) -> Result<Coverage, Failure> {
    run_seeds_of(seeds, Workload::new, make, invariants)
}
