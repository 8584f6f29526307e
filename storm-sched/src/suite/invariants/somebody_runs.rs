//! While jobs hold PEs, the active row has jobs: the machine does not idle until the next edge.
//! Only live rows are activated.

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, Row};

/// If there is a live row, a live row is active.
#[derive(Debug)]
pub struct SomebodyRuns;

#[derive(Debug, thiserror::Error)]
enum Idle {
    #[error("jobs live in {live:?}, and the active row is {active:?}")]
    NotLive { live: Vec<Row>, active: Option<Row> },
    #[error("row {0} was activated and was active already")]
    Again(Row),
}

impl Invariant for SomebodyRuns {
    fn name(&self) -> &'static str {
        "a live row is active whenever there is one"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let live = step.after.live_rows();
        let active = step.after.active;
        if active.is_none() != live.is_empty() || active.is_some_and(|row| !live.contains(&row)) {
            return Err(Idle::NotLive { live: live.into_iter().collect(), active }.into());
        }
        let survives = |row: &Row| {
            step.before
                .running
                .iter()
                .any(|(job, running)| running.row == *row && step.after.running.contains_key(job))
        };
        for action in step.actions {
            if let Action::Activate { row } = action
                && step.before.active == Some(*row)
                && survives(row)
            {
                return Err(Idle::Again(*row).into());
            }
        }
        Ok(())
    }
}
