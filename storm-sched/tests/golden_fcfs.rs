//! First come, first served against start times computed by other programs
//! (`golden/micro*.swf`, outside this repository; `STORM_SHARED` says where).
//!
//! The driver keeps the order of the policy reference (A2a): at one time all
//! submissions come first, then the ends.

use std::collections::BTreeMap;

use storm_sched::policies::Fcfs;
use storm_sched::{Action, Event, JobId, JobRequest, Machine, Policy, SchedTime};

/// A job of a log, times in seconds.
struct LogJob {
    id: JobId,
    submit_s: u64,
    run_s: u64,
    procs: u32,
}

/// A log with the number of PEs of its machine.
struct Log {
    pes: u32,
    jobs: Vec<LogJob>,
}

/// The text of a golden file, or `None`, loudly, when it is not there.
fn golden(name: &str) -> Option<String> {
    storm_reference::read(&format!("golden/{name}"))
}

fn parse(text: &str) -> Log {
    let mut log = Log { pes: 0, jobs: Vec::new() };
    for line in text.lines() {
        if let Some(pes) = line.strip_prefix("; MaxProcs:") {
            log.pes = pes.trim().parse().unwrap();
            continue;
        }
        let fields: Vec<i64> =
            line.split_whitespace().map(|field| field.parse().unwrap()).collect();
        if let [id, submit, _wait, run, allocated, ..] = fields[..] {
            log.jobs.push(LogJob {
                id: JobId(id as u64),
                submit_s: submit as u64,
                run_s: run as u64,
                procs: allocated as u32,
            });
        }
    }
    log
}

/// When each job starts, in seconds.
fn starts(log: &Log) -> Vec<u64> {
    let mut policy = Fcfs::new(Machine::uniform(log.pes, 1).unwrap());
    let mut run_s = BTreeMap::new();
    // Ordered by time, then submissions before ends, then order of arrival.
    let mut events: BTreeMap<(u64, bool, usize), Event> = BTreeMap::new();
    for (arrival, job) in log.jobs.iter().enumerate() {
        run_s.insert(job.id, job.run_s);
        let request = JobRequest::new(job.id, job.procs);
        events.insert((job.submit_s, false, arrival), Event::Submit(request));
    }
    let mut started: BTreeMap<JobId, u64> = BTreeMap::new();
    while let Some(((now_s, ..), event)) = events.pop_first() {
        for action in policy.handle(SchedTime::from_secs(now_s), event) {
            if let Action::Start { job, .. } = action {
                let end = (now_s + run_s[&job], true, started.len());
                events.insert(end, Event::Finished(job));
                started.insert(job, now_s);
            }
        }
        policy.check().unwrap();
    }
    started.into_values().collect()
}

/// The start times after a heading such as `== micro1 fcfs`.
fn expected(text: &str, heading: &str) -> Vec<u64> {
    let mut lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let line = lines.next().expect("the heading has a line below it");
    line.split_whitespace()
        .filter_map(|word| word.strip_prefix("start="))
        .map(|start| start.parse().unwrap())
        .collect()
}

#[test]
fn micro3_starts_as_in_the_reference() {
    let Some(log) = golden("micro3.swf") else { return };
    assert_eq!(starts(&parse(&log)), [0, 6, 16, 44, 66, 66, 66, 84]);
}

#[test]
fn micro1_and_micro2_start_as_in_the_reference() {
    let Some(table) = golden("micro_expected.txt") else { return };
    for name in ["micro1", "micro2"] {
        let Some(log) = golden(&format!("{name}.swf")) else { return };
        let expected = expected(&table, &format!("== {name} fcfs"));
        assert!(!expected.is_empty());
        assert_eq!(starts(&parse(&log)), expected, "{name}");
    }
}
