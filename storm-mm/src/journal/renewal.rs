//! The journal drops the environments of ended jobs, and keeps those of others.

use super::{Entry, Journal, RedbJournal};
use crate::api::JobState;
use crate::job::{JobEvent, JobEventKind, Outcome};
use std::path::Path;
use std::rc::Rc;
use storm_rm::{Environment, JobId};

const ENVIRONMENT_BYTES: usize = 64 << 10;
const JOBS: u64 = 200;
const RETAINED: usize = 1_000;
/// The job that has not ended.
const ALIVE: JobId = JobId(7);

fn entry(job: JobId, kind: JobEventKind) -> Entry {
    Entry::Job(job, JobEvent { at: jiff::Timestamp::UNIX_EPOCH, kind })
}

fn submitted(job: JobId) -> Entry {
    let mut spec = crate::manager::model_spec();
    spec.name = format!("job {job}");
    let value = "x".repeat(ENVIRONMENT_BYTES) + &spec.name;
    spec.step.env = Environment::default().with("LONG", &value);
    let partition = "main".to_owned();
    let (spec, service) = (Rc::new(spec), Rc::default());
    entry(job, JobEventKind::Submitted { spec, partition, service })
}

fn ended(job: JobId) -> Entry {
    let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
    let ran = std::time::Duration::ZERO;
    entry(job, JobEventKind::Ended { outcome, exits: Vec::new(), ran })
}

fn open(path: &Path) -> (RedbJournal, Vec<Entry>) {
    RedbJournal::open(path, RETAINED).expect("a journal of ours opens")
}

#[test]
fn a_file_does_not_grow_with_environments_of_ended_jobs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    let (journal, _) = open(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for job in (1..=JOBS).map(JobId) {
        runtime.block_on(journal.append(vec![submitted(job)])).expect("appended");
    }
    for job in (1..=JOBS).map(JobId).filter(|job| *job != ALIVE) {
        runtime.block_on(journal.append(vec![ended(job)])).expect("appended");
    }
    drop(journal);
    for _ in 0..2 {
        let (journal, entries) = open(&path);
        let mut bytes = 0;
        let submissions = entries.iter().filter_map(Entry::of_job);
        let submissions = submissions.filter_map(|(job, event)| match &event.kind {
            JobEventKind::Submitted { spec, .. } => Some((job, spec)),
            _ => None,
        });
        for (job, spec) in submissions {
            assert_eq!(spec.name, format!("job {job}"));
            bytes += spec.step.env.text_bytes();
            assert!(job != ALIVE || spec.step.env.text_bytes() > ENVIRONMENT_BYTES, "it goes on");
        }
        assert_eq!(entries.len() as u64, 2 * JOBS - 1);
        // Up to a mebibyte of environments waits before it is dropped.
        assert!(bytes < (1 << 20) + 2 * ENVIRONMENT_BYTES, "{bytes}");
        drop(journal);
    }
    // The room of the environments, written while all jobs were alive, is given back.
    let file_bytes = std::fs::metadata(&path).expect("it is there").len();
    assert!(file_bytes < JOBS * ENVIRONMENT_BYTES as u64 / 2, "{file_bytes}");
}
