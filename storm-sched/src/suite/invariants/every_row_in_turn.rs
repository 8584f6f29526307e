//! No row starves. A live row runs within as many slices as there are rows (A3: each row is
//! activated within rows * Q). Slices are cut as long as there is more than one row.
//!
//! Rows that open while a row waits run after it. The limit is therefore the most rows since the
//! row ran last.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, Event, Row};

/// Every row runs in its turn.
#[derive(Debug, Default)]
pub struct EveryRowInTurn {
    waits: BTreeMap<Row, Wait>,
}

/// How long a row has not run.
#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    edges: usize,
    most_rows: usize,
}

#[derive(Debug, thiserror::Error)]
enum Starved {
    #[error("row {row} has not run for {edges} slices, and there were {most_rows} rows at most")]
    Waited { row: Row, edges: usize, most_rows: usize },
    #[error("{rows} rows are live, and the policy needs no slices")]
    NoSlices { rows: usize },
}

impl Invariant for EveryRowInTurn {
    fn name(&self) -> &'static str {
        "every row runs in its turn"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let live = step.after.live_rows();
        let rows = live.len();
        if rows > 1 && !step.policy.next_edge_needed() {
            return Err(Starved::NoSlices { rows }.into());
        }
        // A row that lost its last job and got another at once counts as a new row.
        let stays = |row: &Row| {
            let mut before = step.before.running.iter();
            before.any(|(job, running)| {
                let after = step.after.running.get(job);
                running.row == *row && after.is_some_and(|after| after.row == *row)
            })
        };
        self.waits.retain(|row, _| stays(row));
        // Repacked rows are new rows.
        if step.actions.iter().any(|action| matches!(action, Action::Migrate { .. })) {
            self.waits.clear();
        }
        let edge = usize::from(*step.event == Event::SliceEdge);
        for row in live {
            let wait = self.waits.entry(row).or_default();
            if step.after.active == Some(row) {
                *wait = Wait::default();
            }
            wait.most_rows = wait.most_rows.max(rows);
            if step.after.active != Some(row) {
                wait.edges += edge;
            }
            let Wait { edges, most_rows } = *wait;
            // After slice s, the row runs again in slice s + rows at the latest: rows - 1 edges
            // pass it by.
            if edges >= most_rows {
                return Err(Starved::Waited { row, edges, most_rows }.into());
            }
        }
        Ok(())
    }
}
