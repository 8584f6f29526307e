//! The turns of rows under buffered coscheduling. A row whose ranks all wait on this node gives its
//! processing elements here to another row that has work (SC'03; `storm_bcs::Turns` is the same
//! rule in the model). No switch happens in the middle of a slice.

use super::{Action, NodeCore};
use crate::JobKey;
use std::collections::BTreeSet;
use storm_rm::{Row, RowSet};

impl NodeCore {
    /// Gives rows their turns at the beginning of a slice of communication. `waiting` are the jobs
    /// whose ranks here all wait. The row of the last strobe has precedence. A row that runs in its
    /// place continues until it waits too.
    pub(super) fn take_turns(&mut self, waiting: &BTreeSet<JobKey>, actions: &mut Vec<Action>) {
        for partition in self.active.partitions() {
            let live: Vec<(RowSet, bool)> = self
                .jobs
                .iter()
                .filter(|(_, job)| job.is_live() && job.partition == partition)
                .map(|(key, job)| (job.rows, waiting.contains(key)))
                .collect();
            if self.active.take_turn(partition, |row, instead| choose(&live, row, instead)) {
                self.reschedule(Some(partition), None, actions);
            }
        }
    }
}

/// The row that runs in place of `row`. `None` while `row` has work, or no row has.
fn choose(live: &[(RowSet, bool)], row: Row, instead: Option<Row>) -> Option<Row> {
    let busy = |row: Row| live.iter().any(|(rows, waits)| !waits && rows.contains(row));
    // Without waiting jobs there is nothing to give away. A row that is empty here counts as
    // waiting.
    if live.iter().all(|(_, waits)| !waits) && instead.is_none() || busy(row) {
        return None;
    }
    let after = (row.0 + 1..RowSet::MAX_ROWS).chain(0..row.0).map(Row);
    instead.filter(|row| busy(*row)).or_else(|| after.into_iter().find(|row| busy(*row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(row: u32, waits: bool) -> (RowSet, bool) {
        (RowSet::single(Row(row)), waits)
    }

    #[test]
    fn a_row_yields_while_it_waits_and_has_its_turn_back_when_it_does_not() {
        let row = Row(1);
        assert_eq!(choose(&[job(1, false), job(0, false)], row, None), None);
        assert_eq!(choose(&[job(1, true), job(0, false)], row, None), Some(Row(0)));
        assert_eq!(choose(&[job(1, true), job(0, true)], row, None), None);
        assert_eq!(choose(&[job(1, true), job(1, false), job(2, false)], row, None), None);
        assert_eq!(choose(&[job(1, false), job(0, false)], row, Some(Row(0))), None);
    }

    #[test]
    fn a_replacing_row_goes_on_until_it_waits() {
        let three = [job(0, true), job(1, false), job(2, false)];
        assert_eq!(choose(&three, Row(0), None), Some(Row(1)));
        assert_eq!(choose(&three, Row(0), Some(Row(2))), Some(Row(2)));
        let two_waits = [job(0, true), job(1, false), job(2, true)];
        assert_eq!(choose(&two_waits, Row(0), Some(Row(2))), Some(Row(1)));
        assert_eq!(choose(&[job(0, true), job(1, true)], Row(0), Some(Row(1))), None);
    }
}
