//! Nodes whose part of a job is over while the job continues elsewhere. Later the nodes are lost or
//! get another Node Manager (`docs/decisions/0152-the-journal-keeps-the-end-of-a-lost-part.md`).

use super::further_steps::{running, size};
use super::invariants::check_all;
use super::world::{NODES, PES, PartKey, World, spec};
use crate::api::JobState;
use crate::job::{EndCause, JobEventKind, Phase};
use std::collections::BTreeSet;
use storm_primitives::NodeId;
use storm_rm::message::{ExitStatus, HeldJob, NodeReturn, Report};
use storm_rm::{JobId, Rank, StepId, StepRef};

/// The most time from the end of a Node Manager until the manager looks how old a run is.
const UNTIL_ASKED_MS: i128 = 10;

/// The parts that are over, and the jobs that have really lost a node.
#[derive(Debug, Default)]
pub(super) struct Losses {
    over: BTreeSet<PartKey>,
    /// Jobs that have lost a node since they were placed.
    hit: BTreeSet<JobId>,
}

impl Losses {
    /// A part is over.
    pub(super) fn part_over(&mut self, part: PartKey) {
        self.over.insert(part);
    }

    /// A node is ordered to launch a part: returns the fault if the part was over.
    pub(super) fn launched(&self, part: PartKey) -> Option<String> {
        self.over.contains(&part).then(|| format!("the ranks of {part:?} start twice"))
    }

    /// Returns the fault if a job is ended or runs again for the loss of a node that was not lost.
    pub(super) fn check(&mut self, job: JobId, kind: &JobEventKind) -> Option<String> {
        match kind {
            JobEventKind::Placed { .. } => {
                self.hit.remove(&job);
                None
            }
            JobEventKind::Ending { cause: EndCause::NodeLost { node } }
            | JobEventKind::Requeued { cause: EndCause::NodeLost { node } } => {
                (!self.hit.contains(&job))
                    .then(|| format!("job {job} is ended for {node}, and no node of it is lost"))
            }
            _ => None,
        }
    }
}

impl World {
    /// A node is lost with its memory.
    pub(super) fn loses(&mut self, node: NodeId) {
        let records = self.core.jobs.values();
        let hit = records.filter(|record| record.ranks.iter().any(|share| share.node == node));
        self.losses.hit.extend(hit.map(|record| record.id));
    }

    /// From now on the keepers of the nodes keep jobs.
    pub(super) fn keep_jobs(&mut self) {
        self.returns = Some(NodeReturn { within_ms: 1_000, leased_within_ms: 500 });
        let nodes: Vec<NodeId> = self.joined.iter().copied().collect();
        nodes.into_iter().for_each(|node| self.node_up(node));
    }

    /// The Node Manager of a node ends, and the next one takes its jobs over. If `forgets`, the
    /// keeper had nothing yet of the jobs that were being launched.
    pub(super) fn node_returns(&mut self, node: NodeId, forgets: bool) {
        if self.returns.is_none() || !self.joined.remove(&node) {
            return;
        }
        self.act(|core, now| core.node_left(now, node));
        self.is_replaced(node, forgets);
        self.comes_back(node);
    }

    /// A node has another Node Manager, which has not joined yet.
    pub(super) fn is_replaced(&mut self, node: NodeId, forgets: bool) {
        self.first_runs.remove(&node);
        if !forgets {
            return;
        }
        self.forget_starting_steps_of(node);
        let starting =
            |job: &JobId| self.core.jobs.get(job).is_some_and(|job| job.phase == Phase::Starting);
        self.parts.retain(|(at, job, _), _| !(*at == node && starting(job)));
        // Ranks of such a run may have executed for longer than a keeper keeps jobs.
        let within = self.returns.map_or(0, |returns| i128::from(returns.within_ms));
        let age_ms = |placed| self.core.wall(self.now).duration_since(placed).as_millis();
        let old = self.core.jobs.values().filter(|record| {
            let is_there = record.ranks.iter().any(|share| share.node == node);
            let is_old = record.placed.is_some_and(|at| age_ms(at) + UNTIL_ASKED_MS >= within);
            is_there && starting(&record.id) && is_old
        });
        self.losses.hit.extend(old.map(|record| record.id));
    }

    /// A node reports what it holds, and joins.
    pub(super) fn comes_back(&mut self, node: NodeId) {
        let parts = self.parts.keys().chain(self.over.keys());
        let held = parts.filter(|part| part.0 == node);
        let held = held.map(|(_, job, incarnation)| HeldJob {
            step: StepRef::program(*job),
            incarnation: *incarnation,
        });
        let jobs = held.collect();
        let first_run = self.first_runs.get(&node).copied();
        self.report(node, Report::Holds { jobs, first_run });
        self.node_up(node);
    }
}

const FIRST: NodeId = NodeId(1);
const ALL: u32 = NODES * PES;

/// The fate of the node whose part is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The node's Node Manager ends, and the next one joins.
    Returns,
    /// The node's Node Manager ends and the next one joins, twice.
    ReturnsTwice,
    /// The node dies, and a new node joins in its place.
    Dies,
    /// The node dies and stays away.
    StaysAway,
    /// The node's processes are lost with its keeper.
    LosesKeeper,
}

const FATES: [Fate; 5] =
    [Fate::Returns, Fate::ReturnsTwice, Fate::Dies, Fate::StaysAway, Fate::LosesKeeper];

/// A job over all nodes, which runs or is being launched. The ranks of the first node have ended
/// with this status.
fn with_part_over(requeue: bool, runs: bool, status: u8) -> (World, JobId) {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    let job = world.submit(spec(ALL, false, requeue));
    if runs {
        world.begin_all();
    }
    end_first(&mut world, job, status);
    (world, job)
}

fn end_first(world: &mut World, job: JobId, status: u8) {
    let part = (FIRST, job, world.record(job).incarnation);
    world.part_over(part, ExitStatus::Code(status));
}

fn befall(world: &mut World, fate: Fate) {
    match fate {
        Fate::Returns => world.node_returns(FIRST, false),
        Fate::ReturnsTwice => {
            world.node_returns(FIRST, false);
            world.node_returns(FIRST, false);
        }
        Fate::Dies => {
            world.node_down(FIRST);
            world.node_up(FIRST);
        }
        Fate::StaysAway => world.node_down(FIRST),
        Fate::LosesKeeper => world.processes_lost(FIRST),
    }
    check_all(world);
}

fn restart(world: &mut World) {
    world.restart(|_| false, |_| false);
    check_all(world);
}

fn parts_over_in(world: &World, job: JobId) -> usize {
    let events = world.journal.iter().filter_map(|entry| entry.of_job());
    let noted = events
        .filter(|(of, event)| *of == job && matches!(event.kind, JobEventKind::PartOver { .. }));
    noted.count()
}

/// Regression: the next manager treated the node as if it had lost its part. The job ended
/// NODE_FAIL, or ran again.
#[test]
fn a_job_goes_on_over_restarts_although_a_node_has_forgotten_the_part_that_was_over() {
    for fate in FATES {
        for (requeue, restarts) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
            // The status of a rank must not be lost either.
            let (mut world, job) = with_part_over(requeue, true, 3);
            befall(&mut world, fate);
            for _ in 0..restarts {
                restart(&mut world);
                befall(&mut world, Fate::Returns);
            }
            assert_eq!(world.record(job).phase, Phase::Running, "{fate:?}");
            world.end_job(job, 0);
            let record = world.record(job);
            let Phase::Ended(outcome) = &record.phase else { panic!("{fate:?}: {record:?}") };
            assert_eq!((outcome.state, outcome.exit_code), (JobState::Failed, 3), "{fate:?}");
            let ranks: Vec<Rank> = record.exits.iter().map(|exit| exit.rank).collect();
            assert_eq!(ranks, (0..ALL).map(Rank).collect::<Vec<_>>(), "{fate:?}");
            assert_eq!(record.runs, 1, "{fate:?}");
            assert_eq!(parts_over_in(&world, job), 1, "{fate:?}");
            assert!(record.parts_over.is_empty());
        }
    }
}

/// Regression: the next manager treated the node as if it had never received the launch, and
/// launched the ranks there again.
#[test]
fn ranks_that_ended_before_all_others_began_do_not_start_again() {
    for fate in FATES {
        for deaf in [false, true] {
            let (mut world, job) = with_part_over(false, false, 0);
            befall(&mut world, fate);
            // The other nodes may never have received the launch.
            world.restart(|_| false, |node| deaf && node != FIRST);
            check_all(&world);
            assert!(!world.parts.keys().any(|part| part.0 == FIRST), "{fate:?}");
            assert_eq!(world.parts.len() as u32, NODES - 1, "{fate:?}");
            world.begin_all();
            assert_eq!(world.record(job).phase, Phase::Running, "{fate:?}");
            world.finish();
            let record = world.record(job);
            assert!(matches!(&record.phase, Phase::Ended(end) if end.state == JobState::Completed));
            assert_eq!(record.runs, 1, "{fate:?}");
        }
    }
}

/// Regression: the job waited for a flag that was lost with the node, and failed because its ranks
/// "did not start" there.
#[test]
fn the_flags_of_a_node_that_has_forgotten_its_part_are_not_asked_for() {
    for (fate, restarts) in FATES.into_iter().flat_map(|fate| [(fate, false), (fate, true)]) {
        let (mut world, job) = with_part_over(false, false, 0);
        befall(&mut world, fate);
        if restarts {
            restart(&mut world);
        }
        let asked =
            world.core.live.get(job).expect("it goes on").watch(StepRef::program(job)).nodes;
        assert_eq!(asked, (2..=NODES).map(NodeId).collect(), "{fate:?}");
        world.finish();
    }
}

#[test]
fn a_job_that_lost_a_part_that_was_over_can_be_cancelled_and_run_again() {
    for fate in FATES {
        for cancelled_first in [false, true] {
            let (mut world, job) = with_part_over(true, true, 0);
            if cancelled_first {
                world.cancel(job);
            }
            befall(&mut world, fate);
            restart(&mut world);
            if !cancelled_first {
                world.cancel(job);
            }
            world.end_job(job, 0);
            let phase = &world.record(job).phase;
            let state = |end: &crate::job::Outcome| end.state;
            assert!(
                matches!(phase, Phase::Ended(end) if state(end) == JobState::Cancelled),
                "{fate:?}: {phase:?}"
            );
        }
        let (mut world, job) = with_part_over(true, true, 0);
        befall(&mut world, fate);
        world.node_down(NodeId(2));
        world.end_job(job, 0);
        (1..=2).for_each(|node| world.node_up(NodeId(node)));
        world.begin_all();
        let record = world.record(job);
        assert_eq!((record.runs, record.parts_over.len()), (2, 0), "{fate:?}");
        world.finish();
    }
}

/// A node whose part is not over is lost as before.
#[test]
fn a_part_that_was_not_over_is_not_taken_for_one() {
    let (mut world, job) = with_part_over(false, true, 0);
    befall(&mut world, Fate::Returns);
    world.restart(|node| node == NodeId(2), |_| false);
    world
        .timers_of_jobs(crate::manager::JobTimer::Recovery)
        .first()
        .copied()
        .into_iter()
        .for_each(|index| world.fire(index));
    world.end_job(job, 0);
    let phase = &world.record(job).phase;
    assert!(matches!(phase, Phase::Ended(end) if end.state == JobState::NodeFail), "{phase:?}");
    assert_eq!(parts_over_in(&world, job), 1);
}

fn enter_fence(world: &mut World, job: JobId, node: NodeId, sequence: u64) {
    enter_fence_of(world, StepRef::program(job), node, sequence);
}

fn enter_fence_of(world: &mut World, step: StepRef, node: NodeId, sequence: u64) {
    let puts = vec![(format!("{node}.{sequence}"), "v".to_owned())];
    world.report(node, Report::Fence { step, sequence, puts });
}

/// A job over all nodes, which have been in a barrier. The ranks of the first node have ended, its
/// Node Manager has forgotten them, and the manager has been restarted.
fn with_fence_forgotten(fate: Fate, restarts: u8) -> (World, JobId) {
    let mut world = World::joined("fcfs", 4);
    world.keep_jobs();
    let job = world.submit(spec(ALL, false, false));
    world.begin_all();
    (1..=NODES).for_each(|node| enter_fence(&mut world, job, NodeId(node), 1));
    end_first(&mut world, job, 0);
    befall(&mut world, fate);
    for _ in 0..restarts {
        restart(&mut world);
        befall(&mut world, Fate::Returns);
    }
    world.fences.clear();
    (world, job)
}

/// Regression: a node that had missed the end of the barrier waited for ever (`storm sim
/// storm-sim/scenarios/random-edits.toml --seed 1672`).
#[test]
fn a_barrier_ends_although_a_node_has_forgotten_that_it_was_in_it() {
    for (fate, restarts) in FATES.into_iter().flat_map(|fate| (0..3).map(move |n| (fate, n))) {
        let (mut world, job) = with_fence_forgotten(fate, restarts);
        (2..=NODES).for_each(|node| enter_fence(&mut world, job, NodeId(node), 1));
        let ends = world.fences.iter().filter(|end| **end == (NodeId(2), 1, NODES as usize));
        assert_eq!(ends.count(), 1, "{fate:?} {restarts}");
        assert_eq!(world.record(job).phase, Phase::Running, "{fate:?} {restarts}");
        world.end_job(job, 0);
        let phase = &world.record(job).phase;
        assert!(matches!(phase, Phase::Ended(end) if end.state == JobState::Completed));
    }
}

/// Regression: a restart of the manager made the wait last for ever.
#[test]
fn nodes_that_wait_in_vain_end_their_job_over_restarts_too() {
    for (fate, restarts) in FATES.into_iter().flat_map(|fate| (0..3).map(move |n| (fate, n))) {
        let (mut world, job) = with_fence_forgotten(fate, restarts);
        enter_fence(&mut world, job, NodeId(2), 1);
        assert_eq!(world.record(job).phase, Phase::Running, "{fate:?} {restarts}");
        enter_fence(&mut world, job, NodeId(2), 2);
        world.finish();
        let Phase::Ended(outcome) = &world.record(job).phase else { panic!("it goes on") };
        let reason = "rank 0 has ended and others wait for it in a PMI barrier";
        assert_eq!(outcome.reason.as_deref(), Some(reason), "{fate:?} {restarts}");
    }
}

/// Regression: the next manager ended the step `NODE_FAIL`.
#[test]
fn a_further_step_and_its_barriers_outlive_a_node_that_has_forgotten_its_part() {
    let last = NodeId(NODES);
    for restarts in 0..3 {
        let (mut world, job) = running();
        world.keep_jobs();
        assert!(world.ask_step(job, 1, size(ALL)).is_ok());
        world.begin_all();
        let (run, step) = (world.run_of(job, 0), StepRef { job, step: StepId::Number(0) });
        (1..=NODES).for_each(|node| enter_fence_of(&mut world, step, NodeId(node), 1));
        world.part_over((last, job, run), ExitStatus::Code(3));
        world.node_returns(last, false);
        for _ in 0..restarts {
            restart(&mut world);
            world.node_returns(last, false);
        }
        check_all(&world);
        world.fences.clear();
        (1..NODES).for_each(|node| enter_fence_of(&mut world, step, NodeId(node), 1));
        assert!(world.fences.contains(&(FIRST, 1, NODES as usize)), "{restarts}");
        assert_eq!(world.run_of(job, 0), run);
        world.end_run_of(run, 0);
        assert_eq!(world.ended_state(job, 0), Some(JobState::Failed), "{restarts}");
        world.finish();
        assert_eq!(world.record(job).state(), JobState::Completed);
    }
}
