//! Commands to an earlier life of a node are not obeyed in a later life.

use crate::core_properties::{joined, key, launch};
use bytes::Bytes;
use std::rc::Rc;
use storm_nm::{Action, Event, HostEvent, JobPhase, NodeCore};
use storm_rm::message::{Command, ExitStatus, LaunchJob, RankExit, ResumedJob, Stream, Strobe};
use storm_rm::{JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet, StepRef};

fn launch_of(job: u64, run: u64) -> Command {
    Command::LaunchJob(Rc::new(launch(job, run, 1, 0)))
}

fn tell(core: &mut NodeCore, command: Command) -> Vec<Action> {
    core.handle(Event::Command(command))
}

fn answer(next_run: u64, kept: &[(u64, u64)]) -> Command {
    let resumed = |(job, run): &(u64, u64)| ResumedJob {
        step: StepRef::program(JobId(*job)),
        incarnation: JobIncarnation(*run),
        slot: JobSlot(0),
        partition: PartitionId(0),
        rows: RowSet(1),
        active_row: Row(0),
        coscheduling: Default::default(),
        hold_output: true,
    };
    Command::Resume {
        jobs: kept.iter().map(resumed).collect(),
        next_run: JobIncarnation(next_run),
        clients: None,
    }
}

/// A regression: a launch waited for the journal while its node died and returned. The next life
/// obeyed it, and nobody ended the job.
#[test]
fn nothing_is_believed_before_a_join_is_answered() {
    let mut core = joined(4);
    assert!(!tell(&mut core, launch_of(1, 1)).is_empty());
    core.handle(Event::Prepared { job: key(1, 1), outcome: Ok(()) });
    core.handle(Event::ManagerLost);
    let strobe = Strobe { partition: PartitionId(0), row: Row(1), number: 9, issued_ns: 0 };
    let (job, step) = (JobId(1), StepRef::program(JobId(1)));
    let early = [
        launch_of(2, 2),
        Command::Strobe(strobe),
        Command::SetRows { job, rows: RowSet(2) },
        Command::DestroyJob { step },
        Command::SignalJob { step, signal: 15 },
        Command::Input { step, data: Bytes::from_static(b"x"), eof: true },
        Command::HoldOutput { step, hold: false },
        Command::ReleaseJob { step },
    ];
    for command in early {
        assert_eq!(tell(&mut core, command), []);
    }
    let resumed = tell(&mut core, answer(3, &[(1, 1)]));
    assert!(resumed.contains(&Action::HoldOutput { job: key(1, 1), hold: true }), "{resumed:?}");
    let released = tell(&mut core, Command::HoldOutput { step, hold: false });
    assert_eq!(released, [Action::HoldOutput { job: key(1, 1), hold: false }]);
    assert!(!tell(&mut core, launch_of(2, 3)).is_empty());
    let leaving = tell(&mut joined(4), Command::Shutdown);
    assert!(leaving.contains(&Action::Leave), "{leaving:?}");
}

/// Regression: the ranks wrote before the client was back.
#[test]
fn a_launch_whose_client_is_not_back_holds_the_output_from_the_start() {
    let mut core = joined(4);
    let held = LaunchJob { hold_output: true, ..launch(1, 1, 1, 0) };
    let launched = tell(&mut core, Command::LaunchJob(Rc::new(held)));
    let hold = launched
        .iter()
        .position(|action| *action == Action::HoldOutput { job: key(1, 1), hold: true });
    let prepare = launched.iter().position(|action| matches!(action, Action::Prepare(_)));
    assert!(hold.is_some() && hold < prepare, "{launched:?}");
}

/// A regression: a job ended without a manager. The next manager got the end ahead of output that
/// waited for a client.
#[test]
fn the_end_of_a_job_is_told_after_its_withheld_output() {
    for hold in [false, true] {
        let (mut core, job) = (joined(4), key(1, 1));
        tell(&mut core, launch_of(1, 1));
        core.handle(Event::Prepared { job, outcome: Ok(()) });
        core.handle(Event::ManagerLost);
        for rank in [0, 1].map(Rank) {
            let status = ExitStatus::Code(0);
            let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
            core.handle(Event::Host(HostEvent::Exited { job, exit }));
            for stream in [Stream::Stdout, Stream::Stderr] {
                core.handle(Event::StreamEnded { job, rank, stream });
            }
        }
        assert_eq!(core.phase(job), Some(JobPhase::Ended));
        let Command::Resume { mut jobs, next_run, clients } = answer(3, &[(1, 1)]) else {
            panic!()
        };
        jobs[0].hold_output = hold;
        let mut actions = tell(&mut core, Command::Resume { jobs, next_run, clients });
        let is_end = |action: &Action| matches!(action, Action::Announce { .. });
        assert_eq!(actions.iter().any(is_end), !hold, "{actions:?}");
        if hold {
            actions = tell(
                &mut core,
                Command::HoldOutput { step: StepRef::program(JobId(1)), hold: false },
            );
        }
        let passed = Action::HoldOutput { job, hold: false };
        let passed = actions.iter().position(|action| *action == passed);
        let end = actions.iter().position(is_end);
        assert!(passed.is_some() && passed < end, "{actions:?}");
    }
}

#[test]
fn a_run_from_before_the_node_was_there_is_not_launched() {
    let mut core = joined(4);
    core.handle(Event::ManagerLost);
    // The manager has the same journal, so the node may get commands for runs that the manager
    // before had begun.
    tell(&mut core, answer(7, &[]));
    assert_eq!(core.first_run(), Some(JobIncarnation(1)));
    assert!(!tell(&mut core, launch_of(1, 5)).is_empty());

    let mut new = joined(4);
    assert_eq!(tell(&mut new, launch_of(1, 0)), []);
    new.handle(Event::ManagerLost);
    // The manager has another journal, which counts runs anew.
    tell(&mut new, answer(0, &[]));
    assert!(!tell(&mut new, launch_of(1, 0)).is_empty());
}
