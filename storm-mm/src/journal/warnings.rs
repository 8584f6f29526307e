//! A journal that has lost events must report the loss in the log.

use super::{Entry, Journal, RedbJournal};
use crate::api::JobState;
use crate::job::{EndCause, JobEvent, JobEventKind, Outcome};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use storm_rm::JobId;

/// The part of the file where redb keeps its two latest transactions, and which of them counts.
const HEADER_BYTES: usize = 320;
/// Bits that give the transaction that counts, and whether the store was closed.
const GOD_BYTE_BITS: std::ops::Range<usize> = 72..80;
const ENTRIES: u64 = 5;
/// The warning that the file with the latest number causes.
const LOST: &str = "the latest events of the journal are lost";

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The number of events found, `None` if the journal is refused; and the log.
fn opened(path: &Path) -> (Option<usize>, String) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let found = tracing::subscriber::with_default(subscriber.finish(), || {
        RedbJournal::open(path, 10).ok().map(|(_, entries)| entries.len())
    });
    let said = log.0.lock().expect("nobody panics").clone();
    (found, String::from_utf8(said).expect("text"))
}

/// Writes a journal of [`ENTRIES`] events, each in a transaction of its own. Returns the file as a
/// kill leaves it, before and after the last event.
fn write(path: &Path) -> [Vec<u8>; 2] {
    let (journal, _) = RedbJournal::open(path, 10).expect("opens");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let append = |number| {
        let cause = EndCause::StagingFailed { reason: "a test".to_owned() };
        let at = jiff::Timestamp::UNIX_EPOCH;
        let event = JobEvent { at, kind: JobEventKind::Ending { cause } };
        runtime.block_on(journal.append(vec![Entry::Job(JobId(number), event)])).expect("appended");
        fs::read(path).expect("it is there")
    };
    let before = (0..ENTRIES - 1).map(append).last().expect("there are some");
    [before, append(ENTRIES - 1)]
}

#[test]
fn a_whole_journal_is_not_warned_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    assert_eq!(opened(&path), (Some(0), String::new()));
    write(&path);
    for _ in 0..2 {
        assert_eq!(opened(&path), (Some(5), String::new()));
    }
}

#[test]
fn an_ended_job_that_is_removed_is_not_warned_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    let (journal, _) = RedbJournal::open(&path, 10).expect("opens");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for number in 0..100 {
        let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
        let (exits, ran) = (Vec::new(), std::time::Duration::ZERO);
        let kind = JobEventKind::Ended { outcome, exits, ran };
        let event = JobEvent { at: jiff::Timestamp::UNIX_EPOCH, kind };
        runtime.block_on(journal.append(vec![Entry::Job(JobId(number), event)])).expect("appended");
    }
    drop(journal);
    for _ in 0..2 {
        assert_eq!(opened(&path), (Some(10), String::new()));
    }
}

#[test]
fn a_journal_that_was_emptied_is_warned_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    write(&path);
    fs::write(&path, "").expect("written");
    let (found, said) = opened(&path);
    assert_eq!(found, Some(0));
    assert!(said.contains("WARN") && said.contains("the journal is empty"), "{said}");
    assert!(said.contains(LOST), "{said}");
    assert_eq!(opened(&path), (Some(0), String::new()), "it is said once");
}

#[test]
fn a_journal_that_was_moved_away_is_not_called_damaged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    write(&path);
    fs::rename(&path, directory.path().join("elsewhere")).expect("moved");
    let (found, said) = opened(&path);
    assert_eq!(found, Some(0));
    assert!(said.contains("WARN") && said.contains("the former one is gone"), "{said}");
    assert!(!said.contains(LOST), "{said}");
    assert_eq!(opened(&path), (Some(0), String::new()), "it is said once");
}

#[test]
fn a_journal_that_lost_its_latest_transaction_is_warned_of_wherever_its_header_is_damaged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    let [_, whole] = write(&path);
    let noted = fs::read(directory.path().join("journal.next")).expect("it is there");
    let mut lost = 0;
    // One bit of each fourth byte.
    let bits = (0..HEADER_BYTES).step_by(4).map(|byte| byte * 8 + byte / 4 % 8);
    for bit in bits.chain(GOD_BYTE_BITS) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).expect("written");
        fs::write(directory.path().join("journal.next"), &noted).expect("written");
        let (found, said) = opened(&path);
        if found.is_some_and(|found| (found as u64) < ENTRIES) {
            assert!(said.contains("WARN") && said.contains(LOST), "{bit}: {said}");
            lost += 1;
        }
    }
    assert!(lost > 0, "no damage was noticed, and none went unnoticed");
}

/// The header belongs to the latest transaction, whose pages are missing.
#[test]
fn a_journal_whose_latest_transaction_is_undone_is_warned_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    let [mut half, whole] = write(&path);
    assert_eq!(half.len(), whole.len());
    half[..HEADER_BYTES].copy_from_slice(&whole[..HEADER_BYTES]);
    fs::write(&path, half).expect("written");
    let (found, said) = opened(&path);
    assert_eq!(found, Some(ENTRIES as usize - 1));
    assert!(said.contains("WARN") && said.contains("is not whole and is undone"), "{said}");
    assert!(said.contains(LOST), "{said}");
    assert_eq!(opened(&path), (found, String::new()), "it is said once");
}
