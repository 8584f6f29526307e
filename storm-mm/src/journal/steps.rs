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
const STEPS_REMEMBERED: u32 = ENDED_STEPS as u32;
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
        if let Some(first) = long.first().filter(|first| **first + 3 * STEPS_REMEMBERED < number) {
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
    assert!(most < ENDED_STEPS + WAITING_MAX, "{most} entries");
    let (all, left) = (record(&entries), record(kept.values().copied()));
    assert_eq!(all, left);
    let steps = left.steps.expect("it has steps");
    assert_eq!((steps.next(), steps.ended().count()), (STEPS, ENDED_STEPS));
    assert!(steps.live().count() > 0, "a long one still runs");
}

/// The highest run is that of a step that is forgotten: the ends of later ones tell of it.
#[test]
fn the_highest_run_outlives_the_entry_of_its_step() {
    let late = 2 * STEPS_REMEMBERED;
    let mut entries = vec![began(late), ended(late, late)];
    for number in 0..STEPS_REMEMBERED {
        entries.extend([began(number), ended(late + 71, number)]);
    }
    let mut retention = Retention::new(10);
    (0..).zip(&entries).for_each(|(sequence, entry)| retention.note(sequence, entry.into()));
    let unneeded = retention.take_unneeded();
    assert!(unneeded.contains(&1) && unneeded.len() == 2 + ENDED_STEPS, "{unneeded:?}");
    let Entry::Job(_, JobEvent { kind, .. }) = &entries[3] else { panic!("an entry of a job") };
    let JobEventKind::Step { event: StepEvent::Ended { latest_run, next, .. }, .. } = kind else {
        panic!("the end of a step")
    };
    assert!(*latest_run >= run_of(late) && *next > late);
}

/// Regression: the end of a long step took the place of another that had ended a moment before. Its
/// command, whose connection had broken, asked for it again, and it ran twice.
#[test]
fn steps_that_ended_a_moment_ago_are_known_by_their_asks() {
    let is_known = |entries: &[Entry], number: u32| {
        let steps = record(entries).steps.expect("it has steps");
        steps.asked_by(StepAsk(u64::from(number))) == Some(number)
    };
    let mut entries: Vec<Entry> = history().into_iter().take(2).collect();
    entries.extend([began(5), began(1_005), ended(1_005, 1_005), ended(1_005, 5)]);
    assert!(is_known(&entries, 5) && is_known(&entries, 1_005));
    for number in 2_000..2_000 + 5 * STEPS_REMEMBERED {
        entries.extend([began(number), ended(1_005 + 70, number)]);
    }
    assert!(is_known(&entries, 1_005), "70 s are not over");
    assert!(is_known(&entries, 2_000));
    entries.extend([began(9_000), ended(1_005 + 71, 9_000)]);
    assert!(!is_known(&entries, 1_005) && is_known(&entries, 2_000));
    assert!(is_known(&entries, 9_000));
}
