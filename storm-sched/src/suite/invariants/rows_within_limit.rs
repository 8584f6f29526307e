//! Jobs never live in more rows than the multiprogramming limit.

use super::{Invariant, Violation};
use crate::MplLimit;
use crate::suite::Step;

/// The multiprogramming limit holds.
#[derive(Debug)]
pub struct RowsWithinLimit(pub MplLimit);

#[derive(Debug, thiserror::Error)]
#[error("jobs live in {rows} rows, and the limit is {limit}")]
struct TooMany {
    rows: usize,
    limit: u32,
}

impl Invariant for RowsWithinLimit {
    fn name(&self) -> &'static str {
        "the multiprogramming limit holds"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let (rows, limit) = (step.after.live_rows().len(), self.0.get());
        if rows > limit as usize { Err(TooMany { rows, limit }.into()) } else { Ok(()) }
    }
}
