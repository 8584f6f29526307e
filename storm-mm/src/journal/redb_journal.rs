//! The journal in redb: one table from sequence number to event, one transaction per group of
//! events.
//!
//! redb was chosen because it is crash-safe by construction (copy-on-write, checksummed), pure
//! Rust, and one file (`docs/decisions/0004-journal.md`). A separate thread writes, so that no
//! fsync delays a strobe. Groups that arrive while it writes share the next transaction, which also
//! removes entries that are no longer needed ([`Retention`]).

use super::latest::Latest;
use super::mark::Mark;
use super::retention::Retention;
use super::{Entry, Journal};
use crate::job::JobEventKind;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use storm_rm::{Environment, JobSpec, RecentEnvironments};
use thiserror::Error;
use tokio::sync::oneshot;

/// The form of the encoded entries. It changes with every change of a type in them, since postcard
/// does not describe itself.
pub(super) const FORM: &str = "events-7";

/// Sequence number to checksum and encoded entry.
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new(FORM);

/// Bytes of an entry's checksum, which reveals a damaged entry, but not a forged one.
const CHECKSUM_BYTES: usize = 8;

/// The store's cache. The file is read only once, at the start, so 8 MiB do; redb's default is 1
/// GiB.
const CACHE_BYTES: usize = 8 << 20;

/// The file is compacted at the start if it exceeds twice its entries by more than this number.
const MAX_SLACK_BYTES: u64 = 4 << 20;

/// Groups that may wait for the writer; beyond it, the manager waits.
const WAITING_GROUPS: usize = 1024;

/// Why the journal failed.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The store cannot be opened or written.
    #[error("its database failed")]
    Store(#[source] Box<redb::Error>),
    /// The file cannot be opened or made.
    #[error("the journal's file cannot be opened")]
    File(#[source] io::Error),
    /// Another process has it open.
    #[error("another Machine Manager uses it")]
    InUse(PathBuf),
    /// An event cannot be encoded.
    #[error("an event cannot be encoded")]
    Encoding(#[source] postcard::Error),
    /// Bytes of the file are not those that were written.
    #[error("the journal is damaged: {what}")]
    Damaged {
        /// The sign of the damage.
        what: String,
    },
    /// Another version of storm wrote the entries.
    #[error(
        "another version of storm wrote it: its entries have the form {found:?}, and this version \
         reads {FORM:?} only"
    )]
    Form {
        /// The form of its entries.
        found: String,
    },
    /// An event cannot be decoded.
    #[error("entry {sequence} of the journal is not of this version")]
    Entry {
        /// Which.
        sequence: u64,
        /// The decoder's error.
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
    entries: Vec<(Mark, Vec<u8>)>,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// A journal on disk.
#[derive(Debug)]
pub struct RedbJournal {
    groups: crossbeam_channel::Sender<Group>,
    writer: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

impl RedbJournal {
    /// Opens or creates the journal, repairs a half-written transaction of a crash, and reads the
    /// entries. Keeps the ended jobs that a manager with room for `retained` of them remembers.
    ///
    /// # Errors
    /// A [`JournalError`] when the file is not a journal of this version, is held by another
    /// process, is damaged, or cannot be read.
    pub fn open(path: &Path, retained: usize) -> Result<(RedbJournal, Vec<Entry>), JournalError> {
        let is_new = !path.exists();
        // The store may panic over bytes that it never wrote.
        let opened = catch_unwind(AssertUnwindSafe(|| open_checked(path, retained)));
        let (database, entries, retention) = opened.unwrap_or_else(|_| {
            Err(JournalError::Damaged { what: "the store cannot read it".to_owned() })
        })?;
        let next = retention.next_sequence();
        let (mut latest, noted) = Latest::open(path);
        if let Some(missing) = noted.and_then(|noted| noted.checked_sub(next)).filter(|by| *by > 0)
        {
            let what = match is_new {
                true => "this journal is new and the former one is gone, with all jobs in it",
                false => {
                    "the latest events of the journal are lost: its file is damaged, or an older one"
                }
            };
            tracing::warn!(path = %path.display(), missing, "{what}");
        }
        latest.note(next);
        let (groups, waiting) = crossbeam_channel::bounded(WAITING_GROUPS);
        let commits = Arc::new(AtomicU64::new(0));
        let mut writer = Writer { database, retention, next, latest, commits: commits.clone() };
        let writer = std::thread::Builder::new()
            .name("storm-journal".to_owned())
            .spawn(move || writer.write_groups(&waiting))
            .map_err(JournalError::Thread)?;
        Ok((RedbJournal { groups, writer: Some(writer), commits }, entries))
    }

    /// Transactions committed since it was opened.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

impl Journal for RedbJournal {
    async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        let (done, outcome) = oneshot::channel();
        let encoded = |entry: &Entry| {
            let bytes = postcard::to_stdvec(entry).map_err(JournalError::Encoding)?;
            Ok((Mark::from(entry), bytes))
        };
        let entries = entries.iter().map(encoded).collect::<Result<_, JournalError>>()?;
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
            // A writer that panicked has printed so on standard error.
            let _ = writer.join();
        }
    }
}

/// Opens or makes the file, for its owner only: a job's environment is in it.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

fn open_checked(
    path: &Path,
    retained: usize,
) -> Result<(Database, Vec<Entry>, Retention), JournalError> {
    let is_new = !path.exists();
    let file = open_private(path).map_err(JournalError::File)?;
    if !is_new && file.metadata().map_err(JournalError::File)?.len() == 0 {
        tracing::warn!(path = %path.display(), "the journal is empty: it starts anew");
    }
    let mut database = store(path).create_file(file).map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => JournalError::InUse(path.to_owned()),
        error => store_error(error.into()),
    })?;
    if !database.check_integrity().map_err(|error| store_error(error.into()))? {
        tracing::error!(path = %path.display(), "the journal was damaged, and is repaired");
    }
    refuse_other_forms(&database)?;
    let create = database.begin_write()?;
    create.open_table(EVENTS)?;
    create.commit()?;
    let (mut entries, entry_bytes) = read_all(&database)?;
    let mut retention = Retention::new(retained);
    entries.iter().for_each(|(sequence, entry)| retention.note(*sequence, entry.into()));
    let unneeded = tidy(&database, &mut retention)?;
    entries.retain(|(sequence, _)| !unneeded.contains(sequence));
    let file_bytes = std::fs::metadata(path).map_or(0, |found| found.len());
    if !unneeded.is_empty() || file_bytes > MAX_SLACK_BYTES + 2 * entry_bytes {
        // Gives the room back. If compacting fails, the file can be used as it is.
        if let Err(error) = database.compact() {
            tracing::warn!(%error, "the journal's file cannot be made smaller");
        }
    }
    Ok((database, entries.into_iter().map(|(_, entry)| entry).collect(), retention))
}

/// Removes unneeded entries, and unneeded environments from other entries. Returns the removed
/// entries.
fn tidy(database: &Database, retention: &mut Retention) -> Result<BTreeSet<u64>, JournalError> {
    let unneeded = retention.take_unneeded();
    if !unneeded.is_empty() || retention.is_renewal_due() {
        let removal = database.begin_write()?;
        remove(&removal, &unneeded)?;
        leave_environments_out(&removal, &retention.take_idle_environments())?;
        removal.commit()?;
    }
    Ok(unneeded.into_iter().collect())
}

/// The store, which logs when it undoes the latest transaction. After a crash it undoes a
/// half-written transaction that was never acknowledged. The store cannot distinguish damage of the
/// file from a crash, but then the undone transaction may have been acknowledged.
fn store(path: &Path) -> redb::Builder {
    /// The progress that redb's repair reports once it has found the transaction not whole, and
    /// only then.
    const UNDOING: std::ops::Range<f64> = 0.2..0.5;
    let path = path.to_owned();
    let mut store = Database::builder();
    store.set_cache_size(CACHE_BYTES);
    store.set_repair_callback(move |repair| {
        if UNDOING.contains(&repair.progress()) {
            tracing::warn!(
                path = %path.display(),
                "the latest transaction of the journal is not whole and is undone: a crash left it \
                 half written, or the file was damaged, and the latest events are lost"
            );
        }
    });
    store
}

/// Distinguishes errors of the store that mean damage from other errors.
fn store_error(error: redb::Error) -> JournalError {
    match error {
        redb::Error::Corrupted(what) => JournalError::Damaged { what },
        error => JournalError::Store(Box::new(error)),
    }
}

/// Fails if the store has entries in another form, which an earlier or a later version wrote.
fn refuse_other_forms(database: &Database) -> Result<(), JournalError> {
    let read = database.begin_read()?;
    let other = read.list_tables()?.find(|table| table.name() != EVENTS.name());
    match other {
        Some(table) => Err(JournalError::Form { found: table.name().to_owned() }),
        None => Ok(()),
    }
}

/// All entries with their numbers, and their total length in the file.
fn read_all(database: &Database) -> Result<(Vec<(u64, Entry)>, u64), JournalError> {
    let read = database.begin_read()?;
    let table = read.open_table(EVENTS)?;
    let (mut entries, mut entry_bytes) = (Vec::new(), 0);
    // Environments are shared while reading: ten thousand jobs of one shell each store all of it.
    let mut environments = RecentEnvironments::default();
    for row in table.iter()? {
        let (sequence, bytes) = row?;
        let sequence = sequence.value();
        entry_bytes += bytes.value().len() as u64;
        let mut entry = decode(sequence, bytes.value())?;
        if let Some(spec) = specification(&mut entry) {
            spec.step.env = environments.shared(&spec.step.env);
        }
        entries.push((sequence, entry));
    }
    Ok((entries, entry_bytes))
}

/// The specification of a job, in the entry of its submission.
fn specification(entry: &mut Entry) -> Option<&mut JobSpec> {
    let Entry::Job(_, event) = entry else { return None };
    match &mut event.kind {
        JobEventKind::Submitted { spec, .. } | JobEventKind::ArraySubmitted { spec, .. } => {
            Some(Rc::make_mut(spec))
        }
        _ => None,
    }
}

/// Decodes a stored entry.
pub(super) fn decode(sequence: u64, sealed: &[u8]) -> Result<Entry, JournalError> {
    let bytes = checked(sequence, sealed)?;
    postcard::from_bytes::<Entry>(bytes).map_err(|source| JournalError::Entry { sequence, source })
}

/// The stored form of an entry: a checksum over its number and its bytes, and its bytes.
pub(super) fn seal(sequence: u64, encoded: &[u8]) -> Vec<u8> {
    let mut sealed = checksum(sequence, encoded).to_vec();
    sealed.extend_from_slice(encoded);
    sealed
}

fn checked(sequence: u64, sealed: &[u8]) -> Result<&[u8], JournalError> {
    unseal(sequence, sealed).ok_or_else(|| JournalError::Damaged {
        what: format!("the checksum of entry {sequence} is wrong"),
    })
}

/// The bytes of a stored entry, unless they are damaged.
pub(super) fn unseal(sequence: u64, sealed: &[u8]) -> Option<&[u8]> {
    let (sum, encoded) = sealed.split_first_chunk::<CHECKSUM_BYTES>()?;
    (*sum == checksum(sequence, encoded)).then_some(encoded)
}

fn checksum(sequence: u64, encoded: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&sequence.to_le_bytes()).update(encoded);
    let mut sum = [0; CHECKSUM_BYTES];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

fn remove(transaction: &redb::WriteTransaction, unneeded: &[u64]) -> Result<(), JournalError> {
    let mut table = transaction.open_table(EVENTS)?;
    for sequence in unneeded {
        table.remove(sequence)?;
    }
    Ok(())
}

/// Writes those of these entries that still exist anew, without the environment.
fn leave_environments_out(
    transaction: &redb::WriteTransaction,
    ended: &[u64],
) -> Result<(), JournalError> {
    let mut table = transaction.open_table(EVENTS)?;
    for &sequence in ended {
        let Some(entry) = table.get(sequence)?.map(|sealed| decode(sequence, sealed.value()))
        else {
            continue;
        };
        let mut entry = entry?;
        if let Some(spec) = specification(&mut entry) {
            spec.step.env = Environment::default();
            let encoded = postcard::to_stdvec(&entry).map_err(JournalError::Encoding)?;
            table.insert(sequence, seal(sequence, &encoded).as_slice())?;
        }
    }
    Ok(())
}

/// The thread that writes.
struct Writer {
    database: Database,
    retention: Retention,
    next: u64,
    latest: Latest,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Takes all groups that wait and writes them in one transaction, until all senders are
    /// dropped.
    fn write_groups(&mut self, waiting: &crossbeam_channel::Receiver<Group>) {
        while let Ok(first) = waiting.recv() {
            let mut groups = vec![first];
            groups.extend(waiting.try_iter());
            match self.write(groups.iter().flat_map(|group| &group.entries)) {
                Ok(()) => {
                    self.commits.fetch_add(1, Ordering::Relaxed);
                    for group in groups {
                        // The manager may be ending, and not listen any more.
                        let _ = group.done.send(Ok(()));
                    }
                }
                Err(error) => {
                    let why: &(dyn std::error::Error + 'static) = &error;
                    tracing::error!(
                        error = why,
                        "the journal cannot be written; the manager stops"
                    );
                    let first = std::iter::once(error);
                    let others = std::iter::repeat_with(|| JournalError::WriterGone);
                    for (group, error) in groups.into_iter().zip(first.chain(others)) {
                        let _ = group.done.send(Err(error));
                    }
                    return;
                }
            }
        }
    }

    fn write<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a (Mark, Vec<u8>)>,
    ) -> Result<(), JournalError> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(EVENTS)?;
            for (mark, encoded) in entries {
                table.insert(self.next, seal(self.next, encoded).as_slice())?;
                self.retention.note(self.next, *mark);
                self.next += 1;
            }
        }
        if self.retention.is_due() {
            remove(&transaction, &self.retention.take_unneeded())?;
        }
        if self.retention.is_renewal_due() {
            leave_environments_out(&transaction, &self.retention.take_idle_environments())?;
        }
        transaction.commit()?;
        self.latest.note(self.next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two managers of different versions would otherwise each see an empty journal.
    #[test]
    fn a_journal_of_another_form_is_refused_and_left_as_it_is() {
        const OTHER: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events-2");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let database = Database::create(&path).expect("a database");
        let write = database.begin_write().expect("writable");
        let entry: &[u8] = b"an entry";
        write.open_table(OTHER).expect("a table").insert(0, entry).expect("inserted");
        write.commit().expect("committed");
        drop(database);
        for _ in 0..2 {
            let refused = RedbJournal::open(&path, 10).expect_err("another form");
            assert_eq!(
                refused.to_string(),
                "another version of storm wrote it: its entries have the form \"events-2\", and \
                 this version reads \"events-7\" only"
            );
        }
        let read = Database::open(&path).expect("a database").begin_read().expect("readable");
        let kept = read.open_table(OTHER).expect("a table").get(0).expect("readable");
        assert_eq!(kept.expect("it is kept").value(), entry);
        assert!(read.open_table(EVENTS).is_err(), "nothing was written");
    }
}
