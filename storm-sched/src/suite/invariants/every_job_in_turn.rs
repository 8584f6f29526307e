//! No job starves. With n rows, each job runs within n slices, and so gets at least an n-th of the
//! time (A3).
//!
//! Unlike [`super::EveryRowInTurn`], the check follows jobs that change rows. Rows that open while
//! a job waits count.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Event, JobId};

/// Every job runs in its turn.
#[derive(Debug, Default)]
pub struct EveryJobInTurn {
    waits: BTreeMap<JobId, Wait>,
}

/// How long a job has not run.
#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    edges: usize,
    most_rows: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("job {job} has not run for {edges} slices, and there were {most_rows} rows at most")]
struct Starved {
    job: JobId,
    edges: usize,
    most_rows: usize,
}

impl Invariant for EveryJobInTurn {
    fn name(&self) -> &'static str {
        "every job runs in its turn"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let world = step.after;
        let rows = world.live_rows().len();
        self.waits.retain(|job, _| world.running.contains_key(job));
        for (&job, running) in &world.running {
            let wait = self.waits.entry(job).or_default();
            wait.most_rows = wait.most_rows.max(rows);
            if world.active.is_some_and(|row| running.runs_in(row)) {
                *wait = Wait::default();
            } else if *step.event == Event::SliceEdge {
                wait.edges += 1;
            }
            let Wait { edges, most_rows } = *wait;
            if edges > 0 && edges >= most_rows {
                return Err(Starved { job, edges, most_rows }.into());
            }
        }
        Ok(())
    }
}
