//! The journal on disk: acknowledged entries are there, in order, after a reopening and after a
//! kill. No other process may open it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use storm_mm::api::JobState;
use storm_mm::job::{EndCause, JobEvent, JobEventKind, Outcome};
use storm_mm::journal::{Entry, Journal, JournalError, RedbJournal};
use storm_rm::JobId;

/// Gives the writing process the path of the journal.
const PATH_VARIABLE: &str = "STORM_TEST_JOURNAL";
/// Ended jobs that the journal keeps.
const RETAINED: usize = 10;
/// Acknowledgements after which the writer is killed.
const ACKNOWLEDGED: u64 = 40;

fn entry(number: u64) -> Entry {
    let at = jiff::Timestamp::from_second(number as i64).unwrap();
    let cause = EndCause::StagingFailed { reason: format!("entry {number}") };
    Entry::Job(JobId(number), JobEvent { at, kind: JobEventKind::Ending { cause } })
}

fn ended(number: u64) -> Entry {
    let Entry::Job(job, mut event) = entry(number) else { unreachable!("it is of a job") };
    let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
    event.kind = JobEventKind::Ended { outcome, exits: Vec::new(), ran: std::time::Duration::ZERO };
    Entry::Job(job, event)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn reopen(path: &Path) -> Vec<Entry> {
    RedbJournal::open(path, RETAINED).unwrap().1
}

#[test]
fn a_new_journal_is_empty_and_a_reopened_one_has_everything_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, before) = RedbJournal::open(&path, RETAINED).unwrap();
    assert_eq!(before, []);
    block_on(journal.append((0..3).map(entry).collect())).unwrap();
    block_on(journal.append(Vec::new())).unwrap();
    drop(journal);
    let (journal, before) = RedbJournal::open(&path, RETAINED).unwrap();
    assert_eq!(before, (0..3).map(entry).collect::<Vec<_>>());
    block_on(journal.append((3..5).map(entry).collect())).unwrap();
    drop(journal);
    assert_eq!(reopen(&path), (0..5).map(entry).collect::<Vec<_>>());
}

#[test]
fn appends_that_wait_together_are_written_in_the_order_in_which_they_were_issued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, _) = RedbJournal::open(&path, RETAINED).unwrap();
    let appends = (0..200).map(|number| journal.append(vec![entry(number)]));
    let done = block_on(futures_util::future::join_all(appends));
    assert!(done.iter().all(Result::is_ok));
    assert!(journal.commits() < 200, "each was a commit of its own");
    drop(journal);
    assert_eq!(reopen(&path), (0..200).map(entry).collect::<Vec<_>>());
}

#[test]
fn a_second_manager_is_refused_and_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, _) = RedbJournal::open(&path, RETAINED).unwrap();
    let error = RedbJournal::open(&path, RETAINED).unwrap_err();
    assert!(matches!(error, JournalError::InUse(_)), "{error:?}");
    assert!(error.to_string().contains("another Machine Manager"), "{error}");
    drop(journal);
    assert_eq!(reopen(&path), []);
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(&path, b"a letter to a friend").unwrap();
    let refused = RedbJournal::open(&path, RETAINED).unwrap_err();
    assert!(
        matches!(refused, JournalError::Store(_) | JournalError::Damaged { .. }),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter to a friend");
}

/// Jobs in the tests of room and damage.
const JOBS: u64 = 700;

/// Writes the events of many jobs, all ended; a few jobs at a time.
fn write_lives(path: &Path) {
    let (journal, _) = RedbJournal::open(path, RETAINED).unwrap();
    for number in 0..JOBS {
        block_on(journal.append(vec![entry(number), entry(number), ended(number)])).unwrap();
    }
}

#[test]
fn old_ended_jobs_are_removed_and_the_file_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    write_lives(&path);
    let first = std::fs::metadata(&path).unwrap().len();
    let kept = reopen(&path);
    let jobs = RETAINED as u64;
    let expected = (JOBS - jobs..JOBS).flat_map(|n| [entry(n), entry(n), ended(n)]);
    assert_eq!(kept, expected.collect::<Vec<_>>());
    write_lives(&path);
    write_lives(&path);
    let third = std::fs::metadata(&path).unwrap().len();
    assert!(third < first * 2, "{first} bytes became {third}");
    // The numbering continues.
    let (journal, _) = RedbJournal::open(&path, RETAINED).unwrap();
    block_on(journal.append(vec![entry(JOBS)])).unwrap();
    drop(journal);
    assert_eq!(reopen(&path).last(), Some(&entry(JOBS)));
}

/// A damaged file is either refused with an error, or opened with a prefix of the acknowledged
/// entries and nothing else.
fn assert_sound_or_refused(path: &Path, written: &[Entry], what: &str) -> bool {
    match RedbJournal::open(path, usize::MAX) {
        Ok((_, found)) => {
            assert!(written.starts_with(&found), "{what}: {} strange entries", found.len());
            false
        }
        Err(JournalError::Damaged { .. } | JournalError::Store(_) | JournalError::File(_)) => true,
        Err(other) => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_file_that_was_cut_or_altered_is_repaired_or_refused_and_never_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let written: Vec<Entry> = (0..60).map(entry).collect();
    let (journal, _) = RedbJournal::open(&path, usize::MAX).unwrap();
    for chunk in written.chunks(6) {
        block_on(journal.append(chunk.to_vec())).unwrap();
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let damaged = dir.path().join("damaged");
    let mut refused = 0;
    for part in 0..40 {
        let length = whole.len() * part / 40;
        std::fs::write(&damaged, &whole[..length]).unwrap();
        // An empty file is a new journal.
        let cut = format!("cut to {length} of {} bytes", whole.len());
        refused += u32::from(assert_sound_or_refused(&damaged, &written, &cut));
    }
    for step in 0..200 {
        let (at, bit) = (whole.len() * step / 200 + step * 7 % 61, step % 8);
        let mut altered = whole.clone();
        altered[at] ^= 1 << bit;
        std::fs::write(&damaged, &altered).unwrap();
        let flipped = format!("bit {bit} of byte {at}");
        refused += u32::from(assert_sound_or_refused(&damaged, &written, &flipped));
    }
    assert!(refused > 0, "no damage was ever noticed");
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    const OWN_NAME: &str = "a_killed_writer_loses_nothing_that_was_acknowledged";
    if let Some(path) = std::env::var_os(PATH_VARIABLE) {
        return write_for_ever(Path::new(&path));
    }
    for round in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", OWN_NAME, "--nocapture"])
            .env(PATH_VARIABLE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let acknowledged = |line: std::io::Result<String>| {
            line.unwrap().strip_prefix("acknowledged ").map(|n| n.parse::<u64>().unwrap())
        };
        let enough = ACKNOWLEDGED + round * 7;
        assert!(lines.by_ref().filter_map(acknowledged).any(|number| number == enough));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let last = lines.filter_map(acknowledged).last().unwrap_or(enough);
        let found = reopen(&path);
        assert!(found.len() as u64 > last, "{} entries, {last} acknowledged", found.len());
        assert_eq!(found, (0..found.len() as u64).map(entry).collect::<Vec<_>>());
    }
}

/// The process that is killed.
fn write_for_ever(path: &Path) {
    let (journal, _) = RedbJournal::open(path, RETAINED).unwrap();
    for number in 0.. {
        block_on(journal.append(vec![entry(number)])).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nacknowledged {number}").unwrap();
        out.flush().unwrap();
    }
}
