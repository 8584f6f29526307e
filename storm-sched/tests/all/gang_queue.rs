//! The queue behind the matrix when jobs may pass the first one. The jobs that pass are worked out
//! by hand.

use std::time::Duration;

use storm_sched::policies::Gang;
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, MatrixQueue, MplLimit, Packing, Policy,
    PolicyParams, Quantum, Row, SchedTime,
};

/// Gang scheduling on 8 PEs with slices of a second.
fn gang(rows: u32, queue: MatrixQueue) -> Gang {
    let params = PolicyParams {
        mpl_limit: MplLimit::try_from(rows).unwrap(),
        quantum_us: Quantum::try_from(Duration::from_secs(1)).unwrap(),
        packing: Packing::FirstFit,
        queue,
        ..PolicyParams::default()
    };
    Gang::new(Machine::uniform(8, 1).unwrap(), &params)
}

fn request(job: u64, procs: u32, limit_s: Option<u64>) -> JobRequest {
    let request = JobRequest::new(JobId(job), procs);
    limit_s.into_iter().fold(request, |job, limit| job.with_time_limit(Duration::from_secs(limit)))
}

/// Submits a job at a time. Returns the jobs that started, with their rows.
fn submit(gang: &mut Gang, at_s: u64, request: JobRequest) -> Vec<(u64, u32)> {
    let actions = gang.handle(SchedTime::from_secs(at_s), Event::Submit(request));
    gang.check().unwrap();
    let start = |action: &Action| match action {
        Action::Start { job, row: Row(row), .. } => Some((job.0, *row)),
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}

#[test]
fn with_one_row_backfilling_equals_easy() {
    let mut gang = gang(1, MatrixQueue::Easy);
    assert_eq!(submit(&mut gang, 0, request(1, 4, Some(100))), [(1, 0)]);
    // The first job of the queue starts at 101 s at the latest and needs all PEs.
    assert_eq!(submit(&mut gang, 0, request(2, 8, Some(10))), []);
    assert_eq!(submit(&mut gang, 10, request(3, 2, Some(91))), [], "ends at 102 s");
    assert_eq!(submit(&mut gang, 10, request(4, 2, Some(90))), [(4, 0)], "ends at 101 s");
    assert_eq!(submit(&mut gang, 10, request(5, 2, None)), [], "nobody knows when it ends");
    assert_eq!(gang.pending(), [2, 3, 5].map(JobId));
}

#[test]
fn simultaneous_events_are_decided_once_and_in_order() {
    let (mut gang, now) = (gang(2, MatrixQueue::Fcfs), SchedTime::ZERO);
    let jobs = (1..=5).map(|job| Event::Submit(request(job, 4, None)));
    let actions = gang.handle_together(now, jobs.collect());
    gang.check().unwrap();
    let started = |action: &Action| matches!(action, Action::Start { .. });
    assert_eq!(actions.iter().filter(|action| started(action)).count(), 4);
    let activated = |action: &&Action| matches!(action, Action::Activate { .. });
    assert_eq!(actions.iter().filter(activated).count(), 1);
    let gone = [Event::Finished(JobId(1)), Event::Cancel(JobId(9)), Event::Finished(JobId(3))];
    let actions = gang.handle_together(now, gone.to_vec());
    gang.check().unwrap();
    assert!(matches!(actions[0], Action::Refused(_)), "{actions:?}");
    assert_eq!(actions.iter().filter(|action| started(action)).count(), 1);
    assert!(gang.pending().is_empty());
}

#[test]
fn without_backfilling_no_job_passes() {
    let mut gang = gang(1, MatrixQueue::Fcfs);
    submit(&mut gang, 0, request(1, 4, Some(100)));
    submit(&mut gang, 0, request(2, 8, Some(10)));
    assert_eq!(submit(&mut gang, 0, request(3, 1, Some(1))), []);
}

#[test]
fn the_shadow_is_in_the_row_that_has_room_first() {
    let mut gang = gang(2, MatrixQueue::Easy);
    // Row 0 has room for no job before 2 * 101 s, and row 1 for 7 PEs at 2 * 51 s.
    assert_eq!(submit(&mut gang, 0, request(1, 6, Some(100))), [(1, 0)]);
    assert_eq!(submit(&mut gang, 0, request(2, 5, Some(50))), [(2, 1)]);
    assert_eq!(submit(&mut gang, 0, request(3, 7, Some(10))), []);
    assert_eq!(submit(&mut gang, 0, request(4, 2, Some(9_999))), [(4, 0)], "another row");
    assert_eq!(submit(&mut gang, 0, request(5, 1, Some(9_999))), [(5, 1)], "one PE to spare");
    assert_eq!(submit(&mut gang, 0, request(6, 1, Some(51))), [], "no longer, and too long");
    assert_eq!(submit(&mut gang, 0, request(7, 1, Some(50))), [(7, 1)], "ends in time");
}

#[test]
fn time_that_a_job_has_run_brings_the_shadow_nearer_and_time_stopped_does_not() {
    // Both rows are full but for one PE, and the first job of the queue needs all PEs.
    let waiting = || {
        let mut gang = gang(2, MatrixQueue::Easy);
        submit(&mut gang, 0, request(1, 7, Some(100)));
        submit(&mut gang, 0, request(2, 7, Some(900)));
        submit(&mut gang, 0, request(3, 8, Some(10)));
        gang
    };
    // Row 0 has run for 40 s: job 1 has ended by 60 s + 2 * 61 s.
    let mut ran = waiting();
    ran.handle(SchedTime::from_secs(40), Event::SliceEdge);
    submit(&mut ran, 60, request(4, 1, Some(9_999)));
    assert_eq!(submit(&mut ran, 60, request(5, 1, Some(61))), [], "row 1 is taken by now");
    assert_eq!(submit(&mut ran, 60, request(6, 1, Some(60))), [(6, 0)]);
    // Row 0 has run for 20 s, and row 1 for another 40 s: by 60 s + 2 * 81 s.
    let mut stopped = waiting();
    stopped.handle(SchedTime::from_secs(20), Event::SliceEdge);
    submit(&mut stopped, 60, request(4, 1, Some(9_999)));
    assert_eq!(submit(&mut stopped, 60, request(5, 1, Some(81))), []);
    assert_eq!(submit(&mut stopped, 60, request(6, 1, Some(80))), [(6, 0)]);
}

#[test]
fn behind_a_job_that_names_its_nodes_only_those_that_end_in_time_pass() {
    let mut gang = gang(2, MatrixQueue::Easy);
    submit(&mut gang, 0, request(1, 8, Some(100)));
    submit(&mut gang, 0, request(2, 5, Some(50)));
    assert_eq!(submit(&mut gang, 0, request(3, 6, Some(10)).with_nodes(6)), []);
    assert_eq!(submit(&mut gang, 0, request(4, 1, Some(51))), []);
    assert_eq!(submit(&mut gang, 0, request(5, 1, Some(50))), [(5, 1)]);
}
