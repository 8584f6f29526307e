//! Jobs whose launch is cut off by the end of a Node Manager.

use super::invariants::check_all;
use super::world::{NODES, PES, World, spec};
use crate::api::JobState;
use crate::job::{MAX_LAUNCHES, Phase};
use crate::{Core, Durable, Notice};
use bytes::Bytes;
use std::time::Duration;
use storm_primitives::{Instant, NodeId};
use storm_rm::message::{CutLaunch, ExitStatus, HeldJob, NodeInfo, NodeReturn, Report, Stream};
use storm_rm::{JobId, JobIncarnation, Rank, StepRef};

pub(super) const CUT: NodeId = NodeId(1);
const ALL: u32 = NODES * PES;

/// The node reports that its part of the job is not whole, and the parts end.
pub(super) fn cut(world: &mut World, job: JobId, cut: CutLaunch) {
    let run = world.record(job).incarnation;
    let former = world.record(job).state();
    tell_cut(world, job, cut);
    assert_eq!(world.record(job).state(), former, "while its ranks are being ended");
    end_run(world, job, run);
}

/// All parts of a run end, and none of the next run, which may begin meanwhile.
pub(super) fn end_run(world: &mut World, job: JobId, run: JobIncarnation) {
    let ends = matches!(world.record(job).phase, Phase::Ending(_));
    let status = if ends { ExitStatus::Signal(9) } else { ExitStatus::Code(0) };
    let parts: Vec<_> = world.parts.keys().copied().collect();
    for part in parts.into_iter().filter(|part| (part.1, part.2) == (job, run)) {
        world.part_over(part, status);
        check_all(world);
    }
}

fn tell_cut(world: &mut World, job: JobId, cut: CutLaunch) {
    let incarnation = world.record(job).incarnation;
    world.report(CUT, Report::LaunchCut { step: StepRef::program(job), incarnation, cut });
    world.starts.clear();
}

/// The node reports that its keeper keeps jobs.
pub(super) fn keeps_jobs(world: &mut World, node: NodeId) {
    let returns = NodeReturn { within_ms: 1_000, leased_within_ms: 500 };
    let info = world.core.nodes.get(node).and_then(|entry| entry.info.clone());
    let info = NodeInfo { returns: Some(returns), ..info.expect("it has joined") };
    world.report(node, Report::Joined(info));
}

pub(super) fn reason(world: &World, job: JobId) -> (JobState, String) {
    match &world.record(job).phase {
        Phase::Ended(outcome) => (outcome.state, outcome.reason.clone().unwrap_or_default()),
        phase => panic!("it has not ended: {phase:?}"),
    }
}

#[test]
fn a_cut_launch_is_done_again_before_waiting_jobs_and_not_for_ever() {
    for restarts in [false, true] {
        let mut world = World::joined("fcfs", 4);
        let (first, waits) =
            (world.submit(spec(ALL, false, false)), world.submit(spec(1, false, false)));
        for launch in 1..MAX_LAUNCHES {
            assert_eq!(world.record(first).phase, Phase::Starting);
            assert_eq!(world.record(first).runs, launch);
            cut(&mut world, first, CutLaunch::Interrupted);
            assert_eq!(world.record(waits).phase, Phase::Pending, "it does not pass the first");
            if restarts {
                world.restart(|_| false, |_| false);
            }
        }
        cut(&mut world, first, CutLaunch::Interrupted);
        let (state, why) = reason(&world, first);
        assert_eq!(state, JobState::NodeFail);
        let told = "ended while it launched the ranks, launch 5 of at most 5";
        assert!(why.contains(told), "{why}");
        world.begin_all();
        assert_eq!(world.record(waits).phase, Phase::Running);
        world.finish();
    }
}

#[test]
fn a_launch_that_succeeds_begins_the_count_anew() {
    let mut world = World::joined("fcfs", 4);
    let job = world.submit(spec(ALL, false, true));
    for launch in 1..=2 * MAX_LAUNCHES {
        assert_eq!(world.record(job).runs, launch);
        if launch % 2 == 0 {
            world.begin_all();
        }
        cut(&mut world, job, CutLaunch::Interrupted);
    }
    world.finish();
    assert_eq!(reason(&world, job).0, JobState::Completed);
}

#[test]
fn a_running_job_that_its_keeper_does_not_have_runs_again_only_if_it_may() {
    for requeue in [false, true] {
        let mut world = World::joined("fcfs", 4);
        let job = world.submit(spec(ALL, false, requeue));
        world.begin_all();
        cut(&mut world, job, CutLaunch::NotKept);
        if requeue {
            assert_eq!(world.record(job).runs, 2);
        } else {
            let (state, why) = reason(&world, job);
            assert_eq!(state, JobState::NodeFail);
            assert!(why.contains("its keeper could not be told of all ranks"), "{why}");
        }
        world.finish();
    }
}

/// How many pieces of output are passed on when `act` acts.
fn passed_on(world: &mut World, act: impl FnOnce(&mut Core, Instant)) -> usize {
    act(&mut world.core, world.now);
    let effects = world.core.take_effects();
    let is_output = |effect: &&Durable| matches!(effect, Durable::Notify(_, Notice::Output(..)));
    effects.durable.iter().filter(is_output).count()
}

fn says(core: &mut Core, now: Instant, job: JobId, offset: u64) {
    let (rank, stream, data) = (Rank(0), Stream::Stdout, Bytes::from_static(b"said"));
    let incarnation = core.jobs[&job].incarnation;
    core.report(
        now,
        CUT,
        Report::Output { step: StepRef::program(job), incarnation, rank, stream, offset, data },
    );
}

/// Regression: output of a cut launch was repeated by the next launch.
#[test]
fn output_of_a_cut_launch_that_is_done_again_is_dropped() {
    for begun in [false, true] {
        let mut world = World::joined("fcfs", 4);
        let job = world.submit(spec(ALL, false, false));
        if begun {
            world.begin_all();
        }
        let passed = usize::from(begun);
        assert_eq!(passed_on(&mut world, |core, now| says(core, now, job, 0)), passed);
        tell_cut(&mut world, job, CutLaunch::NotKept);
        assert_eq!(passed_on(&mut world, |core, now| says(core, now, job, 4)), passed);
        world.finish();
    }
}

#[test]
fn output_of_a_starting_job_is_passed_on_when_its_run_has_begun_or_ends() {
    for fails in [false, true] {
        let mut world = World::joined("fcfs", 4);
        let job = world.submit(spec(ALL, false, false));
        let run = world.record(job).incarnation;
        assert_eq!(passed_on(&mut world, |core, now| says(core, now, job, 0)), 0);
        let comes = passed_on(&mut world, |core, now| match fails {
            true => {
                let reason = "no more memory".to_owned();
                core.report(
                    now,
                    CUT,
                    Report::JobFailed { step: StepRef::program(job), incarnation: run, reason },
                );
            }
            false => core.started(now, job, run),
        });
        assert_eq!(comes, 1, "fails: {fails}");
        assert_eq!(passed_on(&mut world, |core, now| says(core, now, job, 4)), 1);
    }
}

/// A node that was cut off may run such a job for minutes.
#[test]
fn a_cut_launch_is_not_done_again_while_a_lost_node_may_run_the_job() {
    let mut world = World::joined("fcfs", 4);
    let job = world.submit(spec(ALL, false, false));
    tell_cut(&mut world, job, CutLaunch::Interrupted);
    world.node_down(NodeId(2));
    world.end_job(job, 137);
    let (state, why) = reason(&world, job);
    assert_eq!((state, &*why), (JobState::NodeFail, "node n2 died or was cut off"));
    world.finish();
}

#[test]
fn a_job_that_is_being_sent_files_waits_again_when_a_node_manager_ends() {
    for has_files in [false, true] {
        let mut world = World::joined("gang", 4);
        keeps_jobs(&mut world, CUT);
        let job = world.submit(spec(ALL, true, false));
        if has_files {
            // The row of this job is not active: the job waits for an edge.
            let other = world.submit(spec(ALL, true, false));
            world.staged(0, Ok(Default::default()));
            world.begin_all();
            world.staged(0, Ok(Default::default()));
            assert_eq!(world.record(other).phase, Phase::Starting);
        }
        world.joined.remove(&CUT);
        world.act(|core, now| core.node_left(now, CUT));
        let waits = if has_files { JobId(job.0 + 1) } else { job };
        let record = world.record(waits);
        assert_eq!(record.phase, Phase::Pending);
        let told = &record.log.last().expect("a log").text;
        assert_eq!(told, "the Node Manager of n1 ended while the job's files were sent to it");
        if has_files {
            return;
        }
        world.finish();
        assert_eq!((reason(&world, job).0, world.record(job).runs), (JobState::Completed, 2));
    }
}

/// A job of a partition of slices runs on all nodes, and the Node Manager of one ends. Before its
/// end, a rank of the other nodes may communicate.
fn one_leaves_slices(requeue: bool, communicates: bool) -> (World, JobId, JobIncarnation) {
    let mut world = World::joined("bcs", 4);
    keeps_jobs(&mut world, CUT);
    let job = world.submit(spec(ALL, false, requeue));
    world.begin_all();
    let run = world.record(job).incarnation;
    if communicates {
        world.report(NodeId(2), Report::InSlices { step: StepRef::program(job), incarnation: run });
    }
    world.joined.remove(&CUT);
    world.act(|core, now| core.node_died(now, CUT));
    (world, job, run)
}

/// The job has ended because messages of its ranks are lost, or runs again.
fn assert_slices_cut(world: &mut World, job: JobId, requeue: bool) {
    if requeue {
        assert_eq!(world.record(job).state(), JobState::Pending);
    } else {
        let (state, why) = reason(world, job);
        assert_eq!(state, JobState::NodeFail);
        assert!(why.contains("which moved the messages of the job's ranks"), "{why}");
    }
    world.finish();
}

#[test]
fn a_job_whose_messages_the_node_manager_moved_ends_with_that_reason_or_runs_again() {
    for requeue in [false, true] {
        let (mut world, job, run) = one_leaves_slices(requeue, true);
        world.parts.retain(|part, _| part.0 != CUT);
        end_run(&mut world, job, run);
        assert_slices_cut(&mut world, job, requeue);
    }
}

/// The next Node Manager of the node joins, and holds the job.
fn comes_back(world: &mut World, job: JobId, run: JobIncarnation) {
    let jobs = vec![HeldJob { step: StepRef::program(job), incarnation: run }];
    world.report(CUT, Report::Holds { jobs, first_run: Some(JobIncarnation(1)) });
    world.node_up(CUT);
}

#[test]
fn a_job_of_a_partition_of_slices_that_does_not_communicate_in_them_goes_on() {
    for requeue in [false, true] {
        let (mut world, job, run) = one_leaves_slices(requeue, false);
        assert_eq!(world.record(job).phase, Phase::Running, "it waits for the next Node Manager");
        comes_back(&mut world, job, run);
        end_run(&mut world, job, run);
        assert_eq!((reason(&world, job).0, world.record(job).runs), (JobState::Completed, 1));
        world.finish();
    }
}

/// The report of the first rank that communicates may arrive late, or the rank may begin late.
#[test]
fn a_job_that_joins_slices_after_a_node_manager_of_it_has_ended_ends() {
    for requeue in [false, true] {
        for is_back in [false, true] {
            let (mut world, job, run) = one_leaves_slices(requeue, false);
            if is_back {
                comes_back(&mut world, job, run);
            } else {
                world.parts.retain(|part, _| part.0 != CUT);
            }
            world.report(
                NodeId(2),
                Report::InSlices { step: StepRef::program(job), incarnation: run },
            );
            assert!(matches!(world.record(job).phase, Phase::Ending(_)));
            end_run(&mut world, job, run);
            assert_slices_cut(&mut world, job, requeue);
        }
    }
}

/// How far a launch is when manager and Node Manager are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The job is being sent its files.
    Staging,
    /// The launch has reached no node.
    Unheard,
    /// The launch has reached the nodes.
    Launched,
}

/// A job whose manager was killed during its launch, together with the Node Managers of `replaced`,
/// whose keepers had nothing of the job. The next manager waits for them.
fn cut_with_manager(way: Way, requeue: bool, replaced: &[NodeId], wait: Duration) -> World {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    world.submit(spec(ALL, way == Way::Staging, requeue));
    world.now = world.now + wait;
    let deaf = way != Way::Launched;
    world.restart_over(|_| false, |_| deaf, |node| replaced.contains(&node));
    check_all(&world);
    world
}

/// Regression: a job ended NODE_FAIL when its Node Manager and the manager were killed during its
/// launch, and the manager was back first.
#[test]
fn a_launch_that_was_cut_off_together_with_the_manager_is_done_again_as_a_new_run() {
    let job = JobId(1);
    let all: Vec<NodeId> = (1..=NODES).map(NodeId).collect();
    for way in [Way::Staging, Way::Unheard, Way::Launched] {
        for replaced in [&[CUT][..], &all] {
            for requeue in [false, true] {
                let mut world = cut_with_manager(way, requeue, replaced, Duration::ZERO);
                end_run(&mut world, job, JobIncarnation(1));
                let record = world.record(job);
                assert_eq!((record.runs, record.cut_launches), (2, 1), "{way:?} {replaced:?}");
                world.finish();
                assert_eq!(world.record(job).state(), JobState::Completed, "{way:?} {replaced:?}");
            }
        }
    }
}

/// A manager that is killed again while it ends the run, or before it, does not lose count.
#[test]
fn launches_that_are_cut_off_with_every_manager_are_bounded() {
    let job = JobId(1);
    let mut world = cut_with_manager(Way::Launched, false, &[CUT], Duration::ZERO);
    for launch in 1..MAX_LAUNCHES {
        let run = world.record(job).incarnation;
        assert_eq!(world.record(job).runs, launch);
        world.restart_over(|_| false, |_| false, |node| node == NodeId(2));
        end_run(&mut world, job, run);
        assert_eq!(world.record(job).cut_launches, launch);
        world.restart_over(|_| false, |_| false, |node| node == CUT);
    }
    let run = world.record(job).incarnation;
    end_run(&mut world, job, run);
    let (state, why) = reason(&world, job);
    assert!(state == JobState::NodeFail && why.contains("launch 5 of at most 5"), "{why}");
}

/// Ranks may have executed for longer than a keeper keeps jobs.
#[test]
fn a_launch_of_long_ago_is_not_done_again() {
    let late = Duration::from_millis(1_001);
    for requeue in [false, true] {
        let mut world = cut_with_manager(Way::Launched, requeue, &[CUT], late);
        end_run(&mut world, JobId(1), JobIncarnation(1));
        match requeue {
            true => assert_eq!(world.record(JobId(1)).runs, 2),
            false => assert_eq!(reason(&world, JobId(1)).0, JobState::NodeFail),
        }
    }
}

/// A lost node may run the job for minutes.
#[test]
fn a_launch_that_was_cut_off_with_the_manager_is_not_done_again_while_a_node_is_away() {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    let job = world.submit(spec(ALL, false, false));
    world.restart_over(|node| node == NodeId(2), |_| false, |node| node == CUT);
    end_run(&mut world, job, JobIncarnation(1));
    assert!(matches!(world.record(job).phase, Phase::Ending(_)), "it waits for n2");
    let recovery = world.timers_of_jobs(crate::manager::JobTimer::Recovery)[0];
    world.fire(recovery);
    assert_eq!(reason(&world, job).0, JobState::NodeFail);
    world.finish();
}
