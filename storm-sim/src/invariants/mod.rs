//! Invariants: conditions that hold at every instant of a simulated machine, one file each. Each
//! invariant receives every [`Fact`] in order and reports a fact that breaks it.

mod caw_whole;
mod columns_disjoint;
mod columns_freed;
mod gang_start;
mod no_lost_job;
mod one_run;
mod own_row;
mod strobe_order;
#[cfg(test)]
mod testing;
mod untouched;

pub use caw_whole::CawWhole;
pub use columns_disjoint::ColumnsDisjoint;
pub use columns_freed::ColumnsFreed;
pub use gang_start::GangStart;
pub use no_lost_job::NoLostJob;
pub use one_run::OneRun;
pub use own_row::OwnRow;
pub use strobe_order::StrobeOrder;
pub use untouched::Untouched;

use crate::Fact;
use storm_primitives::Instant;
use thiserror::Error;

/// One condition that must hold.
pub trait Invariant {
    /// The name, for messages to users.
    fn name(&self) -> &'static str;

    /// Takes note of a fact.
    ///
    /// # Errors
    /// Checks a fact. Returns the violation if the fact breaks the invariant.
    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken>;
}

/// A description of how an invariant was broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// An invariant that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at {at}: {invariant} does not hold")]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// When, in virtual time.
    pub at: Instant,
    /// How.
    #[source]
    pub how: Broken,
}

/// All invariants, for a machine of nodes with `pes` processing elements.
pub fn all(pes: u32) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(ColumnsDisjoint::new(pes)),
        Box::new(GangStart::default()),
        Box::new(NoLostJob::default()),
        Box::new(OneRun::default()),
        Box::new(CawWhole),
        Box::new(StrobeOrder::default()),
        Box::new(OwnRow::default()),
        Box::new(ColumnsFreed::default()),
        Box::new(Untouched::default()),
    ]
}

/// Fails with these words.
fn broken<T>(how: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(how.into()))
}
