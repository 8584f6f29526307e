//! Time limits that pass while nodes or the manager are away.

use super::invariants::check_all;
use super::world::{NODES, PES, World, spec};
use crate::api::JobState;
use crate::job::{EndCause, Phase};
use crate::manager::JobTimer;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::ExitStatus;
use storm_rm::{JobId, JobSpec};

const JOB: JobId = JobId(1);
const AWAY: NodeId = NodeId(1);
const LIMIT: Duration = Duration::from_millis(500);

/// A job of `procs` processes runs, and the Node Manager of its first node is away. Its limit
/// passes.
fn past_its_limit(procs: u32, restarts: bool) -> World {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    let limited = JobSpec { time_limit: Some(LIMIT), ..spec(procs, false, false) };
    assert_eq!(world.submit(limited), JOB);
    world.begin_all();
    world.joined.remove(&AWAY);
    if restarts {
        world.restart(|_| false, |_| false);
        world.now = world.now + LIMIT;
    } else {
        world.act(|core, now| core.node_left(now, AWAY));
        limit(&mut world);
    }
    check_all(&world);
    world
}

/// The timer of the limit fires, if it is set.
fn limit(world: &mut World) {
    if let Some(last) = world.timers_of_jobs(JobTimer::TimeLimit).last() {
        world.fire(*last);
    }
}

/// Regression: a job that ended well within its limit was TIMEOUT, if its Node Manager or the
/// manager was away until the limit had passed.
#[test]
fn a_job_that_ended_within_its_limit_while_nobody_saw_it_is_completed() {
    for restarts in [false, true] {
        let mut world = past_its_limit(1, restarts);
        assert_eq!(world.record(JOB).phase, Phase::Running, "{restarts}");
        world.comes_back(AWAY);
        let part = (AWAY, JOB, world.record(JOB).incarnation);
        world.part_over(part, ExitStatus::Code(0));
        assert_eq!(world.record(JOB).state(), JobState::Completed, "{restarts}");
    }
}

#[test]
fn a_job_that_runs_beyond_its_limit_ends_when_its_node_is_back() {
    for restarts in [false, true] {
        let mut world = past_its_limit(1, restarts);
        world.comes_back(AWAY);
        let back = world.now;
        limit(&mut world);
        assert!(world.now <= back + Duration::from_secs(4));
        assert_eq!(world.record(JOB).phase, Phase::Ending(EndCause::TimeLimit), "{restarts}");
        world.end_job(JOB, 143);
        assert_eq!(world.record(JOB).state(), JobState::Timeout, "{restarts}");
    }
}

/// Ranks on other nodes run, so the job has not ended by itself.
#[test]
fn a_limit_holds_for_the_nodes_that_are_there() {
    let world = past_its_limit(NODES * PES, false);
    assert_eq!(world.record(JOB).phase, Phase::Ending(EndCause::TimeLimit));
}
