//! A journal in memory: lost with the process.

use super::{Entry, Journal, JournalError};
use std::cell::RefCell;
use std::rc::Rc;

/// A journal in memory. Clones share the entries, so that a test can restart a manager on the
/// entries of the manager before.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    entries: Rc<RefCell<Vec<Entry>>>,
}

impl MemoryJournal {
    /// All entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.borrow().clone()
    }
}

impl Journal for MemoryJournal {
    async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        self.entries.borrow_mut().extend(entries);
        Ok(())
    }
}
