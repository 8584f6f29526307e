//! No two jobs that run in one row share a PE.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{JobId, Pe, Row};

/// Jobs that run in one row have disjoint columns.
#[derive(Debug)]
pub struct ColumnsDisjoint;

#[derive(Debug, thiserror::Error)]
#[error("row {row}: jobs {first} and {second} both have PE {pe}")]
struct Shared {
    row: Row,
    pe: Pe,
    first: JobId,
    second: JobId,
}

impl Invariant for ColumnsDisjoint {
    fn name(&self) -> &'static str {
        "jobs of one row have disjoint columns"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let mut holders: BTreeMap<(Row, Pe), JobId> = BTreeMap::new();
        for (&second, running) in &step.after.running {
            let pes = running.placement.pes();
            for (row, &pe) in running.rows().flat_map(|row| pes.iter().map(move |pe| (row, pe))) {
                if let Some(first) = holders.insert((row, pe), second) {
                    return Err(Shared { row, pe, first, second }.into());
                }
            }
        }
        Ok(())
    }
}
