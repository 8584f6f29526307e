//! The worked example of gang scheduling on 8 PEs (A3 of the policy
//! reference): packing, rotation, alternative scheduling, unification, compaction.

use storm_sched::policies::Gang;
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, Policy, PolicyParams, Row, SchedTime,
};

fn eight_pes() -> Gang {
    Gang::new(Machine::uniform(8, 1).unwrap(), &PolicyParams::default())
}

fn handle(gang: &mut Gang, event: Event) -> Vec<Action> {
    let actions = gang.handle(SchedTime::ZERO, event);
    gang.check().unwrap();
    actions
}

/// Submits a job and returns its row and columns, which it must get at once.
fn submit(gang: &mut Gang, job: u64, procs: u32) -> (u32, Vec<u32>) {
    let actions = handle(gang, Event::Submit(JobRequest::new(JobId(job), procs)));
    match actions.first() {
        Some(Action::Start { job: started, placement, row }) => {
            assert_eq!(*started, JobId(job));
            (row.0, placement.pes().iter().map(|pe| pe.0).collect())
        }
        other => panic!("job {job} did not start: {other:?}"),
    }
}

/// The columns that each job holds, by row.
fn matrix(gang: &Gang) -> String {
    let mut lines = Vec::new();
    for row in gang.rows() {
        let guests: Vec<String> = row.guests.iter().map(|job| format!("+J{job}")).collect();
        let held = |job: &storm_sched::JobView| {
            let ranges = job.columns.ranges().iter();
            let ranges: Vec<_> = ranges.map(|r| format!("{}-{}", r.start, r.end - 1)).collect();
            format!("J{}[{}]", job.job, ranges.join(","))
        };
        let jobs: Vec<String> = row.jobs.iter().map(held).chain(guests).collect();
        lines.push(format!("r{}: {}", row.number, jobs.join(" ")));
    }
    lines.join("; ")
}

#[test]
fn the_worked_example_packs_as_published() {
    let mut gang = eight_pes();
    assert_eq!(submit(&mut gang, 1, 4), (0, vec![0, 1, 2, 3]));
    assert_eq!(submit(&mut gang, 2, 3), (0, vec![4, 5, 6]));
    assert_eq!(submit(&mut gang, 3, 8), (1, (0..8).collect()));
    assert_eq!(submit(&mut gang, 4, 2), (2, vec![0, 1]));
    assert_eq!(submit(&mut gang, 5, 2), (2, vec![2, 3]));
    assert_eq!(submit(&mut gang, 6, 1), (2, vec![4]));
    assert_eq!(matrix(&gang), "r0: J1[0-3] J2[4-7]; r1: J3[0-7]; r2: J4[0-1] J5[2-3] J6[4-4]");

    // Columns 0-3 of the active row idle: jobs 4 and 5 run there too.
    let actions = handle(&mut gang, Event::Finished(JobId(1)));
    assert_eq!(actions, [set_rows(4, 2, &[0]), set_rows(5, 2, &[0])]);
    let guests = "r0: J2[4-7] +J4 +J5; r1: J3[0-7]; r2: J4[0-1] J5[2-3] J6[4-4]";
    assert_eq!(matrix(&gang), guests);
    // A new job of that row sends the guests away.
    let actions = handle(&mut gang, Event::Submit(JobRequest::new(JobId(7), 4)));
    assert!(matches!(&actions[0], Action::Start { row: Row(0), placement, .. }
        if placement.pes().iter().map(|pe| pe.0).eq(0..4)));
    assert_eq!(actions[1..], [set_rows(4, 2, &[]), set_rows(5, 2, &[])]);

    handle(&mut gang, Event::Finished(JobId(3)));
    assert_eq!(matrix(&gang), "r0: J2[4-7] J7[0-3]; r2: J4[0-1] J5[2-3] J6[4-4]");

    // No unification: both rows hold columns 0-3.
    let actions = handle(&mut gang, Event::Finished(JobId(2)));
    assert_eq!(actions, [set_rows(6, 2, &[0])]);
    assert_eq!(matrix(&gang), "r0: J7[0-3] +J6; r2: J4[0-1] J5[2-3] J6[4-4]");
    assert!(gang.next_edge_needed());

    // Row 0 is active and loses its last job: row 2 runs at once.
    assert_eq!(gang.active_row(), Some(Row(0)));
    let actions = handle(&mut gang, Event::Finished(JobId(7)));
    assert_eq!(actions, [set_rows(6, 2, &[]), Action::Activate { row: Row(2) }]);
    assert_eq!(matrix(&gang), "r2: J4[0-1] J5[2-3] J6[4-4]");
    assert!(!gang.next_edge_needed(), "with one row strobes stop switching");
    assert_eq!(handle(&mut gang, Event::SliceEdge), []);
}

fn set_rows(job: u64, home: u32, alternates: &[u32]) -> Action {
    let alternates = alternates.iter().copied().map(Row).collect();
    Action::SetRows { job: JobId(job), home: Row(home), alternates }
}

#[test]
fn rows_with_disjoint_columns_merge_into_the_one_that_runs_sooner() {
    let mut gang = eight_pes();
    for (job, procs) in [(1, 4), (2, 4), (3, 8), (4, 4), (5, 4), (6, 4)] {
        submit(&mut gang, job, procs);
    }
    assert_eq!(handle(&mut gang, Event::SliceEdge), [Action::Activate { row: Row(1) }]);
    let full = "r0: J1[0-3] J2[4-7]; r1: J3[0-7]; r2: J4[0-3] J5[4-7]; r3: J6[0-3]";
    assert_eq!(matrix(&gang), full);
    // Row 2 comes before row 3, and row 3 before row 0.
    let actions = handle(&mut gang, Event::Finished(JobId(4)));
    assert_eq!(actions, [set_rows(6, 2, &[])]);
    assert_eq!(matrix(&gang), "r0: J1[0-3] J2[4-7]; r1: J3[0-7]; r2: J5[4-7] J6[0-3]");
    handle(&mut gang, Event::Finished(JobId(2)));
    let actions = handle(&mut gang, Event::Finished(JobId(6)));
    assert_eq!(actions, [set_rows(1, 2, &[])]);
    assert_eq!(matrix(&gang), "r1: J3[0-7]; r2: J1[0-3] J5[4-7]");
    assert_eq!(handle(&mut gang, Event::SliceEdge), [Action::Activate { row: Row(2) }]);
}

#[test]
fn jobs_that_want_the_same_idle_columns_take_turns() {
    let mut gang = eight_pes();
    // A job on all columns, and jobs on 0-3 and on 4-7 in rows of their own.
    for (job, procs) in [(1, 8), (2, 8), (3, 8), (4, 4)] {
        submit(&mut gang, job, procs);
    }
    for job in [5, 6, 7] {
        submit(&mut gang, job, 4);
    }
    let rows = "r0: J1[0-7]; r1: J2[0-7]; r2: J3[0-7]; r3: J4[0-3] J5[4-7]; r4: J6[0-3] J7[4-7]";
    assert_eq!(matrix(&gang), rows);
    // Columns 0-3 of row 3 become idle, and only job 6 can use them. Then job 8 comes, and with it
    // a second row of small jobs.
    handle(&mut gang, Event::Finished(JobId(4)));
    for job in [8, 9, 10] {
        submit(&mut gang, job, 4);
    }
    let rows = "r3: J5[4-7] J8[0-3]; r4: J6[0-3] J7[4-7]; r5: J9[0-3] J10[4-7]";
    assert!(matrix(&gang).ends_with(rows), "{}", matrix(&gang));
    handle(&mut gang, Event::Finished(JobId(8)));
    let mut hosted = Vec::new();
    for _ in 0..4 * 6 {
        handle(&mut gang, Event::SliceEdge);
        if gang.active_row() == Some(Row(3)) {
            let rows = gang.rows();
            let row = rows.iter().find(|row| row.number == Row(3)).unwrap();
            hosted.push(row.guests[0].0);
            assert_eq!(row.guests.len(), 1);
        }
    }
    assert_eq!(hosted, [6, 9, 6, 9], "one turn after the other");
}

#[test]
fn rows_run_in_cyclic_order_and_a_deleted_one_is_passed_over() {
    let mut gang = eight_pes();
    for job in 1..=4 {
        submit(&mut gang, job, 8);
    }
    let edge = |gang: &mut Gang| handle(gang, Event::SliceEdge);
    let activate = |row| [Action::Activate { row: Row(row) }];
    assert_eq!(gang.active_row(), Some(Row(0)));
    assert_eq!(edge(&mut gang), activate(1));
    assert_eq!(handle(&mut gang, Event::Finished(JobId(3))), [], "row 2 was not running");
    assert_eq!(edge(&mut gang), activate(3), "row 2 is gone, row 3 is not passed");
    assert_eq!(edge(&mut gang), activate(0));
    assert_eq!(handle(&mut gang, Event::Finished(JobId(1))), activate(1));
    assert_eq!(edge(&mut gang), activate(3));
}

#[test]
fn the_rows_of_the_next_slices_are_known_once_the_guests_are_settled() {
    let mut gang = eight_pes();
    assert_eq!(gang.upcoming(3), [], "nobody runs");
    for job in 1..=3 {
        submit(&mut gang, job, 8);
    }
    // Each row is looked at once.
    for _ in 0..3 {
        handle(&mut gang, Event::SliceEdge);
    }
    let upcoming = gang.upcoming(7);
    let passed = (0..7).map(|_| match handle(&mut gang, Event::SliceEdge)[..] {
        [Action::Activate { row }] => row,
        ref other => panic!("{other:?}"),
    });
    assert_eq!(passed.collect::<Vec<_>>(), upcoming);
    // A row with room for guests is not settled before its turn.
    handle(&mut gang, Event::Finished(JobId(2)));
    submit(&mut gang, 4, 4);
    assert_eq!(gang.upcoming(7), []);
}
