//! Jobs in slices whose Node Managers are asked to end, and hand them over.

use super::cut_launches::{CUT, end_run, reason};
use super::world::{NODES, PARTITION, PES, World, spec};
use crate::api::JobState;
use crate::job::Phase;
use crate::manager::JobTimer;
use storm_primitives::NodeSet;
use storm_rm::message::{HeldJob, Report};
use storm_rm::{JobId, JobIncarnation, StepRef};

const HALF: u32 = NODES * PES / 2;

fn led(world: &World) -> NodeSet {
    world.core.coscheduled(PARTITION).map_or_else(NodeSet::new, |(nodes, _)| nodes)
}

/// Two jobs in slices, each on half of the nodes. Returns the one on the node that leaves.
fn two_jobs() -> (World, JobId, JobIncarnation) {
    let mut world = World::joined("bcs", 4);
    world.keep_jobs();
    let jobs = [HALF, HALF].map(|procs| world.submit(spec(procs, false, false)));
    world.begin_all();
    for job in jobs {
        let record = world.record(job);
        let (incarnation, node) = (record.incarnation, record.ranks[0].node);
        world.report(node, Report::InSlices { step: StepRef::program(job), incarnation });
    }
    let here = |job: &JobId| world.record(*job).ranks.iter().any(|share| share.node == CUT);
    let job = jobs.into_iter().find(here).expect("it has ranks there");
    let run = world.record(job).incarnation;
    assert_eq!(led(&world), NodeSet::compute(NODES));
    (world, job, run)
}

fn nodes_of(world: &World, job: JobId) -> NodeSet {
    world.record(job).ranks.iter().map(|share| share.node).collect()
}

/// The node is asked to end, and is told to hand over. Returns the nodes that go on.
fn hands_over(world: &mut World, job: JobId) -> NodeSet {
    let others = NodeSet::compute(NODES).difference(&nodes_of(world, job));
    world.report(CUT, Report::Leaving);
    assert_eq!(led(world), others, "no slice begins any more");
    assert!(world.core.awaits_standing(PARTITION));
    world.act(|core, _| core.slices_stand(PARTITION));
    assert!(!world.core.awaits_standing(PARTITION));
    assert_eq!(led(world), others);
    others
}

fn ends_its_link(world: &mut World) {
    world.joined.remove(&CUT);
    world.act(|core, now| core.node_died(now, CUT));
}

fn comes_back(world: &mut World, job: JobId, run: JobIncarnation, with_slices: bool) {
    let jobs = vec![HeldJob { step: StepRef::program(job), incarnation: run }];
    world.report(CUT, Report::Holds { jobs, first_run: Some(JobIncarnation(1)) });
    if with_slices {
        world.report(CUT, Report::SlicesBack { step: StepRef::program(job), incarnation: run });
    }
    world.node_up(CUT);
}

#[test]
fn a_job_that_was_handed_over_goes_on_when_all_its_nodes_are_back() {
    let (mut world, job, run) = two_jobs();
    let others = hands_over(&mut world, job);
    ends_its_link(&mut world);
    assert_eq!((led(&world), world.record(job).state()), (others.clone(), JobState::Running));
    let jobs = vec![HeldJob { step: StepRef::program(job), incarnation: run }];
    world.report(CUT, Report::Holds { jobs, first_run: Some(JobIncarnation(1)) });
    world.report(CUT, Report::SlicesBack { step: StepRef::program(job), incarnation: run });
    assert_eq!(led(&world), others, "the node is not back");
    world.node_up(CUT);
    assert_eq!(led(&world), NodeSet::compute(NODES));
    // A rank of another node begins to communicate: nothing was lost before.
    let other = nodes_of(&world, job).iter().find(|node| *node != CUT).expect("two nodes");
    world.report(other, Report::InSlices { step: StepRef::program(job), incarnation: run });
    assert_eq!(world.record(job).phase, Phase::Running);
    // Without a hand-over, it ends as before.
    ends_its_link(&mut world);
    world.parts.retain(|part, _| part.0 != CUT);
    end_run(&mut world, job, run);
    let (state, why) = reason(&world, job);
    assert_eq!(state, JobState::NodeFail);
    assert!(why.contains("which moved the messages of the job's ranks"), "{why}");
    world.finish();
}

#[test]
fn a_node_manager_that_ends_before_its_slices_stand_takes_its_job_along() {
    let (mut world, job, run) = two_jobs();
    world.report(CUT, Report::Leaving);
    ends_its_link(&mut world);
    world.parts.retain(|part, _| part.0 != CUT);
    assert!(!world.core.awaits_standing(PARTITION), "it waits no more");
    end_run(&mut world, job, run);
    assert_eq!(reason(&world, job).0, JobState::NodeFail);
    world.finish();
}

#[test]
fn a_node_that_does_not_say_that_it_continues_lets_the_slices_stand() {
    let (mut world, job, run) = two_jobs();
    let others = hands_over(&mut world, job);
    ends_its_link(&mut world);
    comes_back(&mut world, job, run, false);
    assert_eq!(led(&world), others);
    let why = "what the former Node Manager left of its messages cannot be read".to_owned();
    world.report(
        CUT,
        Report::JobFailed { step: StepRef::program(job), incarnation: run, reason: why },
    );
    // A job that ends lets no slices stand.
    assert_eq!(led(&world), NodeSet::compute(NODES));
    end_run(&mut world, job, run);
    assert_eq!(reason(&world, job).0, JobState::Failed);
    world.finish();
}

#[test]
fn a_node_that_does_not_come_back_in_time_ends_the_job() {
    let (mut world, job, run) = two_jobs();
    hands_over(&mut world, job);
    ends_its_link(&mut world);
    world.parts.retain(|part, _| part.0 != CUT);
    world.loses(CUT);
    let timers = world.timers_of_jobs(JobTimer::Recovery);
    world.fire(*timers.first().expect("it waits for a time"));
    assert!(matches!(world.record(job).phase, Phase::Ending(_)));
    assert_eq!(led(&world), NodeSet::compute(NODES).difference(&NodeSet::single(CUT)));
    end_run(&mut world, job, run);
    assert_eq!(reason(&world, job).0, JobState::NodeFail);
    world.finish();
}

#[test]
fn a_state_of_slices_under_another_manager_ends_the_job() {
    let (mut world, job, run) = two_jobs();
    world.report(CUT, Report::SlicesBack { step: StepRef::program(job), incarnation: run });
    assert!(matches!(world.record(job).phase, Phase::Ending(_)));
    end_run(&mut world, job, run);
    let (state, why) = reason(&world, job);
    assert_eq!(state, JobState::Failed);
    assert!(why.contains("slices of the Machine Manager, which is gone"), "{why}");
    world.finish();
}

#[test]
fn jobs_that_share_a_node_with_a_job_that_stands_stand_too() {
    let (mut world, job, _) = two_jobs();
    let all = world.submit(spec(NODES * PES, false, false));
    (0..20).for_each(|_| world.edge());
    world.begin_all();
    assert_eq!(world.record(all).phase, Phase::Running, "in a row of its own");
    world.report(CUT, Report::Leaving);
    assert_eq!(led(&world), NodeSet::new());
    assert_eq!(world.record(job).phase, Phase::Running);
}
