//! The journal: every event of a job or of the cluster, in order, durable before it counts.
//!
//! [`Journal`] is the interface that the driver uses. [`RedbJournal`] keeps the entries in an
//! embedded store on disk, [`MemoryJournal`] in memory for tests and simulation.

#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(test)]
mod golden;
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
mod steps;
#[cfg(test)]
mod warnings;

pub use memory::MemoryJournal;
pub use redb_journal::{JournalError, RedbJournal};

use crate::cluster::ClusterEvent;
use crate::job::JobEvent;
use serde::{Deserialize, Serialize};
use std::future::Future;
use storm_rm::JobId;

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// An event of one job. The submission of an array has the number of the array.
    Job(JobId, JobEvent),
    /// An event of the cluster.
    Cluster(ClusterEvent),
}

impl Entry {
    /// The job and its event, unless the entry is of the cluster.
    pub fn of_job(&self) -> Option<(JobId, &JobEvent)> {
        match self {
            Entry::Job(job, event) => Some((*job, event)),
            Entry::Cluster(_) => None,
        }
    }
}

/// Appends events durably.
pub trait Journal {
    /// Appends entries, all or none; they are durable when the future completes.
    ///
    /// # Errors
    /// A [`JournalError`]: the manager must not continue as if the entries were durable.
    fn append(&self, entries: Vec<Entry>) -> impl Future<Output = Result<(), JournalError>>;
}
