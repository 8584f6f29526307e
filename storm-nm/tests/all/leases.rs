//! The jobs that have a lease, and the reports about a job whose lease has run out.

use crate::core_properties::{joined, key, launch};
use std::rc::Rc;
use storm_nm::{Action, Event, HostEvent, NodeCore};
use storm_rm::message::{Command, CutLaunch, ExitStatus, RankExit, Report, ResumedJob, Stream};
use storm_rm::{
    Coscheduling, JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet, StepRef,
};

/// A node where a job of two ranks runs.
fn with_job(requeue: bool) -> NodeCore {
    let mut core = joined(4);
    let mut launch = launch(1, 1, 1, 0);
    Rc::make_mut(&mut launch.spec).requeue = requeue;
    core.handle(Event::Command(Command::LaunchJob(Rc::new(launch))));
    assert_eq!(core.requeued(), [], "it has no process yet");
    core.handle(Event::Prepared { job: key(1, 1), outcome: Ok(()) });
    core
}

fn lease_over(core: &mut NodeCore) -> Vec<Action> {
    core.handle(Event::Host(HostEvent::LeaseOver { job: key(1, 1) }))
}

/// Ends the ranks of the job. Returns the node's actions.
fn ends(core: &mut NodeCore) -> Vec<Action> {
    let mut actions = Vec::new();
    for rank in [0, 1].map(Rank) {
        let status = ExitStatus::Signal(9);
        let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        actions.extend(core.handle(Event::Host(HostEvent::Exited { job: key(1, 1), exit })));
        for stream in [Stream::Stdout, Stream::Stderr] {
            let job = key(1, 1);
            actions.extend(core.handle(Event::StreamEnded { job, rank, stream }));
        }
    }
    actions
}

fn says_something(action: &Action) -> bool {
    matches!(action, Action::Post { .. } | Action::Announce { .. } | Action::MarkStarted { .. })
}

#[test]
fn a_job_with_requeue_has_a_lease_until_its_end() {
    assert_eq!(with_job(false).requeued(), []);
    let mut core = with_job(true);
    assert_eq!(core.requeued(), [key(1, 1)]);
    core.handle(Event::ManagerLost);
    assert_eq!(core.requeued(), [key(1, 1)]);
    core.handle(Event::GivenUp);
    assert_eq!(core.requeued(), []);
    let mut core = with_job(true);
    ends(&mut core);
    assert_eq!(core.requeued(), []);
}

/// A regression: the next manager believed that the node had never received a run that it had given
/// up. The same run was launched there again.
#[test]
fn a_run_that_was_given_up_is_none_that_was_never_heard_of() {
    let mut core = with_job(true);
    let before = core.first_run();
    assert!(before <= Some(JobIncarnation(1)));
    core.handle(Event::ManagerLost);
    assert_eq!(core.first_run(), before, "it is still held");
    core.handle(Event::GivenUp);
    assert_eq!(core.held(), []);
    assert_eq!(core.first_run(), Some(JobIncarnation(2)));
    let next_run = JobIncarnation(5);
    core.handle(Event::Command(Command::Resume { jobs: Vec::new(), next_run, clients: None }));
    assert_eq!(core.first_run(), before, "the next manager knows");
}

/// The job never counts as started, though all its ranks execute or have ended.
#[test]
fn a_part_that_is_not_whole_is_told_and_killed_and_never_counts_as_started() {
    let mut core = with_job(false);
    let cut = CutLaunch::NotKept;
    let mut actions = core.handle(Event::LaunchCut { job: key(1, 1), cut });
    let (step, incarnation) = (StepRef::program(JobId(1)), JobIncarnation(1));
    let report = Report::LaunchCut { step, incarnation, cut };
    let is_told =
        |action: &Action| matches!(action, Action::Post { report: r, .. } if *r == report);
    assert!(actions.iter().any(is_told), "{actions:?}");
    assert!(actions.contains(&Action::Destroy { job: key(1, 1) }), "{actions:?}");
    for rank in [0, 1].map(Rank) {
        let launched = HostEvent::Launched { job: key(1, 1), rank };
        actions.extend(core.handle(Event::Host(launched)));
    }
    let started = |action: &Action| matches!(action, Action::MarkStarted { .. });
    assert!(!actions.iter().any(started), "{actions:?}");
    core.handle(Event::ManagerLost);
    let next_run = JobIncarnation(5);
    let slot = JobSlot(3);
    let resumed = ResumedJob {
        step,
        incarnation,
        slot,
        partition: PartitionId(0),
        rows: RowSet::ALL,
        active_row: Row(0),
        coscheduling: Coscheduling::Strobed,
        hold_output: false,
    };
    let actions = core.handle(Event::Command(Command::Resume {
        jobs: vec![resumed],
        next_run,
        clients: None,
    }));
    assert!(actions.iter().any(is_told) && !actions.iter().any(started), "{actions:?}");
}

#[test]
fn the_manager_hears_of_a_lease_that_has_run_out_and_of_nothing_else() {
    let mut core = with_job(true);
    let actions = lease_over(&mut core);
    let said: Vec<&Action> = actions.iter().filter(|action| says_something(action)).collect();
    let [Action::Post { report, .. }] = said[..] else { panic!("{actions:?}") };
    let (step, incarnation) = (StepRef::program(JobId(1)), JobIncarnation(1));
    assert_eq!(*report, Report::LeaseOver { step, incarnation });
    assert!(actions.contains(&Action::Destroy { job: key(1, 1) }), "{actions:?}");
    assert_eq!(core.requeued(), []);
    assert_eq!(lease_over(&mut core), [], "once");
    let actions = ends(&mut core);
    assert!(!actions.iter().any(says_something), "{actions:?}");
    assert!(actions.contains(&Action::Forget { job: key(1, 1) }), "{actions:?}");
}

#[test]
fn the_next_manager_hears_of_it_whatever_it_was_told_is_held() {
    let mut core = with_job(true);
    core.handle(Event::ManagerLost);
    assert_eq!(core.held().len(), 1);
    let actions = lease_over(&mut core);
    assert!(actions.iter().any(says_something), "{actions:?}");
    assert!(actions.contains(&Action::Destroy { job: key(1, 1) }), "{actions:?}");
    assert_eq!(core.held(), []);
}
