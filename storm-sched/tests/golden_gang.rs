//! The worked example of gang scheduling on 8 PEs (A3 of the policy
//! reference), as far as it concerns packing and rotation.

use storm_sched::policies::Gang;
use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, Policy, PolicyParams, SchedTime, Slot,
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
        Some(Action::Start { job: started, placement, slot }) => {
            assert_eq!(*started, JobId(job));
            (slot.0, placement.pes().iter().map(|pe| pe.0).collect())
        }
        other => panic!("job {job} did not start: {other:?}"),
    }
}

/// The columns that each job holds, by row.
fn matrix(gang: &Gang) -> String {
    let mut lines = Vec::new();
    for row in gang.rows() {
        let held = |job: &storm_sched::JobView| {
            let ranges = job.columns.ranges().iter();
            let ranges: Vec<_> = ranges.map(|r| format!("{}-{}", r.start, r.end - 1)).collect();
            format!("J{}[{}]", job.job, ranges.join(","))
        };
        let jobs: Vec<String> = row.jobs.iter().map(held).collect();
        lines.push(format!("r{}: {}", row.slot, jobs.join(" ")));
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

    handle(&mut gang, Event::Finished(JobId(1)));
    assert_eq!(submit(&mut gang, 7, 4), (0, vec![0, 1, 2, 3]));

    handle(&mut gang, Event::Finished(JobId(3)));
    assert_eq!(matrix(&gang), "r0: J2[4-7] J7[0-3]; r2: J4[0-1] J5[2-3] J6[4-4]");

    handle(&mut gang, Event::Finished(JobId(2)));
    assert_eq!(matrix(&gang), "r0: J7[0-3]; r2: J4[0-1] J5[2-3] J6[4-4]", "no unification");
    assert!(gang.next_edge_needed());

    // Row 0 is active and loses its last job: row 2 runs at once.
    assert_eq!(gang.active_slot(), Some(Slot(0)));
    let actions = handle(&mut gang, Event::Finished(JobId(7)));
    assert_eq!(actions, [Action::Activate { slot: Slot(2) }]);
    assert_eq!(matrix(&gang), "r2: J4[0-1] J5[2-3] J6[4-4]");
    assert!(!gang.next_edge_needed(), "with one row strobes stop switching");
    assert_eq!(handle(&mut gang, Event::SliceEdge), []);
}

#[test]
fn rows_run_in_cyclic_order_and_a_deleted_one_is_passed_over() {
    let mut gang = eight_pes();
    for job in 1..=4 {
        submit(&mut gang, job, 8);
    }
    let edge = |gang: &mut Gang| handle(gang, Event::SliceEdge);
    let activate = |slot| [Action::Activate { slot: Slot(slot) }];
    assert_eq!(gang.active_slot(), Some(Slot(0)));
    assert_eq!(edge(&mut gang), activate(1));
    assert_eq!(handle(&mut gang, Event::Finished(JobId(3))), [], "row 2 was not running");
    assert_eq!(edge(&mut gang), activate(3), "row 2 is gone, row 3 is not passed");
    assert_eq!(edge(&mut gang), activate(0));
    assert_eq!(handle(&mut gang, Event::Finished(JobId(1))), activate(1));
    assert_eq!(edge(&mut gang), activate(3));
}
