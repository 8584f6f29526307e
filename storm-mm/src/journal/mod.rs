//! The journal: every job event, in order, durable before it counts.
//!
//! [`Journal`] is the interface that the driver uses. [`RedbJournal`] keeps the entries in an
//! embedded store on disk, [`MemoryJournal`] in memory for tests and simulation.

mod former;
#[cfg(fuzzing)]
pub mod fuzzing;
mod latest;
mod mark;
mod memory;
mod redb_journal;
#[cfg(test)]
mod remembered;
#[cfg(test)]
mod renewal;
mod retention;
#[cfg(test)]
mod warnings;

pub use memory::MemoryJournal;
pub use redb_journal::{JournalError, RedbJournal};

use crate::job::JobEvent;
use std::future::Future;
use storm_rm::JobId;

/// One entry of the journal.
pub type Entry = (JobId, JobEvent);

/// Appends job events durably.
pub trait Journal {
    /// Appends entries, all or none; they are durable when the future completes.
    ///
    /// # Errors
    /// A [`JournalError`]: the manager must not go on as if the entries were durable.
    fn append(&self, entries: Vec<Entry>) -> impl Future<Output = Result<(), JournalError>>;
}
