//! Steps of one job on a node: each has its own life, and all have the rows of their job.

use crate::core_properties::{RANKS, joined, launch};
use std::rc::Rc;
use storm_nm::{Action, Event, HostEvent, JobKey, JobPhase, NodeCore, Whom};
use storm_primitives::NodeId;
use storm_rm::message::{
    Command, ExitStatus, LaunchJob, NodeRanks, RankExit, Report, ResumedJob, Stream, Strobe,
};
use storm_rm::{
    Coscheduling, FirstStep, JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet,
    StepId, StepRef,
};

const JOB: JobId = JobId(7);
/// The run of the job's place, and of its script.
const PLACE: u64 = 1;

fn step(step: StepId) -> StepRef {
    StepRef { job: JOB, step }
}

fn run_of(id: StepId, run: u64) -> JobKey {
    JobKey { step: step(id), incarnation: JobIncarnation(run) }
}

/// The script, with the run of its place.
fn script() -> JobKey {
    run_of(StepId::Batch, PLACE)
}

fn first() -> JobKey {
    run_of(StepId::Number(0), 2)
}

fn second() -> JobKey {
    run_of(StepId::Number(1), 3)
}

/// The launch of a step in a place of four elements on this node.
fn launch_in(place: u64, key: JobKey) -> Command {
    let mut launch = LaunchJob {
        step: key.step,
        incarnation: key.incarnation,
        place: JobIncarnation(place),
        slot: JobSlot(key.incarnation.0 as u32),
        ..launch(JOB.0, place, 1, 0)
    };
    Rc::make_mut(&mut launch.spec).first = FirstStep::Script;
    Command::LaunchJob(Rc::new(launch))
}

fn tell(core: &mut NodeCore, command: Command) -> Vec<Action> {
    core.handle(Event::Command(command))
}

fn prepared(core: &mut NodeCore, job: JobKey) -> Vec<Action> {
    core.handle(Event::Prepared { job, outcome: Ok(()) })
}

/// A node where the script and two steps run.
fn with_steps() -> NodeCore {
    let mut core = joined(4);
    for key in [script(), first(), second()] {
        let actions = tell(&mut core, launch_in(PLACE, key));
        assert!(
            matches!(&actions[..], [Action::Prepare(task)] if task.key() == key),
            "{actions:?}"
        );
        prepared(&mut core, key);
    }
    assert_eq!(core.jobs().collect::<Vec<_>>(), [script(), first(), second()]);
    core
}

/// Ends the ranks of a step, and their output.
fn ends(core: &mut NodeCore, job: JobKey, ranks: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    for rank in (0..ranks).map(Rank) {
        let status = ExitStatus::Code(0);
        let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        actions.extend(core.handle(Event::Host(HostEvent::Exited { job, exit })));
        for stream in [Stream::Stdout, Stream::Stderr] {
            actions.extend(core.handle(Event::StreamEnded { job, rank, stream }));
        }
    }
    actions
}

/// The step whose end is announced, and how many of its ranks ended.
fn announced(actions: &[Action]) -> Vec<(StepRef, usize)> {
    let end = |action: &Action| match action {
        Action::Announce { report: Report::Terminated { step, ranks, .. }, .. } => {
            Some((*step, ranks.len()))
        }
        _ => None,
    };
    actions.iter().filter_map(end).collect()
}

#[test]
fn a_script_is_one_rank_and_a_step_beside_it_has_all_of_its_own() {
    let mut core = with_steps();
    let over = announced(&ends(&mut core, script(), 1));
    assert_eq!(over, [(step(StepId::Batch), 1)]);
    let over = announced(&ends(&mut core, first(), RANKS));
    assert_eq!(over, [(step(StepId::Number(0)), RANKS as usize)]);
}

#[test]
fn steps_end_apart() {
    let mut core = with_steps();
    let over = announced(&ends(&mut core, first(), RANKS));
    assert_eq!(over, [(first().step, RANKS as usize)]);
    assert_eq!(core.phase(first()), Some(JobPhase::Ended));
    assert_eq!(core.phase(second()), Some(JobPhase::Launching));
    let released = tell(&mut core, Command::ReleaseJob { step: first().step });
    assert_eq!(released, [Action::Forget { job: first() }]);
    assert_eq!(core.jobs().collect::<Vec<_>>(), [script(), second()]);
    let destroyed = tell(&mut core, Command::DestroyJob { step: second().step });
    assert!(destroyed.contains(&Action::Destroy { job: second() }), "{destroyed:?}");
    let others = |action: &Action| matches!(action, Action::Destroy { job } if *job != second());
    assert!(!destroyed.iter().any(others), "{destroyed:?}");
    assert!(core.is_heard(script()), "the script goes on");
}

#[test]
fn signals_input_and_held_output_are_of_one_step() {
    let mut core = with_steps();
    let signalled = tell(&mut core, Command::SignalJob { step: second().step, signal: 10 });
    assert_eq!(signalled, [Action::Signal { job: second(), signal: 10, whom: Whom::All }]);
    let held = tell(&mut core, Command::HoldOutput { step: first().step, hold: true });
    assert_eq!(held, [Action::HoldOutput { job: first(), hold: true }]);
    let unknown = step(StepId::Number(9));
    assert_eq!(tell(&mut core, Command::SignalJob { step: unknown, signal: 10 }), []);
    assert_eq!(tell(&mut core, Command::DestroyJob { step: unknown }), []);
}

#[test]
fn rows_and_coscheduling_reach_all_steps_and_a_strobe_switches_them_together() {
    let mut core = with_steps();
    let all = [script(), first(), second()];
    let rows = RowSet::single(Row(1));
    let set = tell(&mut core, Command::SetRows { job: JOB, rows });
    let told: Vec<Action> = all.iter().map(|job| Action::Rows { job: *job, rows }).collect();
    assert_eq!(set[..3], told);
    assert!(
        matches!(&set[3..], [Action::Switch { stop, resume, .. }] if *stop == all && resume.is_empty()),
        "{set:?}"
    );
    assert!(all.iter().all(|job| core.is_stopped(*job)));
    let strobe = Strobe { partition: PartitionId(0), row: Row(1), number: 1, issued_ns: 0 };
    let switched = tell(&mut core, Command::Strobe(strobe));
    assert!(
        matches!(&switched[..], [Action::Switch { resume, .. }] if *resume == all),
        "{switched:?}"
    );
    let coscheduling = Coscheduling::Implicit;
    let told = tell(&mut core, Command::Coschedule { job: JOB, coscheduling });
    assert_eq!(told, all.map(|job| Action::Coschedule { job, coscheduling }));
}

#[test]
fn a_stopped_step_that_gets_a_signal_runs_alone() {
    let mut core = with_steps();
    tell(&mut core, Command::SetRows { job: JOB, rows: RowSet::single(Row(1)) });
    tell(&mut core, Command::SignalJob { step: first().step, signal: 15 });
    let stopped = [script(), first(), second()].map(|job| core.is_stopped(job));
    assert_eq!(stopped, [true, false, true]);
    core.handle(Event::SignalGraceOver { job: first() });
    assert!(core.is_stopped(first()));
}

#[test]
fn the_next_manager_goes_on_with_the_steps_that_it_names() {
    let mut core = with_steps();
    core.handle(Event::ManagerLost);
    let held: Vec<StepRef> = core.held().iter().map(|held| held.step).collect();
    assert_eq!(held, [script(), first(), second()].map(|key| key.step));
    let resumed = |key: JobKey| ResumedJob {
        step: key.step,
        incarnation: key.incarnation,
        slot: JobSlot(9),
        partition: PartitionId(0),
        rows: RowSet::ALL,
        active_row: Row(0),
        coscheduling: Coscheduling::Strobed,
        hold_output: false,
    };
    let next_run = JobIncarnation(9);
    let jobs = vec![resumed(script()), resumed(second())];
    let actions = tell(&mut core, Command::Resume { jobs, next_run, clients: None });
    let killed = |action: &Action| matches!(action, Action::Destroy { .. });
    let killed: Vec<&Action> = actions.iter().filter(|action| killed(action)).collect();
    assert_eq!(killed, [&Action::Destroy { job: first() }]);
    let heard = [script(), first(), second()].map(|job| core.is_heard(job));
    assert_eq!(heard, [true, false, true]);
}

#[test]
fn a_step_that_begins_again_replaces_itself_and_the_next_place_replaces_all() {
    let mut core = with_steps();
    let again = run_of(StepId::Number(1), 4);
    let actions = tell(&mut core, launch_in(PLACE, again));
    let killed = |actions: &[Action]| -> Vec<JobKey> {
        let killed = |action: &Action| match action {
            Action::Destroy { job } => Some(*job),
            _ => None,
        };
        actions.iter().filter_map(killed).collect()
    };
    assert_eq!(killed(&actions), [second()]);
    assert_eq!(tell(&mut core, launch_in(PLACE, second())), [], "it was launched before");
    let next = run_of(StepId::Batch, 5);
    let actions = tell(&mut core, launch_in(5, next));
    assert_eq!(killed(&actions), [script(), first(), second()], "the rest has no process yet");
    assert_eq!(
        tell(&mut core, launch_in(PLACE, run_of(StepId::Number(2), 6))),
        [],
        "a former place"
    );
    prepared(&mut core, next);
    let rows = RowSet::single(Row(2));
    let set = tell(&mut core, Command::SetRows { job: JOB, rows });
    assert_eq!(set[0], Action::Rows { job: next, rows });
    assert!(!matches!(set[1], Action::Rows { .. }), "a former place has no rows: {set:?}");
}

#[test]
fn a_script_counts_the_place_and_a_step_its_own_ranks() {
    let share = |node, first, count| NodeRanks { node: NodeId(node), first: Rank(first), count };
    let Command::LaunchJob(launch) = launch_in(PLACE, script()) else { panic!("a launch") };
    let ranks = [share(1, 0, 4), share(2, 4, 3)].into_iter().collect();
    let of_script = LaunchJob { ranks, ..(*launch).clone() };
    assert_eq!(of_script.size(), 1);
    assert_eq!(of_script.step_ranks().collect::<Vec<_>>(), [share(1, 0, 1)]);
    let of_step = LaunchJob { step: first().step, ..of_script };
    assert_eq!(of_step.size(), 7);
    assert_eq!(of_step.step_ranks_of(NodeId(2)), Some(share(2, 4, 3)));
}
