//! The bytes of entries of every kind, by their hash: a change of them needs another form.

use super::Entry;
use super::redb_journal::FORM;
use crate::api::{JobState, LaunchBreakdown, Service};
use crate::cluster::{
    ClusterEvent, ClusterEventKind, PartitionConfigured, PartitionSetting, ReservationRecord,
    UsageOf,
};
use crate::job::{
    Cut, DependencyNote, EndCause, EndedStep, FencePart, Hold, JobEvent, JobEventKind, Outcome,
    PartEnd, StepEvent, StepPlace, StepUse, Terms,
};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::message::{ExitStatus, NodeRanks, RankExit};
use storm_rm::{
    ArraySpec, Condition, ContentHash, Dependency, Destination, EarlySignal, Environment, FileSpec,
    IndexRange, JobId, JobIncarnation, JobSpec, Memory, Needs, OutputSpec, Program, Rank, Remarks,
    ResourceLimit, Resources, Row, StepAsk, StepSize, StepSpec,
};
use storm_sched::ReservationId;

/// The form whose bytes [`HASH`] is of.
const HASH_OF: &str = "events-7";
const HASH: &str = "da0b958d1a6948eb24be05e86f6288928e4738a31449a41557d09a645489c5ac";

const TIME: Duration = Duration::new(3, 500);

fn at() -> Timestamp {
    Timestamp::from_second(1_700_000_000).expect("a time")
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn dependency() -> Dependency {
    let (job, minutes) = (JobId(4), 5);
    let conditions = vec![
        Condition::AfterOk(JobId(1)),
        Condition::AfterAny(JobId(2)),
        Condition::AfterNotOk(JobId(3)),
        Condition::Singleton,
        Condition::After { job, minutes },
        Condition::AfterCorr(JobId(6)),
    ];
    Dependency { any: true, conditions }
}

/// A request in which every part has a value.
fn spec() -> JobSpec {
    let file = |destination| FileSpec {
        hash: ContentHash([7; 32]),
        size_bytes: 8,
        mode: 0o755,
        name: "f".into(),
        destination,
    };
    let program = Program::Shipped(file(Destination::JobDirectory));
    let ranges = vec![IndexRange { first: 1, last: 9, step: 2 }];
    let step = StepSpec {
        env: Environment::default().with("A", "b"),
        limits: vec![ResourceLimit { resource: 7, soft: 1024 }],
        files: vec![
            file(Destination::Path("/p".into())),
            file(Destination::JobDirectoryUnlessAt("/q".into())),
        ],
        output: OutputSpec::Files { stdout: "o".into(), stderr: Some("e".into()) },
        kill_on_bad_exit: true,
        ..StepSpec::plain("job", program)
    };
    JobSpec {
        nodes: Some(2),
        resources: Resources {
            cpus_per_task: 2,
            tasks_per_node: Some(3),
            memory: Memory::PerCpu(1 << 20),
            exclusive: true,
            constraint: some("gpu"),
            nodes_max: Some(4),
            required_nodes: some("n1"),
            excluded_nodes: some("n2"),
        },
        partition: some("main"),
        sched: some("gang"),
        time_limit: Some(TIME),
        early_signal: Some(EarlySignal { signal: 10, before: TIME, script_only: true }),
        needs: Needs {
            hold: true,
            begin: Some(at()),
            dependency: Some(dependency()),
            kill_on_invalid_dep: true,
            array: Some(ArraySpec { ranges, limit: Some(3) }),
        },
        remarks: Remarks { comment: some("c"), wckey: some("w") },
        step,
        ..JobSpec::plain("job", Program::OnNodes("/bin/true".into()))
    }
}

fn ranks() -> Vec<NodeRanks> {
    vec![NodeRanks { node: NodeId(1), first: Rank(2), count: 3 }]
}

fn exits() -> Vec<RankExit> {
    let exit = |rank, status| RankExit { rank, status, user_us: 1, system_us: 2, max_rss_kib: 3 };
    vec![exit(Rank(0), ExitStatus::Code(1)), exit(Rank(1), ExitStatus::Signal(9))]
}

fn outcome() -> Outcome {
    Outcome { state: JobState::OutOfMemory, exit_code: 137, reason: some("r") }
}

/// Every cause, in the order of their numbers.
fn causes() -> Vec<EndCause> {
    let (node, reason, uid, rank, exit_code) = ("n1".to_owned(), "r".to_owned(), 7, Rank(1), 2);
    let cuts = [Cut::Staging, Cut::Launch, Cut::NotKept, Cut::Slices];
    let mut causes = vec![
        EndCause::Cancelled { uid },
        EndCause::NodeLost { node: node.clone() },
        EndCause::RankKilled {
            rank,
            node: node.clone(),
            signal: 11,
            with: Some(Box::new(EndCause::TimeLimit)),
        },
        EndCause::Aborted { rank, exit_code },
        EndCause::LaunchFailed { reason: reason.clone(), exit_code },
        EndCause::StagingFailed { reason: reason.clone() },
        EndCause::TimeLimit,
        EndCause::ManagerRestarted,
        EndCause::Shutdown,
        EndCause::ScriptEnded,
        EndCause::Unplaceable { reason: reason.clone() },
        EndCause::Unserviceable { reason: reason.clone() },
        EndCause::OverMemory { reason: reason.clone() },
        EndCause::RequeuedBy { uid },
        EndCause::DependencyNeverSatisfied { condition: reason },
        EndCause::Preempted { by: JobId(9), requeue: true },
        EndCause::RankLeft { rank, node: node.clone(), exit_code },
        EndCause::NodeRemoved { node: node.clone() },
        EndCause::ClientLeft,
        EndCause::ClientInterrupted,
    ];
    let cut = |cut| EndCause::LaunchCut { node: node.clone(), cut, launches: 2 };
    causes.extend(cuts.map(cut));
    causes.extend([EndCause::ClientLeft, EndCause::BadExit { rank, node, exit_code }]);
    causes
}

fn events_of_a_step() -> Vec<StepEvent> {
    let (run, ask, size) = (
        JobIncarnation(5),
        StepAsk(6),
        StepSize { time_limit: Some(TIME), ..StepSize::of_procs(2) },
    );
    let step = EndedStep {
        ask,
        name: "a".to_owned(),
        procs: 2,
        place: StepPlace {
            nodes: 1,
            node_list: "n1".to_owned(),
            elements: 2,
            time_limit: Some(TIME),
        },
        began: at(),
        started: Some(at()),
        ended: at(),
        outcome: outcome(),
        exit: Some(ExitStatus::Code(3)),
        used: StepUse { user: TIME, system: TIME, max_rss_kib: 4 },
    };
    vec![
        StepEvent::Began { run, ask, size, spec: Rc::new(spec().step), ranks: ranks() },
        StepEvent::Started,
        StepEvent::Ending { cause: EndCause::ScriptEnded },
        StepEvent::PartOver { node: NodeId(1), end: part_end() },
        StepEvent::Ended { next: 3, latest_run: run, step: Box::new(step) },
    ]
}

/// Events of a job of every kind.
fn of_job() -> Vec<JobEventKind> {
    let (partition, time, uid) = ("main".to_owned(), TIME, 7);
    let service = Rc::new(Service { account: some("a"), qos: some("q"), nice: -3 });
    let breakdown = LaunchBreakdown { read_ms: 1.5, sent_bytes: 9, ..LaunchBreakdown::default() };
    let terms = Box::new(Terms {
        name: "job".to_owned(),
        partition: partition.clone(),
        time_limit: Some(TIME),
        nice: 4,
        comment: some("c"),
        dependency: Some(dependency()),
    });
    let spec = Rc::new(spec());
    let mut kinds = vec![
        JobEventKind::Submitted {
            spec: spec.clone(),
            partition: partition.clone(),
            service: service.clone(),
        },
        JobEventKind::ArraySubmitted { spec, partition, service },
        JobEventKind::InReservation { id: ReservationId(2), name: "r".to_owned() },
        JobEventKind::Held { hold: Hold::Admin },
        JobEventKind::Released { uid },
        JobEventKind::DependencyNoted { on: JobId(3), note: DependencyNote::Begun { at: at() } },
        JobEventKind::DependencyNoted {
            on: JobId(3),
            note: DependencyNote::CorrespondingEnded { completed: true },
        },
        JobEventKind::DependencyEnded { on: JobId(3), completed: true },
        JobEventKind::Placed {
            incarnation: JobIncarnation(4),
            ranks: ranks(),
            row: Row(2),
            node_list: "n1".to_owned(),
        },
        JobEventKind::OnElements { elements: vec![(NodeId(1), 2, 3)] },
        JobEventKind::Started { breakdown },
        JobEventKind::Ran { time },
        JobEventKind::SignalledEarly { signal: 10 },
        JobEventKind::Moved { row: Row(3) },
        JobEventKind::Suspended { by: JobId(8), time },
        JobEventKind::Resumed { time },
        JobEventKind::StoppedBy { uid, time },
        JobEventKind::ContinuedBy { uid, time },
        JobEventKind::Changed { uid, terms, what: "w".to_owned(), waits_anew: true },
        JobEventKind::Requeued { cause: EndCause::TimeLimit },
        JobEventKind::Ended { outcome: outcome(), exits: exits(), ran: TIME },
        JobEventKind::UnderPolicy { sched: "gang".to_owned() },
        JobEventKind::PartOver { node: NodeId(1), end: part_end() },
        JobEventKind::FirstOver { exits: exits() },
    ];
    kinds.extend(causes().into_iter().map(|cause| JobEventKind::Ending { cause }));
    let of_step = |event| JobEventKind::Step { number: 3, event };
    kinds.extend(events_of_a_step().into_iter().map(of_step));
    kinds
}

fn part_end() -> PartEnd {
    let fence = FencePart { sequence: 2, puts: vec![("k".to_owned(), "v".to_owned())] };
    PartEnd { exits: exits(), fences: vec![fence] }
}

/// Events of the cluster of every kind.
fn of_cluster() -> Vec<ClusterEventKind> {
    let name = || "main".to_owned();
    let configured = PartitionConfigured { sched: "gang".to_owned(), quantum_us: 5 };
    let setting =
        PartitionSetting { sched: "gang".to_owned(), quantum_us: 5, next_sched: some("fcfs") };
    let reservation = ReservationRecord {
        id: ReservationId(1),
        name: "r".to_owned(),
        partition: name(),
        nodes: vec!["n1".to_owned()],
        start: at(),
        end: at(),
        users: vec!["ada".to_owned()],
    };
    let usage = vec![UsageOf { account: "a".to_owned(), uid: 7, pe_s: 1.5 }];
    let reservations = vec![reservation];
    vec![
        ClusterEventKind::NodesNumbered { ids: BTreeMap::from([("n1".to_owned(), NodeId(1))]) },
        ClusterEventKind::PartitionsConfigured {
            partitions: BTreeMap::from([(name(), configured)]),
        },
        ClusterEventKind::PartitionsSet { settings: BTreeMap::from([(name(), setting)]) },
        ClusterEventKind::NodesDrained {
            drained: BTreeMap::from([("n1".to_owned(), "r".to_owned())]),
        },
        ClusterEventKind::ReservationsSet { next: 2, reservations },
        ClusterEventKind::UsageNoted { usage, charged: BTreeMap::from([(JobId(7), TIME)]) },
    ]
}

/// Fails unless these are variants of every number that the type has.
fn check_all_kinds<T: Serialize + DeserializeOwned>(values: &[T]) {
    let number = |value: &T| postcard::to_allocvec(value).expect("encodable")[0];
    let numbers: BTreeSet<u8> = values.iter().map(number).collect();
    let kinds = numbers.len() as u8;
    assert_eq!(numbers, (0..kinds).collect(), "a kind is missing");
    let next: Result<T, _> = postcard::from_bytes(&[kinds]);
    assert_eq!(next.err(), Some(postcard::Error::SerdeDeCustom), "a kind is missing");
}

#[test]
fn bytes_of_entries_change_with_the_form_only() {
    check_all_kinds(&of_job());
    check_all_kinds(&causes());
    check_all_kinds(&events_of_a_step());
    check_all_kinds(&of_cluster());
    let of_job = of_job().into_iter();
    let of_job = of_job.map(|kind| Entry::Job(JobId(7), JobEvent { at: at(), kind }));
    let of_cluster = of_cluster().into_iter();
    let of_cluster = of_cluster.map(|kind| Entry::Cluster(ClusterEvent { at: at(), kind }));
    let mut hasher = blake3::Hasher::new();
    hasher.update(&postcard::to_allocvec(&JobState::ALL).expect("encodable"));
    for entry in of_job.chain(of_cluster) {
        hasher.update(&postcard::to_allocvec(&entry).expect("encodable"));
    }
    let hash = hasher.finalize().to_hex();
    assert_eq!(
        (FORM, hash.as_str()),
        (HASH_OF, HASH),
        "if the bytes have changed, raise FORM and note it in CHANGELOG; else set HASH"
    );
}
