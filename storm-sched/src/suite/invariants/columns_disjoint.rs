//! No two jobs that run in one row share a PE.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{JobId, Pe, Slot};

/// Jobs that run in one row have disjoint columns.
#[derive(Debug)]
pub struct ColumnsDisjoint;

#[derive(Debug, thiserror::Error)]
#[error("slot {slot}: jobs {first} and {second} both have PE {pe}")]
struct Shared {
    slot: Slot,
    pe: Pe,
    first: JobId,
    second: JobId,
}

impl Invariant for ColumnsDisjoint {
    fn name(&self) -> &'static str {
        "jobs of one row have disjoint columns"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let mut holders: BTreeMap<(Slot, Pe), JobId> = BTreeMap::new();
        for (&second, running) in &step.after.running {
            let pes = running.placement.pes();
            for (slot, &pe) in running.slots().flat_map(|slot| pes.iter().map(move |pe| (slot, pe)))
            {
                if let Some(first) = holders.insert((slot, pe), second) {
                    return Err(Shared { slot, pe, first, second }.into());
                }
            }
        }
        Ok(())
    }
}
