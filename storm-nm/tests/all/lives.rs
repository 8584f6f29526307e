//! Commands to an earlier life of a node are not obeyed in a later life.

use crate::core_properties::{RANKS, joined, key, launch};
use bytes::Bytes;
use std::rc::Rc;
use storm_nm::{Action, Event, HostEvent, NodeCore};
use storm_rm::message::{Command, ExitStatus, LaunchJob, RankExit, ResumedJob, Stream, Strobe};
use storm_rm::{JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet};

fn launch_of(job: u64, run: u32) -> Command {
    Command::LaunchJob(Rc::new(launch(job, run, 1, 0)))
}

fn tell(core: &mut NodeCore, command: Command) -> Vec<Action> {
    core.handle(Event::Command(command))
}

fn answer(next_run: u32, kept: &[(u64, u32)]) -> Command {
    let resumed = |(job, run): &(u64, u32)| ResumedJob {
        job: JobId(*job),
        incarnation: JobIncarnation(*run),
        slot: JobSlot(0),
        partition: PartitionId(0),
        rows: RowSet(1),
        active_row: Row(0),
        coscheduling: Default::default(),
        hold_output: true,
        input_known: false,
    };
    Command::Resume { jobs: kept.iter().map(resumed).collect(), next_run: JobIncarnation(next_run) }
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
    let job = JobId(1);
    let early = [
        launch_of(2, 2),
        Command::Strobe(strobe),
        Command::SetRows { job, rows: RowSet(2) },
        Command::DestroyJob { job },
        Command::SignalJob { job, signal: 15 },
        Command::Input { job, data: Bytes::from_static(b"x"), eof: true },
        Command::HoldOutput { job, hold: false },
        Command::ReleaseJob { job },
    ];
    for command in early {
        assert_eq!(tell(&mut core, command), []);
    }
    let resumed = tell(&mut core, answer(3, &[(1, 1)]));
    assert!(resumed.contains(&Action::HoldOutput { job: key(1, 1), hold: true }), "{resumed:?}");
    let released = tell(&mut core, Command::HoldOutput { job, hold: false });
    assert_eq!(released, [Action::HoldOutput { job: key(1, 1), hold: false }]);
    assert!(!tell(&mut core, launch_of(2, 3)).is_empty());
    let leaving = tell(&mut joined(4), Command::Shutdown);
    assert!(leaving.contains(&Action::Leave), "{leaving:?}");
}

/// Regression: a job that had ended was announced before the output that was kept for its client.
/// The Machine Manager passes on no output after the end.
#[test]
fn the_end_of_a_job_follows_its_output() {
    let mut core = joined(4);
    tell(&mut core, launch_of(1, 1));
    core.handle(Event::Prepared { job: key(1, 1), outcome: Ok(()) });
    for rank in (0..RANKS).map(Rank) {
        core.handle(Event::Host(HostEvent::Launched { job: key(1, 1), rank }));
        let status = ExitStatus::Code(0);
        let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        core.handle(Event::Host(HostEvent::Exited { job: key(1, 1), exit }));
    }
    let announces = |actions: &[Action]| {
        actions.iter().position(|action| matches!(action, Action::Announce { .. }))
    };
    let mut ended = Vec::new();
    for rank in (0..RANKS).map(Rank) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            ended = core.handle(Event::StreamEnded { job: key(1, 1), rank, stream });
        }
    }
    assert!(announces(&ended).is_some(), "{ended:?}");
    for _ in 0..2 {
        core.handle(Event::ManagerLost);
        let resumed = tell(&mut core, answer(2, &[(1, 1)]));
        assert!(resumed.contains(&Action::HoldOutput { job: key(1, 1), hold: true }));
        assert_eq!(announces(&resumed), None, "{resumed:?}");
    }
    let released = tell(&mut core, Command::HoldOutput { job: JobId(1), hold: false });
    assert_eq!(released[0], Action::HoldOutput { job: key(1, 1), hold: false });
    assert_eq!((announces(&released), released.len()), (Some(1), 2), "{released:?}");
    let again = tell(&mut core, Command::HoldOutput { job: JobId(1), hold: false });
    assert_eq!(announces(&again), None, "it is announced once");
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

#[test]
fn a_run_from_before_the_node_was_there_is_not_launched() {
    let mut core = joined(4);
    core.handle(Event::ManagerLost);
    // The manager has the same journal, so the node may be told of runs that the manager before had
    // begun.
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
