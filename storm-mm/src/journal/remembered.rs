//! A manager on a trimmed journal remembers the same as a manager on the whole journal.

use super::Entry;
use super::retention::Retention;
use crate::Core;
use crate::api::{HistoryQuery, JobFilter, JobState, Peer};
use crate::job::{EndCause, JobEvent, JobEventKind, Outcome};
use crate::manager::{model_config, model_spec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_primitives::Instant;
use storm_rm::{JobId, JobIncarnation, Row};

#[derive(Clone, Debug)]
enum Step {
    /// A job of a user, or an array with this many jobs.
    Submit(u32, u64),
    Place(usize),
    End(usize),
    Tidy,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u32, 0..5_u64).prop_map(|(user, tasks)| Step::Submit(user, tasks)),
        2 => (0..64_usize).prop_map(Step::Place),
        6 => (0..64_usize).prop_map(Step::End),
        1 => Just(Step::Tidy),
        1 => Just(Step::Reopen),
    ]
}

/// All entries, and the kept entries.
struct Journal {
    retained: usize,
    all: Vec<Entry>,
    kept: BTreeMap<u64, Entry>,
    retention: Retention,
    goes_on: Vec<JobId>,
    next_job: u64,
    next_run: u64,
}

impl Journal {
    fn new(retained: usize) -> Journal {
        let retention = Retention::new(retained);
        let (all, kept, goes_on) = Default::default();
        Journal { retained, all, kept, retention, goes_on, next_job: 1, next_run: 1 }
    }

    fn append(&mut self, job: JobId, kind: JobEventKind) {
        let entry = Entry::Job(job, JobEvent { at: jiff::Timestamp::UNIX_EPOCH, kind });
        let sequence = self.all.len() as u64;
        self.retention.note(sequence, (&entry).into());
        self.kept.insert(sequence, entry.clone());
        self.all.push(entry);
    }

    fn submit(&mut self, user: u32, tasks: u64) {
        let mut spec = model_spec();
        spec.owner.uid = user;
        let (first, partition) = (self.next_job, "all".to_owned());
        let service = Rc::default();
        if tasks == 0 {
            self.goes_on.push(JobId(first));
            let spec = Rc::new(spec);
            self.append(JobId(first), JobEventKind::Submitted { spec, partition, service });
        } else {
            spec.needs.array = Some(format!("1-{tasks}").parse().expect("an array"));
            self.goes_on.extend((first + 1..=first + tasks).map(JobId));
            let spec = Rc::new(spec);
            self.append(JobId(first), JobEventKind::ArraySubmitted { spec, partition, service });
        }
        self.next_job += 1 + tasks;
    }

    fn end(&mut self, pick: usize) {
        if self.goes_on.is_empty() {
            return;
        }
        let job = self.goes_on.swap_remove(pick % self.goes_on.len());
        let exit_code = (job.0 % 5) as u8;
        let outcome = Outcome { state: JobState::Failed, exit_code, reason: None };
        let ran = std::time::Duration::ZERO;
        self.append(job, JobEventKind::Ended { outcome, exits: Vec::new(), ran });
    }

    /// Places a job and requeues it: the run counts, and the job holds no elements.
    fn place(&mut self, pick: usize) {
        if self.goes_on.is_empty() {
            return;
        }
        let job = self.goes_on[pick % self.goes_on.len()];
        let incarnation = JobIncarnation(self.next_run);
        self.next_run += 1;
        let (ranks, row, node_list) = (Vec::new(), Row(0), String::new());
        self.append(job, JobEventKind::Placed { incarnation, ranks, row, node_list });
        self.append(job, JobEventKind::Requeued { cause: EndCause::Shutdown });
    }

    fn tidy(&mut self) {
        for sequence in self.retention.take_unneeded() {
            self.kept.remove(&sequence).expect("removed once");
        }
    }

    fn reopen(&mut self) {
        self.retention = Retention::new(self.retained);
        for (sequence, entry) in &self.kept {
            self.retention.note(*sequence, entry.into());
        }
        self.tidy();
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Submit(user, tasks) => self.submit(*user, *tasks),
            Step::Place(pick) => self.place(*pick),
            Step::End(pick) => self.end(*pick),
            Step::Tidy => self.tidy(),
            Step::Reopen => self.reopen(),
        }
    }
}

/// The listings of a manager on these entries, and the number that its next job gets.
fn shown(entries: Vec<Entry>, arrays: &[JobId], limit: usize) -> String {
    let now = Instant::ORIGIN;
    let mut core = Core::new(model_config(limit), entries, now).expect("it makes sense");
    let history = core.history(now, &HistoryQuery { limit: u32::MAX, ..HistoryQuery::default() });
    let all = core.list_jobs(now, &JobFilter { history: true, ..JobFilter::default() });
    let forgotten = core.forgotten_of(arrays);
    let next = core
        .submit(now, Peer { uid: 1, gid: 1, pid: 1, by_door: false }, model_spec())
        .expect("room");
    format!("{history:#?} {all:#?} {forgotten:#?} {next}")
}

#[test]
fn a_user_with_many_ended_jobs_loses_their_own() {
    let mut journal = Journal::new(3);
    for user in [7, 9, 9, 9, 9] {
        journal.submit(user, 0);
        journal.end(0);
    }
    journal.tidy();
    let kept: Vec<u64> =
        journal.kept.values().filter_map(Entry::of_job).map(|(job, _)| job.0).collect();
    assert_eq!(kept, [1, 1, 4, 4, 5, 5]);
}

proptest! {
    #[test]
    fn removed_entries_are_the_forgotten_ones(
        steps in prop::collection::vec(step(), 0..200), retained in 1..12_usize,
    ) {
        let mut journal = Journal::new(retained);
        steps.iter().for_each(|step| journal.take(step));
        journal.reopen();
        let ids: Vec<JobId> = (1..journal.next_job).map(JobId).collect();
        let kept: Vec<Entry> = journal.kept.into_values().collect();
        prop_assert_eq!(shown(kept, &ids, retained), shown(journal.all, &ids, retained));
    }
}
