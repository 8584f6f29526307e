//! The core keeps its promises whatever happens, in any order. A model of the host checks it after
//! every step.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use storm_nm::{Action, CoreConfig, Event, HostEvent, JobKey, JobPhase, LaunchRefused, NodeCore};
use storm_primitives::NodeId;
use storm_rm::message::{
    Command, ExitStatus, LaunchJob, NodeRanks, RankExit, Report, Stream, Strobe,
};
use storm_rm::{
    JobId, JobIncarnation, JobSlot, JobSpec, Owner, PartitionId, Program, Rank, Row, RowSet,
    StepRef,
};

pub(crate) const RANKS: u32 = 2;

/// A step of the test.
#[derive(Clone, Debug)]
enum Step {
    Launch { job: u64, incarnation: u64, rows: u64, active: u32 },
    Prepared { job: u64, incarnation: u64, sound: bool },
    Executes { job: u64, incarnation: u64, rank: u32 },
    Exits { job: u64, incarnation: u64, rank: u32, code: u8 },
    StreamEnds { job: u64, incarnation: u64, rank: u32, stdout: bool },
    Strobe { row: u32, number: u64 },
    Waiting { jobs: u64 },
    SetRows { job: u64, rows: u64 },
    Signal { job: u64, signal: i32 },
    GraceOver { job: u64, incarnation: u64 },
    Destroy { job: u64 },
    Release { job: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let job = || (1u64..4, 1u64..3);
    prop_oneof![
        3 => (job(), 0u64..4, 0u32..2).prop_map(|((job, incarnation), rows, active)| {
            Step::Launch { job, incarnation, rows, active }
        }),
        4 => (job(), prop::bool::weighted(0.8)).prop_map(|((job, incarnation), sound)| {
            Step::Prepared { job, incarnation, sound }
        }),
        4 => (job(), 0..RANKS).prop_map(|((job, incarnation), rank)| {
            Step::Executes { job, incarnation, rank }
        }),
        5 => (job(), 0..RANKS, 0u8..2).prop_map(|((job, incarnation), rank, code)| {
            Step::Exits { job, incarnation, rank, code }
        }),
        5 => (job(), 0..RANKS, any::<bool>()).prop_map(|((job, incarnation), rank, stdout)| {
            Step::StreamEnds { job, incarnation, rank, stdout }
        }),
        4 => (0u32..2, 1u64..100).prop_map(|(row, number)| Step::Strobe { row, number }),
        3 => (0u64..16).prop_map(|jobs| Step::Waiting { jobs }),
        1 => (1u64..4, 0u64..4).prop_map(|(job, rows)| Step::SetRows { job, rows }),
        1 => (1u64..4, prop_oneof![Just(15), Just(9)]).prop_map(|(job, signal)| {
            Step::Signal { job, signal }
        }),
        2 => job().prop_map(|(job, incarnation)| Step::GraceOver { job, incarnation }),
        1 => (1u64..4).prop_map(|job| Step::Destroy { job }),
        1 => (1u64..4).prop_map(|job| Step::Release { job }),
    ]
}

pub(crate) fn key(job: u64, incarnation: u64) -> JobKey {
    JobKey { step: StepRef::program(JobId(job)), incarnation: JobIncarnation(incarnation) }
}

fn exit(rank: u32, code: u8) -> RankExit {
    let status = ExitStatus::Code(code);
    RankExit { rank: Rank(rank), status, user_us: 0, system_us: 0, max_rss_kib: 0 }
}

pub(crate) fn launch(job: u64, incarnation: u64, rows: u64, active: u32) -> LaunchJob {
    let spec = JobSpec {
        owner: Owner { uid: 1, gid: 1 },
        procs: RANKS,
        ..JobSpec::plain("p", Program::OnNodes("p".into()))
    };
    LaunchJob {
        step: StepRef::program(JobId(job)),
        incarnation: JobIncarnation(incarnation),
        place: JobIncarnation(incarnation),
        slot: JobSlot(job as u32),
        task: None,
        spec: Rc::new(spec),
        ranks: [NodeRanks { node: NodeId(1), first: Rank(0), count: RANKS }].into_iter().collect(),
        partition: PartitionId(0),
        rows: RowSet(rows),
        active_row: Row(active),
        coscheduling: Default::default(),
        announcer: NodeId(1),
        node_list: "n1".to_owned(),
        buffered: false,
        hold_output: false,
        facts: Default::default(),
    }
}

/// The state of a real host, and the reports to the Machine Manager.
#[derive(Default)]
struct Model {
    prepared: BTreeSet<JobKey>,
    launched: BTreeMap<JobKey, bool>,
    ended: BTreeSet<JobKey>,
    announced: BTreeSet<JobKey>,
    forgotten: BTreeSet<JobKey>,
}

impl Model {
    fn take(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match action {
            Action::Prepare(task) => {
                prop_assert!(self.prepared.insert(task.key()), "prepared twice");
            }
            Action::Launch { task, stopped } => {
                prop_assert!(self.prepared.contains(&task.key()), "launched unprepared");
                let first = self.launched.insert(task.key(), *stopped).is_none();
                prop_assert!(first, "launched twice");
            }
            Action::Switch { stop, resume, .. } => {
                for (keys, stopped) in [(stop, true), (resume, false)] {
                    for job in keys {
                        let was = self.launched.insert(*job, stopped);
                        prop_assert_eq!(was, Some(!stopped), "{} switched for nothing", job);
                        prop_assert!(!self.ended.contains(job), "{} switched when over", job);
                    }
                }
            }
            Action::End { job } => {
                prop_assert!(self.ended.insert(*job), "ended twice");
            }
            Action::Announce { part, report } => {
                let Report::Terminated { step, incarnation, ranks } = report else {
                    return Err(TestCaseError::fail("announced something else"));
                };
                let key = JobKey { step: *step, incarnation: *incarnation };
                prop_assert!(self.announced.insert(key), "announced twice");
                prop_assert!(self.ended.contains(&key), "announced before its end");
                prop_assert_eq!(ranks.len() as u32, RANKS);
                prop_assert_eq!(part.ended, part.ranks);
            }
            Action::Forget { job } => {
                prop_assert!(self.ended.contains(job), "forgotten alive");
                prop_assert!(self.forgotten.insert(*job), "forgotten twice");
            }
            Action::Destroy { job } | Action::Signal { job, .. } => {
                prop_assert!(self.launched.contains_key(job), "nothing there to kill");
            }
            _ => {}
        }
        Ok(())
    }
}

fn event(step: &Step, model: &mut Model) -> Option<Event> {
    let host = |event| Some(Event::Host(event));
    let command = |command| Some(Event::Command(command));
    match *step {
        Step::Launch { job, incarnation, rows, active } => {
            // A Machine Manager launches a run once.
            let known = model.prepared.contains(&key(job, incarnation));
            let launch = launch(job, incarnation, rows, active);
            if known { None } else { command(Command::LaunchJob(Rc::new(launch))) }
        }
        Step::Prepared { job, incarnation, sound } => {
            let job = key(job, incarnation);
            let waits = model.prepared.contains(&job) && !model.launched.contains_key(&job);
            let refused = LaunchRefused { reason: "refused".to_owned(), exit_code: 126 };
            let outcome = if sound { Ok(()) } else { Err(refused) };
            (waits && !model.ended.contains(&job)).then_some(Event::Prepared { job, outcome })
        }
        Step::Executes { job, incarnation, rank } => {
            host(HostEvent::Launched { job: key(job, incarnation), rank: Rank(rank) })
        }
        Step::Exits { job, incarnation, rank, code } => {
            let job = key(job, incarnation);
            // A process that was never started cannot end.
            let started = model.launched.contains_key(&job);
            started.then(|| Event::Host(HostEvent::Exited { job, exit: exit(rank, code) }))
        }
        Step::StreamEnds { job, incarnation, rank, stdout } => {
            let stream = if stdout { Stream::Stdout } else { Stream::Stderr };
            Some(Event::StreamEnded { job: key(job, incarnation), rank: Rank(rank), stream })
        }
        Step::Strobe { row, number } => command(Command::Strobe(Strobe {
            partition: PartitionId(0),
            row: Row(row),
            number,
            issued_ns: 0,
        })),
        Step::Waiting { jobs } => {
            let runs = (1..4).flat_map(|job| [(job, 1), (job, 2)]);
            let waits = runs.filter(|(job, _)| jobs >> job & 1 == 1);
            let jobs = waits.map(|(job, incarnation)| key(job, incarnation)).collect();
            Some(Event::Waiting { jobs })
        }
        Step::SetRows { job, rows } => {
            command(Command::SetRows { job: JobId(job), rows: RowSet(rows) })
        }
        Step::Signal { job, signal } => {
            command(Command::SignalJob { step: StepRef::program(JobId(job)), signal })
        }
        Step::GraceOver { job, incarnation } => {
            Some(Event::SignalGraceOver { job: key(job, incarnation) })
        }
        Step::Destroy { job } => {
            command(Command::DestroyJob { step: StepRef::program(JobId(job)) })
        }
        Step::Release { job } => {
            command(Command::ReleaseJob { step: StepRef::program(JobId(job)) })
        }
    }
}

/// A node of `pes` processing elements whose join was answered.
pub(crate) fn joined(pes: u32) -> NodeCore {
    let hostname = "host1".to_owned();
    let (node, name) = (NodeId(1), "n1".to_owned());
    let mut core = NodeCore::new(CoreConfig { node, name, hostname, pes, only_uid: None });
    let answer = Command::Resume { jobs: Vec::new(), next_run: JobIncarnation(1), clients: None };
    assert_eq!(core.handle(Event::Command(answer)), []);
    core
}

/// Brings every job to its end: all ranks end and all streams close.
fn conclude(core: &mut NodeCore, model: &mut Model) -> Result<(), TestCaseError> {
    let jobs: Vec<JobKey> = core.jobs().collect();
    for job in jobs {
        let mut events = Vec::new();
        if core.phase(job) == Some(JobPhase::Preparing) {
            events.push(Event::Prepared { job, outcome: Ok(()) });
        }
        for rank in 0..RANKS {
            events.push(Event::Host(HostEvent::Exited { job, exit: exit(rank, 0) }));
            for stream in [Stream::Stdout, Stream::Stderr] {
                events.push(Event::StreamEnded { job, rank: Rank(rank), stream });
            }
        }
        for event in events {
            core.handle(event).iter().try_for_each(|action| model.take(action))?;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_core_keeps_its_promises(steps in prop::collection::vec(step(), 0..120)) {
        let mut core = joined(RANKS);
        let mut model = Model::default();
        for step in &steps {
            let Some(event) = event(step, &mut model) else { continue };
            core.handle(event).iter().try_for_each(|action| model.take(action))?;
            for job in core.jobs() {
                let live = matches!(
                    core.phase(job), Some(JobPhase::Launching | JobPhase::Running)
                );
                if live {
                    let stopped = model.launched.get(&job).copied();
                    prop_assert_eq!(stopped, Some(core.is_stopped(job)), "the host knows better");
                }
            }
        }
        conclude(&mut core, &mut model)?;
        prop_assert!(core.is_idle(), "a job never ends");
        for job in core.jobs() {
            prop_assert!(model.announced.contains(&job), "{} ended in silence", job);
        }
    }
}
