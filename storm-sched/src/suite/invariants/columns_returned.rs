//! Freed columns equal allocated columns. In each row, a column is held by a job, free, or on an
//! absent node. A job holds its PEs, and no more than rounding up allows. A job that has nodes for
//! itself holds all their PEs.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::suite::{Running, Step};
use crate::{JobId, JobView, Machine, Node, Pe, Row, RowView};

/// The number of columns that a job may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Exactly one for each process.
    Exactly,
    /// Up to the next power of two: fewer than twice the number of processes.
    RoundedUp,
}

/// Every column is held, free or absent: none is lost.
#[derive(Debug)]
pub struct ColumnsReturned(pub Held);

#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("row {row}: {free} columns are free by the policy's account, {expected} in truth")]
    Free { row: Row, free: u32, expected: u32 },
    #[error("job {job} holds {held} columns for {pes} PEs")]
    Holds { job: JobId, held: u32, pes: u32 },
    #[error("job {job} runs on PE {pe} and does not hold it")]
    NotHeld { job: JobId, pe: Pe },
}

impl Invariant for ColumnsReturned {
    fn name(&self) -> &'static str {
        "columns are held, free or absent, and none is lost"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        for row in step.policy.rows() {
            for view in &row.jobs {
                if let Some(running) = step.after.running.get(&view.job) {
                    self.check_job(&step.after.machine, view, running)?;
                }
            }
            check_free(step, &row)?;
        }
        Ok(())
    }
}

impl ColumnsReturned {
    fn check_job(&self, machine: &Machine, view: &JobView, running: &Running) -> Result<(), Lost> {
        let (job, held) = (view.job, view.columns.len());
        let nodes = running.placement.nodes().filter_map(|node| machine.node(node));
        let pes = match running.request.exclusive {
            true => nodes.map(Node::pes).sum(),
            false => running.request.pes(),
        };
        let columns: BTreeSet<Pe> = view.columns.columns().collect();
        if let Some(&pe) = running.placement.pes().iter().find(|pe| !columns.contains(pe)) {
            return Err(Lost::NotHeld { job, pe });
        }
        let right = match self.0 {
            Held::Exactly => held == pes,
            Held::RoundedUp => held < 2 * pes,
        };
        if right { Ok(()) } else { Err(Lost::Holds { job, held, pes }) }
    }
}

fn check_free(step: &Step<'_>, row: &RowView) -> Result<(), Lost> {
    let mut usable = step.after.usable();
    for pe in row.jobs.iter().flat_map(|job| job.columns.columns()) {
        usable[pe.0 as usize] = false;
    }
    let expected = usable.into_iter().filter(|free| *free).count() as u32;
    if row.free_pes == expected {
        return Ok(());
    }
    Err(Lost::Free { row: row.number, free: row.free_pes, expected })
}
