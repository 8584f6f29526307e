//! Jobs whose scripts are over while steps are being ended: the script's status decides.

use super::further_steps::{is, running_with, size};
use super::invariants::check_all;
use super::world::{ADMIN, NODES, PES, World};
use crate::api::JobState;
use crate::job::{EndCause, Phase};
use crate::manager::JobTimer;
use storm_primitives::NodeId;
use storm_rm::JobId;

/// An event that befalls a job.
type Fate = fn(&mut World, JobId);

/// A script with a step on so many elements. The script has ended with `code`, and the step not.
fn with_script_over(procs: u32, code: u8) -> (World, JobId) {
    let (mut world, job) = running_with(true);
    assert_eq!(world.ask_step(job, 1, size(procs)), is(job, 0));
    world.begin_all();
    let script = world.record(job).incarnation;
    world.end_run_of(script, code);
    assert_eq!(world.record(job).phase, Phase::Running);
    (world, job)
}

fn restart(world: &mut World, dead: &[NodeId]) {
    world.restart(|node| dead.contains(&node), |_| false);
    check_all(world);
    while let Some(index) = world.timers_of_jobs(JobTimer::Recovery).first().copied() {
        world.fire(index);
        check_all(world);
    }
}

/// Regression: the job ended NODE_FAIL, TIMEOUT or CANCELLED, or ran again.
#[test]
fn nothing_changes_the_outcome_of_a_job_whose_script_is_over() {
    let last = NodeId(NODES);
    let fates: [(&str, Fate); 7] = [
        ("the last node is lost", |world, _| world.node_down(NodeId(NODES))),
        ("all nodes are lost", |world, _| {
            (1..=NODES).for_each(|node| world.node_down(NodeId(node)));
        }),
        ("it is cancelled", |world, job| assert!(world.cancel(job))),
        ("its time is over", |world, job| {
            world.act(|core, now| core.end_job(now, job, EndCause::TimeLimit));
        }),
        ("it is to wait again", |world, job| {
            let outcomes = world.act(|core, now| core.requeue_all(now, ADMIN, &[job]));
            assert!(outcomes.iter().all(Result::is_err), "there is nothing to do again");
        }),
        ("the manager is restarted", |world, _| restart(world, &[])),
        ("so it is, and nodes are lost", |world, _| restart(world, &[NodeId(1), NodeId(NODES)])),
    ];
    for (fate, befall) in fates {
        for (code, procs) in [(0, 2), (5, 2), (0, NODES * PES), (5, NODES * PES)] {
            let (mut world, job) = with_script_over(procs, code);
            befall(&mut world, job);
            check_all(&world);
            if !world.joined.contains(&last) {
                world.node_up(last);
            }
            world.finish();
            check_all(&world);
            let record = world.record(job);
            let state = if code == 0 { JobState::Completed } else { JobState::Failed };
            assert_eq!(record.state(), state, "{fate}: {:?}", record.phase);
            assert_eq!((record.runs, record.exits.len()), (1, 1), "{fate}");
            assert_eq!(record.steps.as_ref().map(|steps| steps.live().count()), Some(0));
        }
    }
}
