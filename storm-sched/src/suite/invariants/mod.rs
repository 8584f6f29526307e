//! The invariants, one file each, and the sets of invariants that each kind of policy must hold.

mod columns_disjoint;
mod columns_returned;
mod every_job_in_turn;
mod every_job_runs;
mod every_row_in_turn;
mod head_not_delayed;
mod head_starts_when_it_fits;
mod memory_within;
mod nobody_spared;
mod nothing_starves;
mod placement_sound;
mod preemption_lawful;
mod promise_kept;
mod queue_order;
mod reasons_true;
mod refuses_what_does_not_fit;
mod reservations_kept;
mod rows_within_limit;
mod same_state;
mod shortest_first;
mod somebody_runs;
mod suspended_resume;

use std::error::Error;

pub use columns_disjoint::ColumnsDisjoint;
pub use columns_returned::{ColumnsReturned, Held};
pub use every_job_in_turn::EveryJobInTurn;
pub use every_job_runs::EveryJobRuns;
pub use every_row_in_turn::EveryRowInTurn;
pub use head_not_delayed::HeadNotDelayed;
pub use head_starts_when_it_fits::HeadStartsWhenItFits;
pub use memory_within::MemoryWithin;
pub use nobody_spared::NobodySpared;
pub use nothing_starves::NothingStarves;
pub use placement_sound::PlacementSound;
pub use preemption_lawful::PreemptionLawful;
pub use promise_kept::PromiseKept;
pub use queue_order::QueueOrder;
pub use reasons_true::ReasonsTrue;
pub use refuses_what_does_not_fit::RefusesWhatDoesNotFit;
pub use reservations_kept::ReservationsKept;
pub use rows_within_limit::RowsWithinLimit;
pub use same_state::SameState;
pub use shortest_first::ShortestFirst;
pub use somebody_runs::SomebodyRuns;
pub use suspended_resume::SuspendedResume;

use crate::MplLimit;
use crate::suite::Step;

/// The violation that an invariant found.
pub type Violation = Box<dyn Error + Send + Sync>;

/// A property that holds after every event.
pub trait Invariant {
    /// The invariant, in a few words.
    fn name(&self) -> &'static str;

    /// Checks one step. The steps of a run come in order.
    ///
    /// # Errors
    /// The violation.
    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation>;
}

/// The invariants of every policy, with any queue order.
#[must_use]
pub fn any_policy(limit: MplLimit, held: Held) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(RefusesWhatDoesNotFit),
        Box::new(PlacementSound),
        Box::new(ColumnsDisjoint),
        Box::new(RowsWithinLimit(limit)),
        Box::new(SomebodyRuns),
        Box::new(SameState),
        Box::new(ColumnsReturned(held)),
        Box::new(MemoryWithin),
        Box::new(ReasonsTrue),
        Box::new(EveryRowInTurn::default()),
    ]
}

/// The invariants among reservations of every policy that lets no job wait while nothing runs, with
/// any queue order.
#[must_use]
pub fn reserving(limit: MplLimit, held: Held) -> Vec<Box<dyn Invariant>> {
    let mut invariants = any_policy(limit, held);
    invariants.push(Box::new(ReservationsKept));
    invariants.push(Box::new(NothingStarves));
    invariants
}

/// The invariants of space sharing in queue order (A1).
#[must_use]
pub fn space_sharing() -> Vec<Box<dyn Invariant>> {
    let mut invariants = any_space_sharing();
    invariants.push(Box::new(QueueOrder));
    invariants.push(Box::new(HeadStartsWhenItFits(MplLimit::ONE)));
    invariants
}

/// The invariants of space sharing in any order.
#[must_use]
pub fn any_space_sharing() -> Vec<Box<dyn Invariant>> {
    any_policy(MplLimit::ONE, Held::Exactly)
}

/// The invariants of space sharing in any order when jobs preempt others.
#[must_use]
pub fn preempting() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(RefusesWhatDoesNotFit),
        Box::new(PlacementSound),
        Box::new(ColumnsDisjoint),
        Box::new(RowsWithinLimit(MplLimit::ONE)),
        Box::new(SomebodyRuns),
        Box::new(SameState),
        Box::new(MemoryWithin),
        Box::new(PreemptionLawful),
        Box::new(SuspendedResume),
    ]
}

/// The invariants of space sharing when jobs preempt others and nodes are reserved.
#[must_use]
pub fn reserving_and_preempting() -> Vec<Box<dyn Invariant>> {
    let mut invariants = preempting();
    invariants.push(Box::new(ReservationsKept));
    invariants.push(Box::new(NothingStarves));
    invariants
}

/// The invariants of backfilling with a reservation for the head (A2a).
#[must_use]
pub fn backfilling() -> Vec<Box<dyn Invariant>> {
    let mut invariants = any_space_sharing();
    invariants.push(Box::new(HeadNotDelayed::default()));
    invariants.push(Box::new(HeadStartsWhenItFits(MplLimit::ONE)));
    invariants
}

/// The invariants of space sharing in the order of the estimates.
#[must_use]
pub fn shortest_first() -> Vec<Box<dyn Invariant>> {
    let mut invariants = any_space_sharing();
    invariants.push(Box::new(ShortestFirst));
    invariants
}

/// The invariants of gang scheduling with a queue in order (A3).
#[must_use]
pub fn gang(limit: MplLimit) -> Vec<Box<dyn Invariant>> {
    let mut invariants = gang_backfilling(limit);
    invariants.push(Box::new(QueueOrder));
    invariants
}

/// The invariants of gang scheduling in which jobs may pass the first job.
#[must_use]
pub fn gang_backfilling(limit: MplLimit) -> Vec<Box<dyn Invariant>> {
    let mut invariants = gang_repacking(limit);
    invariants.push(Box::new(EveryJobInTurn::default()));
    invariants
}

/// The invariants of gang scheduling that may move any job to any row.
#[must_use]
pub fn gang_repacking(limit: MplLimit) -> Vec<Box<dyn Invariant>> {
    let mut invariants = any_policy(limit, Held::RoundedUp);
    invariants.push(Box::new(HeadStartsWhenItFits(limit)));
    invariants
}

/// The invariants of policies that place jobs as gang scheduling does and run them all at once,
/// with a queue in order (A6).
#[must_use]
pub fn at_once(limit: MplLimit) -> Vec<Box<dyn Invariant>> {
    let mut invariants = at_once_backfilling(limit);
    invariants.push(Box::new(QueueOrder));
    invariants
}

/// The invariants of [`at_once`], for policies in which jobs may pass the first job.
#[must_use]
pub fn at_once_backfilling(limit: MplLimit) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(RefusesWhatDoesNotFit),
        Box::new(PlacementSound),
        Box::new(ColumnsDisjoint),
        Box::new(RowsWithinLimit(limit)),
        Box::new(SameState),
        Box::new(ColumnsReturned(Held::RoundedUp)),
        Box::new(MemoryWithin),
        Box::new(ReasonsTrue),
        Box::new(HeadStartsWhenItFits(limit)),
        Box::new(EveryJobRuns),
    ]
}

/// The invariants of gang scheduling when jobs preempt others, with or without reserved nodes.
#[must_use]
pub fn gang_preempting(limit: MplLimit) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(RefusesWhatDoesNotFit),
        Box::new(PlacementSound),
        Box::new(ColumnsDisjoint),
        Box::new(RowsWithinLimit(limit)),
        Box::new(SomebodyRuns),
        Box::new(SameState),
        Box::new(ColumnsReturned(Held::RoundedUp)),
        Box::new(MemoryWithin),
        Box::new(EveryRowInTurn::default()),
        Box::new(ReservationsKept),
        Box::new(NothingStarves),
        Box::new(PreemptionLawful),
        Box::new(NobodySpared(limit)),
        Box::new(PromiseKept::new(limit)),
    ]
}
