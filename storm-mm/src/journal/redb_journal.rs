//! The journal in redb: one table from sequence number to event, one
//! transaction per group of events.
//!
//! redb was chosen because it is crash-safe by construction (copy-on-write,
//! checksummed), pure Rust, and one file (`docs/decisions/0004-journal.md`). A
//! thread of its own does the writing, so that no fsync delays a strobe; what
//! arrives while it writes goes into the next transaction together.

use super::{Entry, Journal};
use crate::job::JobEvent;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use storm_rm::JobId;
use thiserror::Error;
use tokio::sync::oneshot;

/// Sequence number to encoded (job, event).
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");

/// Requests that may wait for the writer; the manager is throttled beyond.
const WAITING_GROUPS: usize = 1024;

/// Why the journal failed.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The store cannot be opened or written.
    #[error("the journal cannot be used")]
    Store(#[source] Box<redb::Error>),
    /// The file cannot be opened or made.
    #[error("the journal's file cannot be opened")]
    File(#[source] io::Error),
    /// Another process has it open.
    #[error("the journal {} is in use: another Machine Manager runs on it", .0.display())]
    InUse(PathBuf),
    /// An event cannot be encoded.
    #[error("an event cannot be encoded")]
    Encoding(#[source] postcard::Error),
    /// An event cannot be decoded.
    #[error("entry {sequence} of the journal is not of this version")]
    Entry {
        /// Which.
        sequence: u64,
        /// What the decoder says.
        #[source]
        source: postcard::Error,
    },
    /// The writer has ended.
    #[error("the journal's writer has ended")]
    WriterGone,
    /// The writer's thread cannot be started.
    #[error("the journal's writer cannot be started")]
    Thread(#[source] io::Error),
}

impl<E: Into<redb::Error>> From<E> for JournalError {
    fn from(error: E) -> JournalError {
        JournalError::Store(Box::new(error.into()))
    }
}

/// Encoded entries that become durable together.
struct Group {
    entries: Vec<Vec<u8>>,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// A journal on disk.
#[derive(Debug)]
pub struct RedbJournal {
    groups: crossbeam_channel::Sender<Group>,
    writer: Option<JoinHandle<()>>,
}

impl RedbJournal {
    /// Opens or creates the journal and reads what it holds.
    ///
    /// # Errors
    /// [`JournalError`] when the file is not a journal of this version, is held
    /// by another process, or cannot be read.
    pub fn open(path: &Path) -> Result<(RedbJournal, Vec<Entry>), JournalError> {
        let file = open_private(path).map_err(JournalError::File)?;
        let database = Database::builder().create_file(file).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => JournalError::InUse(path.to_owned()),
            error => error.into(),
        })?;
        let create = database.begin_write()?;
        create.open_table(EVENTS)?;
        create.commit()?;
        let entries = read_all(&database)?;
        let next = entries.last().map_or(0, |(sequence, _)| sequence + 1);
        let (groups, waiting) = crossbeam_channel::bounded(WAITING_GROUPS);
        let writer = std::thread::Builder::new()
            .name("storm-journal".to_owned())
            .spawn(move || write_groups(&database, &waiting, next))
            .map_err(JournalError::Thread)?;
        let journal = RedbJournal { groups, writer: Some(writer) };
        Ok((journal, entries.into_iter().map(|(_, entry)| entry).collect()))
    }
}

impl Journal for RedbJournal {
    async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        let (done, outcome) = oneshot::channel();
        let entries =
            entries.iter().map(encode).collect::<Result<_, _>>().map_err(JournalError::Encoding)?;
        self.groups.send(Group { entries, done }).map_err(|_| JournalError::WriterGone)?;
        outcome.await.map_err(|_| JournalError::WriterGone)?
    }
}

impl Drop for RedbJournal {
    /// Waits until everything is written.
    fn drop(&mut self) {
        let (closed, _) = crossbeam_channel::bounded(0);
        drop(std::mem::replace(&mut self.groups, closed));
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so on standard error.
            let _ = writer.join();
        }
    }
}

/// Opens or makes the file, for its owner only: a job's environment is in it.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

fn read_all(database: &Database) -> Result<Vec<(u64, Entry)>, JournalError> {
    let read = database.begin_read()?;
    let table = read.open_table(EVENTS)?;
    let mut entries = Vec::new();
    for row in table.iter()? {
        let (sequence, bytes) = row?;
        let sequence = sequence.value();
        let entry: (JobId, JobEvent) = postcard::from_bytes(bytes.value())
            .map_err(|source| JournalError::Entry { sequence, source })?;
        entries.push((sequence, entry));
    }
    Ok(entries)
}

fn encode(entry: &Entry) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_stdvec(entry)
}

/// The writer: takes all groups that wait, writes them in one transaction.
fn write_groups(database: &Database, waiting: &crossbeam_channel::Receiver<Group>, mut next: u64) {
    while let Ok(first) = waiting.recv() {
        let mut groups = vec![first];
        groups.extend(waiting.try_iter());
        let entries = groups.iter().flat_map(|group| &group.entries);
        match write(database, entries, next) {
            Ok(after) => {
                next = after;
                for group in groups {
                    // The manager may be ending and not listen any more.
                    let _ = group.done.send(Ok(()));
                }
            }
            Err(error) => {
                tracing::error!(%error, "the journal cannot be written; the manager stops");
                for group in groups {
                    let _ = group.done.send(Err(JournalError::WriterGone));
                }
                return;
            }
        }
    }
}

fn write<'a>(
    database: &Database,
    entries: impl Iterator<Item = &'a Vec<u8>>,
    mut next: u64,
) -> Result<u64, JournalError> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(EVENTS)?;
        for entry in entries {
            table.insert(next, entry.as_slice())?;
            next += 1;
        }
    }
    transaction.commit()?;
    Ok(next)
}
