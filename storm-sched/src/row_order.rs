//! The live rows, and the order in which they run: in turn, with a new row last.
//!
//! Row numbers do not determine the order. A new row gets the lowest free number, but must not run
//! before the rows that already wait. Otherwise the wait of a row would have no bound.

use std::collections::BTreeMap;

use crate::Row;

/// A place in the order: the larger, the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64);

/// The live rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowOrder {
    turns: BTreeMap<Turn, Row>,
    rows: BTreeMap<Row, Turn>,
    given: u64,
}

impl RowOrder {
    /// The number of live rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn contains(&self, row: Row) -> bool {
        self.rows.contains_key(&row)
    }

    /// The rows by number.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.keys().copied()
    }

    /// The rows in the order in which they run.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = Row> + '_ {
        self.turns.values().copied()
    }

    /// The row that runs next.
    pub(crate) fn next(&self) -> Option<Row> {
        self.in_turn().next()
    }

    /// Makes a row live, if it is not already.
    pub(crate) fn insert(&mut self, row: Row) {
        if !self.contains(row) {
            self.put_last(row);
        }
    }

    /// Deletes a row.
    pub(crate) fn remove(&mut self, row: Row) {
        if let Some(turn) = self.rows.remove(&row) {
            self.turns.remove(&turn);
        }
    }

    /// Puts a row last, after its turn.
    pub(crate) fn put_last(&mut self, row: Row) {
        self.remove(row);
        let turn = Turn(self.given);
        self.given += 1;
        self.turns.insert(turn, row);
        self.rows.insert(row, turn);
    }

    /// Makes these rows the live ones. Rows that were live keep their turns, and the others come
    /// last.
    pub(crate) fn replace(&mut self, rows: impl Iterator<Item = Row>) {
        let rows: Vec<Row> = rows.collect();
        let gone: Vec<Row> = self.rows().filter(|row| !rows.contains(row)).collect();
        gone.into_iter().for_each(|row| self.remove(row));
        rows.into_iter().for_each(|row| self.insert(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_row_runs_after_the_waiting_rows_for_any_number() {
        let mut order = RowOrder::default();
        order.insert(Row(0));
        order.insert(Row(2));
        order.put_last(Row(0));
        order.insert(Row(1));
        assert!(order.in_turn().eq([Row(2), Row(0), Row(1)]));
        assert!(order.rows().eq([Row(0), Row(1), Row(2)]));
        order.replace([Row(3), Row(1)].into_iter());
        assert!(order.in_turn().eq([Row(1), Row(3)]));
    }
}
