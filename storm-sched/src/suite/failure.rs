//! A broken invariant, with the facts needed to see it again.

use std::error::Error;

use crate::Event;

/// An invariant did not hold.
#[derive(Debug, thiserror::Error)]
#[error(
    "policy {policy} broke the invariant {invariant:?} at step {step} of seed {seed}, \
     on {event:?}; repeat it with storm_sched::suite::run({seed}, ..) or run_of, \
     or in this crate with STORM_SUITE_SEED={seed} cargo test -p storm-sched --test all suite"
)]
pub struct Failure {
    /// The policy's name.
    pub policy: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// The event's number in the run, from 0.
    pub step: usize,
    /// The event.
    pub event: Box<Event>,
    /// The invariant's name.
    pub invariant: &'static str,
    /// The violation.
    #[source]
    pub why: Box<dyn Error + Send + Sync>,
}
