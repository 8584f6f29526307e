//! The journal of a job that starts steps without end.

use super::Entry;
use super::mark::Mark;
use super::retention::Retention;
use crate::api::JobState;
use crate::job::{
    ENDED_STEPS, EndedStep, JobEvent, JobEventKind, JobRecord, Outcome, StepEvent, StepPlace,
    StepUse,
};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_rm::message::NodeRanks;
use storm_rm::{JobId, JobIncarnation, Rank, Row, StepAsk, StepSize};

const JOB: JobId = JobId(7);
const STEPS: u32 = 100_000;
/// Every so many steps, one lives longer than all that the record remembers.
const LONG: u32 = 1_201;
/// The entries that may wait for their removal.
const WAITING_MAX: usize = 512;

fn event(at: u32, kind: JobEventKind) -> Entry {
    let at = Timestamp::from_second(i64::from(at)).expect("a time");
    Entry::Job(JOB, JobEvent { at, kind })
}

fn of_step(at: u32, number: u32, event_of_it: StepEvent) -> Entry {
    event(at, JobEventKind::Step { number, event: event_of_it })
}

fn run_of(number: u32) -> JobIncarnation {
    JobIncarnation(u64::from(number) + 2)
}

fn began(number: u32) -> Entry {
    let mut spec = crate::manager::model_spec().step;
    spec.env = storm_rm::Environment::default();
    let ranks = vec![NodeRanks { node: storm_primitives::NodeId(1), first: Rank(0), count: 1 }];
    let (ask, size) = (StepAsk(u64::from(number)), StepSize::of_procs(1));
    let (run, spec) = (run_of(number), Rc::new(spec));
    of_step(number, number, StepEvent::Began { run, ask, size, spec, ranks })
}

fn ended(at: u32, number: u32) -> Entry {
    let time = Timestamp::from_second(i64::from(number)).expect("a time");
    let step = Box::new(EndedStep {
        ask: StepAsk(u64::from(number)),
        name: "a".to_owned(),
        procs: 1,
        place: StepPlace::default(),
        began: time,
        started: None,
        ended: time,
        outcome: Outcome { state: JobState::Completed, exit_code: 0, reason: None },
        exit: None,
        used: StepUse::default(),
    });
    of_step(at, number, StepEvent::Ended { next: at + 1, latest_run: run_of(at), step })
}

/// The entries of the job, in order.
fn history() -> Vec<Entry> {
    let partition = "main".to_owned();
    let (spec, service) = (Rc::new(crate::manager::model_spec()), Rc::default());
    let submitted = JobEventKind::Submitted { spec, partition, service };
    let (incarnation, ranks, row) = (JobIncarnation(1), Vec::new(), Row(0));
    let placed = JobEventKind::Placed { incarnation, ranks, row, node_list: String::new() };
    let mut entries = vec![event(0, submitted), event(0, placed)];
    let mut long = Vec::new();
    for number in 0..STEPS {
        entries.extend([began(number), of_step(number, number, StepEvent::Started)]);
        match number % LONG {
            0 => long.push(number),
            _ => entries.push(ended(number, number)),
        }
        if let Some(first) = long.first().filter(|first| **first + 3 * ENDED_STEPS < number) {
            entries.push(ended(number, *first));
            long.remove(0);
        }
    }
    entries
}

fn record<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> JobRecord {
    let mut entries = entries.into_iter().filter_map(Entry::of_job).map(|(_, event)| event);
    let mut first = JobRecord::from_first(JOB, entries.next().expect("a submission"));
    let mut record = first.pop().expect("one job");
    entries.for_each(|event| record.apply(event));
    record
}

#[test]
fn a_hundred_thousand_steps_leave_a_bounded_journal_that_says_the_same() {
    let entries = history();
    let mut retention = Retention::new(10);
    let mut kept: BTreeMap<u64, &Entry> = BTreeMap::new();
    let mut most = 0;
    for (sequence, entry) in (0..).zip(&entries) {
        kept.insert(sequence, entry);
        retention.note(sequence, Mark::from(entry));
        if retention.is_due() {
            let unneeded = retention.take_unneeded();
            unneeded.iter().for_each(|sequence| assert!(kept.remove(sequence).is_some()));
        }
        most = most.max(kept.len());
    }
    assert!(most < ENDED_STEPS as usize + WAITING_MAX, "{most} entries");
    let (all, left) = (record(&entries), record(kept.values().copied()));
    assert_eq!(all, left);
    let steps = left.steps.expect("it has steps");
    assert_eq!((steps.next(), steps.ended().count()), (STEPS, ENDED_STEPS as usize));
    assert!(steps.live().count() > 0, "a long one still runs");
}

/// Step 1,005 ended before step 5, whose end took its entry's place: the run of the former was the
/// highest there was.
#[test]
fn the_highest_run_outlives_the_entry_of_its_step() {
    let (early, late) = (5, 5 + ENDED_STEPS);
    let entries = [began(early), began(late), ended(late, late), ended(late, early)];
    let mut retention = Retention::new(10);
    (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
    let mut unneeded = retention.take_unneeded();
    unneeded.sort_unstable();
    assert_eq!(unneeded, [0, 1, 2]);
    let Entry::Job(_, JobEvent { kind, .. }) = &entries[3] else { panic!("an entry of a job") };
    let JobEventKind::Step { event: StepEvent::Ended { latest_run, next, .. }, .. } = kind else {
        panic!("the end of a step")
    };
    assert_eq!((*latest_run, *next), (run_of(late), late + 1));
}
