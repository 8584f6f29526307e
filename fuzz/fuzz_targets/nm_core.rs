//! A Node Manager that gets any commands, and whose ranks do and say anything. Its reports can be
//! sent, and it keeps no more of a job than its processing elements.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::rc::Rc;
use storm_fuzz::{PES, Script, job_spec, survives};
use storm_nm::{Action, CoreConfig, Event, HostEvent, JobKey, LaunchRefused, NodeCore};
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, LaunchJob, NodeRanks, RankExit, Report, Stream};
use storm_rm::{
    InputSpec, JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet, StepRef,
};

/// The node.
const NODE: NodeId = NodeId(2);
/// Actions that one event can lead to: some for each rank of each job.
const MAX_ACTIONS: usize = 1 << 16;

/// A launch in the Machine Manager's form, of a job with ranks on three nodes.
fn launch(job: u8, run: u8, options: u8) -> Command {
    let share = |node| NodeRanks { node: NodeId(node), first: Rank((node - 1) * PES), count: PES };
    let mut spec = job_spec(3 * PES, options & 1 != 0, false);
    spec.step.input = if options & 2 != 0 { InputSpec::All } else { InputSpec::None };
    Command::LaunchJob(Rc::new(LaunchJob {
        step: StepRef::program(JobId(u64::from(job))),
        incarnation: JobIncarnation(u64::from(run)),
        place: JobIncarnation(u64::from(run)),
        slot: JobSlot(0),
        task: None,
        spec: Rc::new(spec),
        ranks: (1..=3).map(share).collect(),
        partition: PartitionId(0),
        rows: RowSet(u64::from(options)),
        active_row: Row(0),
        coscheduling: Default::default(),
        announcer: NODE,
        node_list: "n[1-3]".to_owned(),
        buffered: options & 4 != 0,
        hold_output: options & 8 != 0,
        facts: Default::default(),
    }))
}

/// An event of a rank of a job that the node knows.
fn news(script: &mut Script<'_>, job: JobKey) -> Event {
    let rank = Rank(u32::from(script.byte()) % (3 * PES));
    let refused = || LaunchRefused { reason: "no".to_owned(), exit_code: 127 };
    match script.byte() % 6 {
        0 => Event::Host(HostEvent::Launched { job, rank }),
        1 => Event::Host(HostEvent::LaunchFailed { job, rank, refused: refused() }),
        2 => {
            let status = script.message().unwrap_or(ExitStatus::Code(0));
            let exit = RankExit { rank, status, user_us: 1, system_us: 1, max_rss_kib: 1 };
            Event::Host(HostEvent::Exited { job, exit })
        }
        3 => {
            let line = String::from_utf8_lossy(script.line()).into_owned();
            Event::Host(HostEvent::Pmi { job, rank, line })
        }
        4 => Event::StreamEnded { job, rank, stream: Stream::Stdout },
        _ => Event::StreamEnded { job, rank, stream: Stream::Stderr },
    }
}

fn event(script: &mut Script<'_>, core: &NodeCore, unprepared: &mut Vec<JobKey>) -> Option<Event> {
    let known: Vec<JobKey> = core.jobs().collect();
    Some(match script.step(9)? {
        0 => Event::Command(script.message()?),
        1 => Event::Command(launch(script.byte() % 4, script.byte() % 4, script.byte())),
        2 | 3 => {
            let at = script.pick(unprepared.len());
            let job = at.map(|at| unprepared.swap_remove(at)).or(known.first().copied());
            Event::Prepared { job: job?, outcome: Ok(()) }
        }
        4 | 5 => {
            let job = known[script.pick(known.len())?];
            news(script, job)
        }
        6 => Event::SignalGraceOver { job: known[script.pick(known.len())?] },
        7 => Event::ManagerLost,
        _ => match script.byte() {
            0 => Event::Leave,
            1 => Event::Host(HostEvent::Lost),
            2 => {
                let job = known[script.pick(known.len())?];
                Event::Host(HostEvent::LeaseOver { job })
            }
            _ => Event::Unserviceable {
                job: known[script.pick(known.len())?],
                reason: "why not".to_owned(),
            },
        },
    })
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let (name, hostname) = ("n1".to_owned(), "host".to_owned());
    let config = CoreConfig { node: NODE, name, hostname, pes: PES, only_uid: None };
    let mut core = NodeCore::new(config);
    // The node believes nothing before its join is answered.
    let answer = Command::Resume { jobs: Vec::new(), next_run: JobIncarnation(0), clients: None };
    assert_eq!(core.handle(Event::Command(answer)), []);
    let mut unprepared = Vec::new();
    while let Some(event) = event(&mut script, &core, &mut unprepared) {
        let actions = core.handle(event);
        assert!(actions.len() <= MAX_ACTIONS);
        for action in actions {
            match action {
                Action::Prepare(task) => {
                    assert!(task.count <= PES, "a job of {} ranks", task.count);
                    unprepared.push(task.key());
                }
                Action::Post { report, .. } | Action::Announce { report, .. } => {
                    let encoded = postcard::to_stdvec(&report).expect("a report is encoded");
                    assert_eq!(survives::<Report>(&encoded), Some(report));
                }
                Action::PmiReply { line, .. } => assert!(!line.contains('\n'), "{line:?}"),
                _ => {}
            }
        }
        let _ = (core.held(), core.is_idle());
    }
});
