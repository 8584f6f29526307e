//! A journal in memory: lost with the process.

use super::{Entry, Journal, JournalError};
use std::cell::RefCell;
use std::rc::Rc;

/// Entries in memory. Clones share them, so that a test can restart a manager
/// on what the former one wrote.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    entries: Rc<RefCell<Vec<Entry>>>,
}

impl MemoryJournal {
    /// Everything appended so far.
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
