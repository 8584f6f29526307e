//! The live rows, and the order in which they run: in turn, with a new row last.
//!
//! Slot numbers do not determine the order. A new row gets the lowest free number, but must not run
//! before the rows that already wait. Otherwise the wait of a row would have no bound.

use std::collections::BTreeMap;

use crate::Slot;

/// A place in the order: the larger, the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64);

/// The live rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowOrder {
    turns: BTreeMap<Turn, Slot>,
    slots: BTreeMap<Slot, Turn>,
    given: u64,
}

impl RowOrder {
    /// The number of live rows.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.slots.contains_key(&slot)
    }

    /// The rows by number.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.keys().copied()
    }

    /// The rows in the order in which they run.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = Slot> + '_ {
        self.turns.values().copied()
    }

    /// The row that runs next.
    pub(crate) fn next(&self) -> Option<Slot> {
        self.in_turn().next()
    }

    /// Makes a row live, if it is not already.
    pub(crate) fn insert(&mut self, slot: Slot) {
        if !self.contains(slot) {
            self.put_last(slot);
        }
    }

    /// Deletes a row.
    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(turn) = self.slots.remove(&slot) {
            self.turns.remove(&turn);
        }
    }

    /// Puts a row last, after its turn.
    pub(crate) fn put_last(&mut self, slot: Slot) {
        self.remove(slot);
        let turn = Turn(self.given);
        self.given += 1;
        self.turns.insert(turn, slot);
        self.slots.insert(slot, turn);
    }

    /// Makes these rows the live ones. Rows that were live keep their turns, and the others come
    /// last.
    pub(crate) fn replace(&mut self, slots: impl Iterator<Item = Slot>) {
        let slots: Vec<Slot> = slots.collect();
        let gone: Vec<Slot> = self.slots().filter(|slot| !slots.contains(slot)).collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
        slots.into_iter().for_each(|slot| self.insert(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_row_runs_after_the_waiting_rows_for_any_number() {
        let mut order = RowOrder::default();
        order.insert(Slot(0));
        order.insert(Slot(2));
        order.put_last(Slot(0));
        order.insert(Slot(1));
        assert!(order.in_turn().eq([Slot(2), Slot(0), Slot(1)]));
        assert!(order.slots().eq([Slot(0), Slot(1), Slot(2)]));
        order.replace([Slot(3), Slot(1)].into_iter());
        assert!(order.in_turn().eq([Slot(1), Slot(3)]));
    }
}
