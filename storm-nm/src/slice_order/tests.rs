//! Random events, on a node that recalls the host's orders only when it must, and on a node that
//! recalls them before every event. Both nodes do the same at the same time.

use super::*;
use crate::ahead::DueSwitch;
use crate::core::CoreConfig;
use crate::{HostEvent, LaunchRefused};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, LaunchJob, NodeRanks, RankExit, ResumedJob, Stream};
use storm_rm::{
    Coscheduling, InputSpec, JobId, JobIncarnation, JobSlot, JobSpec, Owner, Program, Rank, StepRef,
};

const RANKS: u32 = 2;
const JOBS: u64 = 5;
const QUANTUM_US: u64 = 1_000;

fn key(job: u64) -> JobKey {
    JobKey { step: StepRef::program(JobId(job)), incarnation: JobIncarnation(1) }
}

fn partition_of(job: u64) -> PartitionId {
    PartitionId((job % 2) as u16)
}

fn launch(job: u64, rows: u64, active: u32) -> LaunchJob {
    let mut spec = JobSpec {
        owner: Owner { uid: 1, gid: 1 },
        procs: RANKS,
        requeue: job == 1,
        ..JobSpec::plain("p", Program::OnNodes("p".into()))
    };
    spec.step.input = InputSpec::All;
    LaunchJob {
        step: StepRef::program(JobId(job)),
        incarnation: JobIncarnation(1),
        place: JobIncarnation(1),
        slot: JobSlot(job as u32),
        task: None,
        spec: Rc::new(spec),
        ranks: [NodeRanks { node: NodeId(1), first: Rank(0), count: RANKS }].into_iter().collect(),
        partition: partition_of(job),
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

/// A host whose thread switches on time. Slices that switch nothing begin with the next switch or
/// at a recall, like on a live node.
#[derive(Debug, Default)]
struct Thread {
    plan: VecDeque<SwitchAhead>,
    done: Vec<SwitchDone>,
    stopped: BTreeMap<JobKey, bool>,
    destroyed: BTreeSet<JobKey>,
    recalls: u32,
}

impl Thread {
    fn next(&self) -> Option<Instant> {
        self.plan.iter().find(|switch| !switch.jobs.is_empty()).map(|switch| switch.due)
    }

    fn run(&mut self, now: Instant) {
        while let Some(due) = self.next().filter(|due| *due <= now) {
            let due = DueSwitch::take(&mut self.plan, due).unwrap();
            self.switch(&due.jobs.stop, &due.jobs.resume);
            self.done.extend(due.done((now, now)));
        }
    }

    /// Stops and resumes jobs that were not stopped and resumed before.
    fn switch(&mut self, stop: &[JobKey], resume: &[JobKey]) {
        for (keys, stopped) in [(stop, true), (resume, false)] {
            for key in keys {
                let was = self.stopped.insert(*key, stopped);
                assert_eq!(was, Some(!stopped), "{key} is switched for nothing");
            }
        }
    }

    fn recall(&mut self, now: Instant) -> Vec<SwitchDone> {
        self.recalls += 1;
        if let Some(due) = DueSwitch::take(&mut self.plan, now) {
            self.done.extend(due.done((now, now)));
        }
        self.plan.clear();
        std::mem::take(&mut self.done)
    }

    fn names(&self, job: JobKey) -> bool {
        let named = |jobs: &SwitchedJobs| jobs.stop.contains(&job) || jobs.resume.contains(&job);
        self.plan.iter().any(|switch| named(&switch.jobs))
    }
}

/// A node without network.
struct Side {
    core: NodeCore,
    order: SliceOrder,
    thread: Thread,
    /// Whether it recalls all orders before every event.
    is_eager: bool,
}

impl Side {
    fn new(is_eager: bool) -> Side {
        let config = CoreConfig {
            node: NodeId(1),
            name: "n1".to_owned(),
            hostname: "host1".to_owned(),
            pes: RANKS,
            only_uid: None,
        };
        let (core, order, thread) = (NodeCore::new(config), Default::default(), Default::default());
        let mut side = Side { core, order, thread, is_eager };
        side.take(resume(Vec::new()), Instant::ORIGIN);
        side
    }

    fn recall(&mut self, now: Instant) {
        let Side { core, order, thread, .. } = self;
        order.recall(core, || thread.recall(now));
    }

    /// Takes an event like the node manager does.
    fn take(&mut self, event: Event, now: Instant) -> Vec<Action> {
        self.thread.run(now);
        if self.is_eager {
            self.recall(now);
        }
        if event == Event::ManagerLost {
            self.recall(now);
            self.order.forget();
        }
        let Side { core, order, thread, .. } = self;
        let (actions, _) = order.take(core, event, || thread.recall(now));
        for action in &actions {
            match action {
                Action::Switch { stop, resume, .. } => {
                    assert!(!order.is_ordered(), "nobody else switches meanwhile");
                    thread.switch(stop, resume);
                }
                Action::Launch { task, stopped } => {
                    thread.stopped.insert(task.key(), *stopped);
                }
                Action::Follow { partition, slices } => {
                    assert!(!order.is_ordered(), "no order for earlier slices is left");
                    order.follow(*partition, slices.clone(), now);
                }
                // A host that has destroyed a job leaves it out of later orders.
                Action::Destroy { job } if !thread.destroyed.insert(*job) => {}
                Action::Destroy { job } | Action::End { job } | Action::Forget { job } => {
                    assert!(!thread.names(*job), "{job} is switched when it is not there");
                }
                _ => {}
            }
        }
        let plan = order.order(|| core.row_jobs());
        if !plan.is_empty() {
            thread.plan = plan.into();
        }
        actions
    }

    /// The knowledge of the core, except whether a job without processes stood at its end.
    fn whole_core(&self) -> String {
        format!("{:?}", self.core).replace("stopped: true", "").replace("stopped: false", "")
    }

    /// The jobs with processes, and whether they stand.
    fn standing(&self) -> BTreeMap<JobKey, bool> {
        let live: BTreeSet<JobKey> = self.core.row_jobs().into_keys().collect();
        let stopped = self.thread.stopped.iter().filter(|(job, _)| live.contains(job));
        stopped.map(|(job, stopped)| (*job, *stopped)).collect()
    }
}

fn resume(jobs: Vec<ResumedJob>) -> Event {
    Event::Command(Command::Resume { jobs, next_run: JobIncarnation(1), clients: None })
}

#[derive(Clone, Debug)]
enum Step {
    Launch { job: u64, rows: u64, active: u32 },
    Prepared { job: u64, is_sound: bool },
    Executes { job: u64, rank: u32 },
    Exits { job: u64, rank: u32 },
    Pmi { job: u64, rank: u32, line: usize },
    StreamEnds { job: u64, rank: u32, is_stdout: bool },
    Strobe { partition: u16, row: u32, skipped: u64 },
    Slices { partition: u16, rows: Vec<u32>, skipped: u64 },
    Waiting { jobs: u64 },
    SetRows { job: u64, rows: u64 },
    Signal { job: u64 },
    GraceOver { job: u64 },
    Input { job: u64 },
    Destroy { job: u64 },
    Release { job: u64 },
    Coschedule { job: u64 },
    Unserviceable { job: u64 },
    LeaseOver { job: u64 },
    NewManager { rows: u64 },
    GivenUp,
}

const LINES: [&str; 4] =
    ["cmd=init pmi_version=1 pmi_subversion=1", "cmd=barrier_in", "cmd=finalize", "nonsense"];

fn step() -> impl Strategy<Value = Step> {
    let job = || 1..=JOBS;
    let rows = || 0u64..8;
    let strobed = || (0u16..2, 0u32..3, 0u64..6);
    prop_oneof![
        6 => (job(), rows(), 0u32..3)
            .prop_map(|(job, rows, active)| Step::Launch { job, rows, active }),
        8 => (job(), prop::bool::weighted(0.9))
            .prop_map(|(job, is_sound)| Step::Prepared { job, is_sound }),
        3 => (job(), 0..RANKS).prop_map(|(job, rank)| Step::Executes { job, rank }),
        2 => (job(), 0..RANKS).prop_map(|(job, rank)| Step::Exits { job, rank }),
        4 => (job(), 0..RANKS, 0..LINES.len())
            .prop_map(|(job, rank, line)| Step::Pmi { job, rank, line }),
        3 => (job(), 0..RANKS, any::<bool>())
            .prop_map(|(job, rank, is_stdout)| Step::StreamEnds { job, rank, is_stdout }),
        2 => strobed()
            .prop_map(|(partition, row, skipped)| Step::Strobe { partition, row, skipped }),
        6 => (strobed(), prop::collection::vec(0u32..3, 0..12)).prop_map(
            |((partition, _, skipped), rows)| Step::Slices { partition, rows, skipped }
        ),
        2 => any::<u64>().prop_map(|jobs| Step::Waiting { jobs }),
        2 => (job(), rows()).prop_map(|(job, rows)| Step::SetRows { job, rows }),
        2 => job().prop_map(|job| Step::Signal { job }),
        2 => job().prop_map(|job| Step::GraceOver { job }),
        3 => job().prop_map(|job| Step::Input { job }),
        1 => job().prop_map(|job| Step::Destroy { job }),
        1 => job().prop_map(|job| Step::Release { job }),
        1 => job().prop_map(|job| Step::Coschedule { job }),
        1 => job().prop_map(|job| Step::Unserviceable { job }),
        1 => job().prop_map(|job| Step::LeaseOver { job }),
        1 => rows().prop_map(|rows| Step::NewManager { rows }),
        1 => Just(Step::GivenUp),
    ]
}

/// The knowledge of the Machine Manager and the host, which report nothing impossible.
#[derive(Default)]
struct Known {
    launched: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    started: BTreeSet<u64>,
    strobes: BTreeMap<u16, u64>,
}

impl Known {
    fn events(&mut self, step: Step, core: &NodeCore) -> Vec<Event> {
        let command = |command| vec![Event::Command(command)];
        let host = |event| vec![Event::Host(event)];
        match step {
            Step::Launch { job, rows, active } if self.launched.insert(job) => {
                self.waiting.insert(job);
                command(Command::LaunchJob(Rc::new(launch(job, rows, active))))
            }
            Step::Prepared { job, is_sound } if self.waiting.remove(&job) => {
                let refused = LaunchRefused { reason: "refused".to_owned(), exit_code: 126 };
                let outcome = if is_sound { Ok(()) } else { Err(refused) };
                self.started.extend(is_sound.then_some(job));
                vec![Event::Prepared { job: key(job), outcome }]
            }
            Step::Launch { .. } | Step::Prepared { .. } => Vec::new(),
            Step::Executes { job, rank } => {
                host(HostEvent::Launched { job: key(job), rank: Rank(rank) })
            }
            Step::Exits { job, rank } if self.started.contains(&job) => {
                let status = ExitStatus::Code(0);
                let rank = Rank(rank);
                let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
                host(HostEvent::Exited { job: key(job), exit })
            }
            Step::Pmi { job, rank, line } if self.started.contains(&job) => {
                let line = LINES[line].to_owned();
                host(HostEvent::Pmi { job: key(job), rank: Rank(rank), line })
            }
            Step::Exits { .. } | Step::Pmi { .. } => Vec::new(),
            Step::StreamEnds { job, rank, is_stdout } => {
                let stream = if is_stdout { Stream::Stdout } else { Stream::Stderr };
                vec![Event::StreamEnded { job: key(job), rank: Rank(rank), stream }]
            }
            Step::Strobe { partition, row, skipped } => {
                command(Command::Strobe(self.strobe(partition, row, skipped)))
            }
            Step::Slices { partition, rows, skipped } => {
                let strobe = self.strobe(partition, rows.first().copied().unwrap_or(0), skipped);
                let following = rows.into_iter().skip(1).map(Row).collect();
                let quantum_ns = QUANTUM_US * 1_000;
                command(Command::Slices(Slices { strobe, quantum_ns, following }))
            }
            Step::Waiting { jobs } => {
                let waits = (1..=JOBS).filter(|job| jobs >> job & 1 == 1);
                vec![Event::Waiting { jobs: waits.map(key).collect() }]
            }
            Step::SetRows { job, rows } => {
                command(Command::SetRows { job: JobId(job), rows: RowSet(rows) })
            }
            Step::Signal { job } => {
                command(Command::SignalJob { step: StepRef::program(JobId(job)), signal: 15 })
            }
            Step::GraceOver { job } => vec![Event::SignalGraceOver { job: key(job) }],
            Step::Input { job } => {
                let data = bytes::Bytes::from_static(b"input");
                command(Command::Input { step: StepRef::program(JobId(job)), data, eof: false })
            }
            Step::Destroy { job } => {
                command(Command::DestroyJob { step: StepRef::program(JobId(job)) })
            }
            Step::Release { job } => {
                command(Command::ReleaseJob { step: StepRef::program(JobId(job)) })
            }
            Step::Coschedule { job } => {
                let coscheduling = Coscheduling::Flexible;
                command(Command::Coschedule { job: JobId(job), coscheduling })
            }
            Step::Unserviceable { job } => {
                vec![Event::Unserviceable { job: key(job), reason: "no room".to_owned() }]
            }
            Step::LeaseOver { job } => host(HostEvent::LeaseOver { job: key(job) }),
            Step::NewManager { rows } => self.new_manager(rows, core),
            Step::GivenUp => vec![Event::GivenUp],
        }
    }

    /// Another Machine Manager, which counts its strobes anew, resumes the jobs.
    fn new_manager(&mut self, rows: u64, core: &NodeCore) -> Vec<Event> {
        self.strobes.clear();
        let resumed = |job: JobKey| ResumedJob {
            step: job.step,
            incarnation: job.incarnation,
            slot: JobSlot(job.step.job.0 as u32),
            partition: partition_of(job.step.job.0),
            rows: RowSet(rows),
            active_row: Row(0),
            hold_output: false,
            coscheduling: Default::default(),
        };
        vec![Event::ManagerLost, resume(core.jobs().map(resumed).collect())]
    }

    fn strobe(&mut self, partition: u16, row: u32, skipped: u64) -> Strobe {
        let number = self.strobes.entry(partition).or_default();
        *number += 1 + skipped;
        Strobe { partition: PartitionId(partition), row: Row(row), number: *number, issued_ns: 0 }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn recalls_that_are_left_out_change_nothing(
        steps in prop::collection::vec((0u64..3 * QUANTUM_US, step()), 0..150),
    ) {
        let (mut lazy, mut eager) = (Side::new(false), Side::new(true));
        let (mut known, mut now) = (Known::default(), Instant::ORIGIN);
        for (passes_us, step) in steps {
            now = now + Duration::from_micros(passes_us);
            for event in known.events(step, &eager.core) {
                let expected = eager.take(event.clone(), now);
                prop_assert_eq!(lazy.take(event, now), expected);
                prop_assert_eq!(lazy.standing(), eager.standing());
            }
        }
        lazy.recall(now);
        eager.recall(now);
        prop_assert_eq!(lazy.core.row_jobs(), eager.core.row_jobs());
        prop_assert_eq!(lazy.whole_core(), eager.whole_core());
        prop_assert!(lazy.thread.recalls <= eager.thread.recalls);
    }
}

/// A node with a job in each of rows 0 and 1 of a partition, in their first slice of many.
fn pair() -> Side {
    let mut side = Side::new(false);
    for (job, rows) in [(2, 0b01), (4, 0b10)] {
        side.take(
            Event::Command(Command::LaunchJob(Rc::new(launch(job, rows, 0)))),
            Instant::ORIGIN,
        );
        side.take(Event::Prepared { job: key(job), outcome: Ok(()) }, Instant::ORIGIN);
    }
    let strobe = Strobe { partition: PartitionId(0), row: Row(0), number: 1, issued_ns: 0 };
    let following = (1..100).map(|slice| Row(slice % 2)).collect();
    let slices = Slices { strobe, quantum_ns: QUANTUM_US * 1_000, following };
    side.take(Event::Command(Command::Slices(slices)), Instant::ORIGIN);
    side
}

#[test]
fn a_job_that_ends_is_taken_out_of_the_orders_and_other_events_leave_them_alone() {
    let mut side = pair();
    let at = |slice: u64| Instant::from_nanos((slice * QUANTUM_US + 1) * 1_000);
    let recalls = side.thread.recalls;
    let line = LINES[0].to_owned();
    side.take(Event::Host(HostEvent::Pmi { job: key(2), rank: Rank(0), line }), at(3));
    assert!(side.core.is_stopped(key(4)), "nobody told the core");
    assert!(!side.thread.stopped[&key(4)]);
    let exits = |rank| {
        let (rank, status) = (Rank(rank), ExitStatus::Code(0));
        let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        Event::Host(HostEvent::Exited { job: key(4), exit })
    };
    side.take(exits(0), at(5));
    assert_eq!(side.thread.recalls, recalls, "a rank of it is left");
    side.take(exits(1), at(6));
    assert_eq!(side.thread.recalls, recalls + 1);
    assert!(!side.thread.names(key(4)) && side.thread.names(key(2)));
    assert!(!side.core.is_stopped(key(2)), "the core knows the slice");
}

#[test]
fn what_is_due_next_passes_with_time() {
    let side = pair();
    let us = |us: u64| Instant::from_nanos(us * 1_000);
    assert_eq!(side.order.due_from(us(0)), Some(us(1_000)));
    assert_eq!(side.order.due_from(us(1_000)), Some(us(1_000)));
    assert_eq!(side.order.due_from(us(1_001)), Some(us(2_000)));
    assert_eq!(side.order.due_from(us(99_001)), None);
}
