//! Scripts that start steps in their places.

use super::invariants::check_all;
use super::world::{ADMIN, NODES, PES, USER, World, spec};
use crate::api::{ErrorCode, JobState};
use crate::job::{EndCause, EndedStep, Outcome, Phase, StepEvent, StepPlace, StepUse};
use crate::manager::live::Layout;
use crate::manager::{AskedStep, STEPS_MAX, StageOutcome, StepRequest};
use storm_primitives::NodeId;
use storm_rm::message::Report;
use storm_rm::{
    FirstStep, JobId, JobIncarnation, JobSpec, Memory, Resources, Share, StepAsk, StepId,
    StepLayout, StepRef, StepSize,
};

/// Changes that the invariant of steps must notice, of a script with step 0 on two elements.
pub(super) const BREAKS: [fn(&mut World, JobId); 3] = [
    |world, job| drop(world.core.live.end_step((job, 0), StepAsk(1))),
    |world, job| world.core.live.free_elements(job, StepAsk(1)),
    |world, job| {
        let spec = std::rc::Rc::new(spec(1, false, false).step);
        world.core.live.wait_for_room(job, (StepAsk(9), size(1), Layout::default()), spec);
    },
];

pub(super) fn size(procs: u32) -> StepSize {
    StepSize::of_procs(procs)
}

/// A script that has all nodes and runs.
pub(super) fn running() -> (World, JobId) {
    running_with(false)
}

pub(super) fn running_with(requeue: bool) -> (World, JobId) {
    let mut world = World::joined("gang", 6);
    let plain = spec(NODES * PES, false, requeue);
    let job = world.submit(JobSpec { first: FirstStep::Script, ..plain });
    world.started(0);
    check_all(&world);
    (world, job)
}

pub(super) fn is(job: JobId, number: u32) -> Result<AskedStep, ErrorCode> {
    Ok(AskedStep::Is(StepRef { job, step: StepId::Number(number) }))
}

pub(super) const WAITS: Result<AskedStep, ErrorCode> = Ok(AskedStep::Waits);

#[test]
fn steps_run_beside_each_other_and_wait_when_the_place_is_full() {
    let (mut world, job) = running();
    let all = NODES * PES;
    assert_eq!(world.ask_step(job, 1, size(all - 1)), is(job, 0));
    assert_eq!(world.ask_step(job, 2, size(2)), WAITS);
    assert_eq!(world.ask_step(job, 3, size(1)), is(job, 1), "it passes one that does not fit");
    assert_eq!(world.ask_step(job, 2, size(2)), WAITS, "it asked before");
    check_all(&world);
    world.begin_all();
    let first = world.run_of(job, 0);
    world.end_run_of(first, 0);
    assert_eq!(world.ended_state(job, 0), Some(JobState::Completed));
    assert_eq!(world.ask_step(job, 2, size(2)), is(job, 2));
    assert_eq!(world.ask_step(job, 1, size(2)), is(job, 0), "it is over, and is found");
    world.finish();
    check_all(&world);
    assert_eq!(world.record(job).state(), JobState::Completed);
}

#[test]
fn what_never_fits_or_is_not_ones_own_is_refused() {
    let (mut world, job) = running();
    let refused = |code| Err(code);
    let wide = size(NODES * PES + 1);
    assert_eq!(world.ask_step(job, 1, wide), refused(ErrorCode::Infeasible));
    assert_eq!(world.ask_step(job, 1, size(0)), refused(ErrorCode::BadRequest));
    let none = StepSize { elements_each: 0, ..size(1) };
    assert_eq!(world.ask_step(job, 1, none), refused(ErrorCode::BadRequest));
    let root = world.ask_as(ADMIN, job, (1, size(1)), false);
    assert_eq!(root, refused(ErrorCode::NotPermitted), "not even root");
    assert_eq!(world.ask_step(JobId(999), 1, size(1)), refused(ErrorCode::NoSuchJob));
    let request = StepRequest {
        run: JobIncarnation(77),
        ask: StepAsk(1),
        size: size(1),
        layout: StepLayout::default(),
        spec: spec(1, false, false).step,
    };
    let former = world.act(|core, now| core.ask_for_step(now, USER, job, request));
    assert_eq!(former.map_err(|error| error.code), refused(ErrorCode::JobEnded));

    let program = world.submit(spec(1, false, false));
    world.edge();
    world.begin_all();
    assert_eq!(world.ask_step(program, 1, size(1)), refused(ErrorCode::BadRequest));
    let overlap = StepSize { share: Share::Overlap, ..size(1) };
    assert_eq!(world.ask_step(program, 1, overlap), is(program, 1), "step 0 is the program");
    check_all(&world);
    world.finish();
}

#[test]
fn a_step_that_fails_ends_alone() {
    let (mut world, job) = running();
    let _ = (world.ask_step(job, 1, size(2)), world.ask_step(job, 2, size(2)));
    world.begin_all();
    let run = world.run_of(job, 0);
    world.end_run_of(run, 3);
    assert_eq!(world.ended_state(job, 0), Some(JobState::Failed));
    assert_eq!(world.record(job).phase, Phase::Running);
    assert!(world.steps_of(job).get(1).is_some());
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}

/// A script on all elements, in another row than those before.
fn another(world: &mut World, resources: Resources) -> JobId {
    let plain = spec(NODES * PES, false, false);
    let job = world.submit(JobSpec { first: FirstStep::Script, resources, ..plain });
    world.edge();
    world.begin_all();
    job
}

#[test]
fn scripts_that_hold_all_slots_do_not_wait_for_each_other() {
    let mut world = World::joined("gang", 4);
    let scripts = [(); 2].map(|()| another(&mut world, Resources::default()));
    let waits = world.submit(spec(1, false, false));
    assert!(world.core.live.slots_are_taken());
    for job in scripts {
        assert_eq!(world.ask_step(job, 1, size(1)), is(job, 0));
        assert_eq!(world.ask_step(job, 2, size(1)), WAITS, "one place each");
        check_all(&world);
    }
    for _ in scripts {
        world.edge();
        world.begin_all();
    }
    let first = world.run_of(scripts[0], 0);
    world.end_run_of(first, 0);
    assert_eq!(world.ask_step(scripts[0], 2, size(1)), is(scripts[0], 1), "it keeps its place");
    assert_eq!(world.record(waits).phase, Phase::Pending);
    world.finish();
    check_all(&world);
}

#[test]
fn a_step_of_a_place_whose_row_does_not_run_is_launched_on_the_edge() {
    let (mut world, first) = running();
    let second = another(&mut world, Resources::default());
    assert_eq!(world.record(second).phase, Phase::Running);
    assert_eq!(world.ask_step(first, 1, size(1)), is(first, 0));
    check_all(&world);
    let run = world.run_of(first, 0);
    let is_launched = |world: &World| world.parts.keys().any(|part| part.2 == run);
    assert!(!is_launched(&world), "its place is stopped");
    world.edge();
    assert!(is_launched(&world));
    world.finish();
    assert_eq!(world.record(first).state(), JobState::Completed);
}

#[test]
fn steps_share_the_memory_that_their_place_asked_for() {
    let mut world = World::joined("gang", 8);
    let memory = Memory::PerNode(1 << 20);
    let job = another(&mut world, Resources { memory, ..Resources::default() });
    assert_eq!(world.record(job).phase, Phase::Running);
    let on_all =
        |bytes| StepSize { memory: Memory::PerNode(bytes), nodes: Some(NODES), ..size(NODES) };
    assert_eq!(world.ask_step(job, 1, on_all((1 << 20) + 1)), Err(ErrorCode::Infeasible));
    assert_eq!(world.ask_step(job, 1, on_all(1 << 19)), is(job, 0));
    assert_eq!(world.ask_step(job, 2, on_all((1 << 19) + 1)), WAITS);
    assert_eq!(world.ask_step(job, 3, size(1)), is(job, 1), "half of the node, by its elements");
    check_all(&world);
    world.finish();
}

#[test]
fn a_run_has_at_most_as_many_steps_as_slurms() {
    let (mut world, job) = running();
    let at = jiff::Timestamp::UNIX_EPOCH;
    let step = Box::new(EndedStep {
        ask: StepAsk(1),
        name: "a".to_owned(),
        procs: 1,
        place: StepPlace::default(),
        began: at,
        started: None,
        ended: at,
        outcome: Outcome { state: JobState::Completed, exit_code: 0, reason: None },
        exit: None,
        used: StepUse::default(),
    });
    let (next, latest_run) = (STEPS_MAX - 1, world.record(job).incarnation);
    let ended = StepEvent::Ended { next, latest_run, step };
    world.act(|core, now| core.append_of_step(now, (job, next - 1), ended));
    assert_eq!(world.ask_step(job, 2, size(1)), is(job, STEPS_MAX - 1));
    assert_eq!(world.ask_step(job, 3, size(1)), Err(ErrorCode::BadRequest));
    check_all(&world);
    world.finish();
}

#[test]
fn steps_outlive_a_node_manager_unless_they_are_being_sent_their_files() {
    let (mut world, job) = running();
    world.keep_jobs();
    (1..=NODES).for_each(|node| world.node_up(NodeId(node)));
    let wide = size(NODES * PES / 2);
    assert_eq!(world.ask_step(job, 1, wide), is(job, 0));
    world.begin_all();
    assert_eq!(world.ask_as(USER, job, (2, wide), true), is(job, 1));
    for node in (1..=NODES).map(NodeId) {
        world.node_returns(node, false);
        check_all(&world);
    }
    assert_eq!(world.ended_state(job, 1), Some(JobState::NodeFail));
    assert_eq!(world.record(job).phase, Phase::Running);
    let run = world.run_of(job, 0);
    world.end_run_of(run, 0);
    assert_eq!(world.ended_state(job, 0), Some(JobState::Completed));
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}

/// Steps 0 to 3: one executes, one is launched, one is being sent its files, and one waits.
fn in_every_phase() -> (World, JobId) {
    let (mut world, job) = running();
    assert_eq!(world.ask_step(job, 1, size(2)), is(job, 0));
    world.begin_all();
    assert_eq!(world.ask_step(job, 2, size(2)), is(job, 1));
    assert_eq!(world.ask_as(USER, job, (3, size(2)), true), is(job, 2));
    assert_eq!(world.ask_step(job, 4, size(NODES * PES)), WAITS);
    check_all(&world);
    (world, job)
}

#[test]
fn the_end_of_the_script_ends_all_steps_and_its_status_decides() {
    for code in [0, 5] {
        let (mut world, job) = in_every_phase();
        let script = world.record(job).incarnation;
        world.end_run_of(script, code);
        check_all(&world);
        let steps = world.steps_of(job);
        assert_eq!(world.ended_state(job, 2), Some(JobState::Cancelled), "it was not launched");
        assert!(steps.live().all(|(_, step)| step.ending == Some(EndCause::ScriptEnded)));
        let doomed = |world: &World, number| {
            let run = world.run_of(job, number);
            world.parts.iter().filter(|(part, _)| part.2 == run).all(|(_, (_, doomed))| *doomed)
        };
        assert!(!doomed(&world, 0), "it has its grace");
        assert!(doomed(&world, 1), "it was not seen to execute");
        assert_eq!(world.record(job).phase, Phase::Running, "steps still run");
        assert_eq!(world.ask_step(job, 5, size(1)), Err(ErrorCode::JobEnded));
        world.finish();
        check_all(&world);
        let state = if code == 0 { JobState::Completed } else { JobState::Failed };
        assert_eq!(world.record(job).state(), state);
        assert_eq!(world.ended_state(job, 0), Some(JobState::Cancelled));
    }
}

#[test]
fn the_end_of_a_job_ends_steps_in_every_phase_and_a_lost_node_ends_the_job() {
    let cancel: fn(&mut World, JobId) = |world, job| assert!(world.cancel(job));
    let lose: fn(&mut World, JobId) = |world, _| world.node_down(NodeId(NODES));
    for (end, state) in [(cancel, JobState::Cancelled), (lose, JobState::NodeFail)] {
        let (mut world, job) = in_every_phase();
        end(&mut world, job);
        check_all(&world);
        world.finish();
        check_all(&world);
        assert_eq!(world.record(job).state(), state);
        assert_eq!(world.steps_of(job).live().count(), 0);
        assert_eq!(world.steps_of(job).ended().count(), 3);
    }
}

#[test]
fn one_step_is_ended_and_the_next_gets_its_elements() {
    let (mut world, job) = in_every_phase();
    for number in [0, 1, 2] {
        world.cancel_step(job, number);
        check_all(&world);
    }
    while let Some(index) = world
        .timers
        .iter()
        .position(|(_, timer)| matches!(timer, crate::manager::Timer::Step { .. }))
    {
        world.fire(index);
        check_all(&world);
    }
    let runs = [world.run_of(job, 0), world.run_of(job, 1)];
    assert!(world.parts.iter().all(|(part, (_, doomed))| *doomed == runs.contains(&part.2)));
    runs.into_iter().for_each(|run| world.end_run_of(run, 0));
    assert_eq!(world.ask_step(job, 4, size(1)), is(job, 3), "the step that waited");
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}

#[test]
fn steps_outlive_the_manager_and_their_numbers_go_on() {
    let (mut world, job) = in_every_phase();
    let runs = [0, 1, 2].map(|number| world.run_of(job, number));
    world.restart(|_| false, |_| false);
    check_all(&world);
    assert_eq!([0, 1, 2].map(|number| world.run_of(job, number)), runs);
    assert_eq!(world.step_stages, [(job, runs[2])], "no node has ever heard of it");
    world.step_staged(0, Ok(StageOutcome::default()));
    world.begin_all();
    assert!(world.steps_of(job).live().all(|(_, step)| step.started.is_some()));
    assert_eq!(world.ask_step(job, 2, size(2)), is(job, 1), "asked before the restart");
    assert_eq!(world.ask_step(job, 4, size(1)), is(job, 3), "a waiting step is forgotten");
    check_all(&world);
    let runs = [0, 1, 2, 3].map(|number| world.run_of(job, number));
    runs.into_iter().for_each(|run| world.end_run_of(run, 0));
    let completed = |number| world.ended_state(job, number) == Some(JobState::Completed);
    assert!((0..4).all(completed));
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}

#[test]
fn a_script_that_runs_again_begins_at_step_0() {
    let (mut world, job) = running_with(true);
    assert_eq!(world.ask_step(job, 1, size(2)), is(job, 0));
    world.begin_all();
    world.node_down(NodeId(NODES));
    let runs: Vec<_> = world.parts.keys().map(|part| part.2).collect();
    runs.into_iter().for_each(|run| world.end_run_of(run, 0));
    let former = &world.record(job).former_nodes;
    assert_eq!(former.len(), NODES as usize, "a step may run on any of them");
    world.node_up(NodeId(NODES));
    world.begin_all();
    assert_eq!(world.record(job).runs, 2);
    assert_eq!(world.ask_step(job, 1, size(2)), is(job, 0), "nothing is left of the run before");
    check_all(&world);
    world.finish();
}

#[test]
fn steps_that_overlap_or_want_whole_nodes_share_as_they_ask() {
    let (mut world, job) = running();
    let share = |share, procs| StepSize { share, ..size(procs) };
    assert_eq!(world.ask_step(job, 1, share(Share::WholeNodes, 1)), is(job, 0));
    assert_eq!(world.ask_step(job, 2, size(NODES * PES - 1)), WAITS);
    assert_eq!(world.ask_step(job, 3, share(Share::Overlap, NODES * PES)), is(job, 1));
    let exact = StepSize { memory: Memory::PerNode(1 << 30), ..size((NODES - 1) * PES) };
    assert_eq!(world.ask_step(job, 4, exact), is(job, 2), "the place's memory is not counted");
    check_all(&world);
    world.finish();
}

/// Regression: the keeper's report was dropped, and neither the step nor the place ever ended.
#[test]
fn a_node_that_stood_still_with_a_step_alone_ends_the_job() {
    let (mut world, job) = running();
    assert_eq!(world.ask_step(job, 1, size(NODES * PES)), is(job, 0));
    world.begin_all();
    let (run, node) = (world.run_of(job, 0), NodeId(NODES));
    assert!(!world.core.live.get(job).unwrap().has_part_on(node));
    world.loses(node);
    world.parts.retain(|part, _| part.0 != node);
    world.report(
        node,
        Report::LeaseOver { step: StepRef { job, step: StepId::Number(0) }, incarnation: run },
    );
    check_all(&world);
    assert!(matches!(world.record(job).phase, Phase::Ending(EndCause::NodeLost { .. })));
    world.finish();
    assert_eq!(world.record(job).state(), JobState::NodeFail);
}

/// Regression: without slices no edge comes, and the step was never launched.
#[test]
fn a_step_that_was_asked_for_while_its_job_was_stopped_runs_when_the_job_continues() {
    for sched in ["fcfs", "gang"] {
        let mut world = World::joined(sched, 6);
        let plain = spec(NODES * PES, false, false);
        let job = world.submit(JobSpec { first: FirstStep::Script, ..plain });
        world.started(0);
        world.act(|core, now| core.stop_all(now, ADMIN, &[job])).remove(0).unwrap();
        assert_eq!(world.ask_step(job, 1, size(1)), is(job, 0));
        let run = world.run_of(job, 0);
        let is_launched = |world: &World| world.parts.keys().any(|part| part.2 == run);
        assert!(!is_launched(&world), "its place is stopped");
        world.act(|core, now| core.continue_all(now, ADMIN, &[job])).remove(0).unwrap();
        assert!(is_launched(&world), "{sched}");
        check_all(&world);
        world.finish();
        assert_eq!(world.record(job).state(), JobState::Completed);
    }
}

/// Regression: the steps of one job could hold all places in the arrays of flags.
#[test]
fn steps_that_overlap_are_bounded_by_the_elements_of_their_place() {
    let mut world = World::joined("gang", 100);
    let plain = spec(NODES * PES, false, false);
    let job = world.submit(JobSpec { first: FirstStep::Script, ..plain });
    world.started(0);
    let overlaps = StepSize { share: Share::Overlap, ..size(1) };
    let most = NODES * PES + 8;
    for number in 0..most {
        assert_eq!(world.ask_step(job, u64::from(number), overlaps), is(job, number));
    }
    assert_eq!(world.ask_step(job, u64::from(most), overlaps), WAITS);
    check_all(&world);
    world.begin_all();
    world.end_run_of(world.run_of(job, 3), 0);
    assert_eq!(world.ask_step(job, u64::from(most), overlaps), is(job, most), "one has ended");
    world.finish();
    assert_eq!(world.record(job).state(), JobState::Completed);
}
