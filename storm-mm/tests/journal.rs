//! The journal on disk: what was acknowledged is there after a reopening and after
//! a kill, in order; nobody else may open it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use storm_mm::job::{EndCause, JobEvent, JobEventKind};
use storm_mm::journal::{Entry, Journal, JournalError, RedbJournal};
use storm_rm::JobId;

/// Tells the writing process where the journal is.
const PATH_VARIABLE: &str = "STORM_TEST_JOURNAL";
/// Acknowledgements after which the writer is killed.
const ACKNOWLEDGED: u64 = 40;

fn entry(number: u64) -> Entry {
    let at = jiff::Timestamp::from_second(number as i64).unwrap();
    let cause = EndCause::StagingFailed { reason: format!("entry {number}") };
    (JobId(number), JobEvent { at, kind: JobEventKind::Ending { cause } })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn reopen(path: &Path) -> Vec<Entry> {
    RedbJournal::open(path).unwrap().1
}

#[test]
fn a_new_journal_is_empty_and_a_reopened_one_has_everything_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, before) = RedbJournal::open(&path).unwrap();
    assert_eq!(before, []);
    block_on(journal.append((0..3).map(entry).collect())).unwrap();
    block_on(journal.append(Vec::new())).unwrap();
    drop(journal);
    let (journal, before) = RedbJournal::open(&path).unwrap();
    assert_eq!(before, (0..3).map(entry).collect::<Vec<_>>());
    block_on(journal.append((3..5).map(entry).collect())).unwrap();
    drop(journal);
    assert_eq!(reopen(&path), (0..5).map(entry).collect::<Vec<_>>());
}

#[test]
fn appends_that_wait_together_are_written_in_the_order_in_which_they_were_issued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, _) = RedbJournal::open(&path).unwrap();
    let appends = (0..200).map(|number| journal.append(vec![entry(number)]));
    let done = block_on(futures_util::future::join_all(appends));
    assert!(done.iter().all(Result::is_ok));
    drop(journal);
    assert_eq!(reopen(&path), (0..200).map(entry).collect::<Vec<_>>());
}

#[test]
fn a_second_manager_is_refused_and_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, _) = RedbJournal::open(&path).unwrap();
    let error = RedbJournal::open(&path).unwrap_err();
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
    assert!(matches!(RedbJournal::open(&path), Err(JournalError::Store(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter to a friend");
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
    let (journal, _) = RedbJournal::open(path).unwrap();
    for number in 0.. {
        block_on(journal.append(vec![entry(number)])).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nacknowledged {number}").unwrap();
        out.flush().unwrap();
    }
}
