//! Heartbeats and reports survive their encoding, and no bytes make the decoder panic.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{MAX_NODES, NodeId, NodeSet};
use storm_rm::heartbeat::{decode_for, encode};
use storm_rm::message::{
    Command, CutLaunch, ExitStatus, Heartbeat, HeldJob, LaunchJob, NodeInfo, NodeRanks, NodeReturn,
    NodeStatus, RankExit, ReceiveFile, Report, Stream, Strobe,
};
use storm_rm::{
    ArraySpec, ArrayTask, Binding, Channel, Condition, ContentHash, ContentSum, Dependency,
    Destination, EarlySignal, FileSpec, FirstStep, Generation, IndexRange, InputSpec, JobId,
    JobIncarnation, JobSlot, JobSpec, LaunchFacts, Memory, Needs, OpenMode, OsBytes, OutputSpec,
    Owner, PartitionId, Program, Rank, Remarks, ResourceLimit, Resources, Row, RowSet, StepId,
    StepRef, StepSpec,
};
use storm_rm::{Coscheduling, ProcessClass, ProcessFigures, RankClass, Witness};

/// The node that decodes.
const NODE: NodeId = NodeId(3);

fn os_bytes() -> impl Strategy<Value = OsBytes> {
    vec(any::<u8>(), 0..20).prop_map(OsBytes::from)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..100).prop_map(Bytes::from)
}

fn job() -> impl Strategy<Value = JobId> {
    any::<u64>().prop_map(JobId)
}

fn step() -> impl Strategy<Value = StepRef> {
    let id = prop_oneof![Just(StepId::Batch), any::<u32>().prop_map(StepId::Number)];
    (job(), id).prop_map(|(job, step)| StepRef { job, step })
}

fn run() -> impl Strategy<Value = JobIncarnation> {
    any::<u64>().prop_map(JobIncarnation)
}

fn rank() -> impl Strategy<Value = Rank> {
    any::<u32>().prop_map(Rank)
}

fn nodes() -> impl Strategy<Value = NodeSet> {
    vec(0u32..5000, 0..20).prop_map(|ids| ids.into_iter().map(NodeId).collect())
}

fn owner() -> impl Strategy<Value = Owner> {
    any::<(u32, u32)>().prop_map(|(uid, gid)| Owner { uid, gid })
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    vec(any::<(String, String)>(), 0..4)
}

fn file() -> impl Strategy<Value = FileSpec> {
    let destination = prop_oneof![
        Just(Destination::JobDirectory),
        os_bytes().prop_map(Destination::JobDirectoryUnlessAt),
        os_bytes().prop_map(Destination::Path),
    ];
    (any::<[u8; 32]>(), any::<(u64, u32)>(), os_bytes(), destination).prop_map(
        |(hash, (size_bytes, mode), name, destination)| FileSpec {
            hash: ContentHash(hash),
            size_bytes,
            mode,
            name,
            destination,
        },
    )
}

fn receive_file() -> impl Strategy<Value = ReceiveFile> {
    let sum = proptest::option::of(any::<u64>().prop_map(ContentSum));
    (any::<(u32, u64, u32)>(), file(), owner(), sum).prop_map(|(numbers, file, owner, sum)| {
        ReceiveFile {
            channel: Channel(numbers.0),
            generation: Generation(numbers.1),
            file,
            owner,
            chunk_bytes: numbers.2,
            sum,
        }
    })
}

fn output() -> impl Strategy<Value = OutputSpec> {
    prop_oneof![
        Just(OutputSpec::Client),
        (os_bytes(), proptest::option::of(os_bytes()))
            .prop_map(|(stdout, stderr)| OutputSpec::Files { stdout, stderr }),
    ]
}

fn resources() -> impl Strategy<Value = Resources> {
    let memory = prop_oneof![
        Just(Memory::Unstated),
        Just(Memory::WholeNode),
        any::<u64>().prop_map(Memory::PerNode),
        any::<u64>().prop_map(Memory::PerCpu),
    ];
    let others = any::<(u32, Option<u32>, bool, Option<u32>)>();
    let texts = any::<[Option<String>; 3]>();
    (others, texts, memory).prop_map(
        |((cpus_per_task, tasks_per_node, exclusive, nodes_max), texts, memory)| {
            let [constraint, required_nodes, excluded_nodes] = texts;
            Resources {
                cpus_per_task,
                tasks_per_node,
                nodes_max,
                memory,
                exclusive,
                constraint,
                required_nodes,
                excluded_nodes,
            }
        },
    )
}

fn remarks() -> impl Strategy<Value = Remarks> {
    any::<(Option<String>, Option<String>)>()
        .prop_map(|(comment, wckey)| Remarks { comment, wckey })
}

fn early_signal() -> impl Strategy<Value = Option<EarlySignal>> {
    let signal = any::<(i32, Duration, bool)>()
        .prop_map(|(signal, before, script_only)| EarlySignal { signal, before, script_only });
    proptest::option::of(signal)
}

fn spec() -> impl Strategy<Value = JobSpec> {
    type Asked = (u32, Option<u32>, Option<String>, Option<String>, Option<Duration>, u32, bool);
    let program =
        prop_oneof![file().prop_map(Program::Shipped), os_bytes().prop_map(Program::OnNodes)];
    let input = prop_oneof![
        Just(InputSpec::None),
        Just(InputSpec::RankZero),
        Just(InputSpec::All),
        os_bytes().prop_map(InputSpec::File)
    ];
    let limit = any::<(u32, u64)>().prop_map(|(resource, soft)| ResourceLimit { resource, soft });
    (
        (any::<String>(), owner(), any::<Asked>(), program, vec(os_bytes(), 0..5)),
        (vec((os_bytes(), os_bytes()), 0..5), os_bytes(), vec(limit, 0..3), vec(file(), 0..3)),
        (output(), input, prop_oneof![Just(Binding::None), Just(Binding::Core)]),
        (needs(), resources(), remarks(), early_signal()),
    )
        .prop_map(
            |((name, owner, asked, program, argv), (env, cwd, limits, files), io, wants)| {
                let (procs, nodes, partition, sched, time_limit, umask, requeue) = asked;
                let first = if procs % 2 == 0 { FirstStep::Program } else { FirstStep::Script };
                let (output, input, bind) = io;
                let (needs, resources, remarks, early_signal) = wants;
                let modes = [OpenMode::Usual, OpenMode::Append, OpenMode::Truncate];
                let open_mode = modes[umask as usize % modes.len()];
                let env = env.into();
                let step = StepSpec {
                    program,
                    argv,
                    env,
                    cwd,
                    umask,
                    limits,
                    files,
                    output,
                    open_mode,
                    input,
                    bind,
                    kill_on_bad_exit: requeue,
                    time_limit,
                };
                JobSpec {
                    name,
                    owner,
                    procs,
                    first,
                    nodes,
                    resources,
                    partition,
                    sched,
                    time_limit,
                    early_signal,
                    step,
                    requeue,
                    needs,
                    remarks,
                }
            },
        )
}

fn needs() -> impl Strategy<Value = Needs> {
    let condition = prop_oneof![
        Just(Condition::Singleton),
        job().prop_map(Condition::AfterOk),
        job().prop_map(Condition::AfterAny),
        job().prop_map(Condition::AfterNotOk),
        (job(), any::<u32>()).prop_map(|(job, minutes)| Condition::After { job, minutes }),
        job().prop_map(Condition::AfterCorr),
    ];
    let dependency = (any::<bool>(), vec(condition, 1..4))
        .prop_map(|(any, conditions)| Dependency { any, conditions });
    let range =
        any::<(u32, u32, u32)>().prop_map(|(first, last, step)| IndexRange { first, last, step });
    let array = (vec(range, 1..3), any::<Option<u32>>())
        .prop_map(|(ranges, limit)| ArraySpec { ranges, limit });
    let begin = (-1_000_000_000..10_000_000_000_i64)
        .prop_map(|second| jiff::Timestamp::from_second(second).expect("in range"));
    (
        any::<[bool; 2]>(),
        prop::option::of(dependency),
        prop::option::of(array),
        prop::option::of(begin),
    )
        .prop_map(|([hold, kill_on_invalid_dep], dependency, array, begin)| Needs {
            hold,
            begin,
            dependency,
            kill_on_invalid_dep,
            array,
        })
}

fn launch() -> impl Strategy<Value = LaunchJob> {
    // A malformed map is refused, as the map's own tests show.
    let shares = vec((0..1000u32, 0..1000u32, 1..100u32), 0..5).prop_map(|shares| {
        let mut next = 0;
        let share = |(node, gap, count): (u32, u32, u32)| {
            let first = next + gap;
            next = first + count;
            NodeRanks { node: NodeId(node), first: Rank(first), count }
        };
        shares.into_iter().map(share).collect::<Vec<_>>()
    });
    let numbers = any::<(u32, u16, u64, u32, u32)>();
    (step(), run(), spec(), shares, numbers, any::<String>()).prop_map(
        |(step, incarnation, spec, ranks, numbers, node_list)| LaunchJob {
            step,
            incarnation,
            place: JobIncarnation(numbers.2),
            slot: JobSlot(numbers.0),
            task: (numbers.3 > 7).then_some(ArrayTask { array: step.job, index: numbers.3 }),
            spec: Rc::new(spec),
            ranks: ranks.into_iter().collect(),
            partition: PartitionId(numbers.1),
            rows: RowSet(numbers.2),
            active_row: Row(numbers.3),
            coscheduling: coscheduling(numbers.3),
            announcer: NodeId(numbers.4 % MAX_NODES),
            node_list,
            buffered: numbers.0 > 7,
            hold_output: numbers.0 % 2 == 1,
            facts: LaunchFacts {
                cluster: numbers.1.to_string(),
                partition: numbers.2.to_string(),
                account: (numbers.3 > 7).then(|| numbers.3.to_string()),
                qos: (numbers.3 % 2 == 1).then(|| "night".to_owned()),
                restarts: numbers.4,
            },
        },
    )
}

fn coscheduling(number: u32) -> Coscheduling {
    use Coscheduling::{Flexible, Implicit, Local, PeriodicBoost, Strobed};
    let all = [Strobed, Implicit, Local, PeriodicBoost, Flexible];
    all[number as usize % all.len()]
}

fn rank_class() -> impl Strategy<Value = RankClass> {
    let class = prop::sample::select(ProcessClass::ALL.to_vec());
    let witness = prop::sample::select(vec![Witness::Library, Witness::System]);
    let figures = (witness, any::<(u32, u32, u32, u8)>()).prop_map(|(witness, numbers)| {
        let (operations, compute_us, wait_us, cpu_percent) = numbers;
        ProcessFigures { witness, operations, compute_us, wait_us, cpu_percent }
    });
    (rank(), class, any::<u32>(), prop::option::of(figures))
        .prop_map(|(rank, class, for_ms, figures)| RankClass { rank, class, for_ms, figures })
}

fn command() -> impl Strategy<Value = Command> {
    let strobe = any::<(u16, u32, u64, u64)>().prop_map(|(partition, row, number, issued_ns)| {
        Strobe { partition: PartitionId(partition), row: Row(row), number, issued_ns }
    });
    prop_oneof![
        receive_file().prop_map(Command::ReceiveFile),
        launch().prop_map(|launch| Command::LaunchJob(Rc::new(launch))),
        strobe.prop_map(Command::Strobe),
        (job(), any::<u64>()).prop_map(|(job, rows)| Command::SetRows { job, rows: RowSet(rows) }),
        (job(), any::<u32>()).prop_map(|(job, number)| Command::Coschedule {
            job,
            coscheduling: coscheduling(number)
        }),
        (step(), any::<i32>()).prop_map(|(step, signal)| Command::SignalJob { step, signal }),
        (step(), any::<i32>()).prop_map(|(step, signal)| Command::SignalScript { step, signal }),
        step().prop_map(|step| Command::DestroyJob { step }),
        step().prop_map(|step| Command::ReleaseJob { step }),
        (step(), bytes(), any::<bool>()).prop_map(|(step, data, eof)| Command::Input {
            step,
            data,
            eof
        }),
        (step(), any::<u64>(), bytes(), any::<bool>())
            .prop_map(|(step, offset, data, eof)| Command::InputAgain { step, offset, data, eof }),
        (step(), any::<bool>()).prop_map(|(step, hold)| Command::HoldOutput { step, hold }),
        (step(), any::<u64>(), pairs()).prop_map(|(step, sequence, puts)| Command::FenceDone {
            step,
            sequence,
            puts
        }),
        Just(Command::Shutdown),
        any::<u32>().prop_map(|configured_pes| Command::RefuseNode { configured_pes }),
        vec((step(), run()).prop_map(|(step, incarnation)| HeldJob { step, incarnation }), 0..3)
            .prop_map(|runs| Command::HandOver { runs }),
    ]
}

fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let to = (nodes(), any::<bool>()).prop_map(|(mut nodes, to_this)| {
        if to_this {
            nodes.insert(NODE);
        }
        nodes
    });
    (any::<(u64, u64)>(), vec((to, command()), 0..6))
        .prop_map(|((number, issued_ns), commands)| Heartbeat { number, issued_ns, commands })
}

fn exit() -> impl Strategy<Value = RankExit> {
    let status = prop_oneof![
        any::<u8>().prop_map(ExitStatus::Code),
        any::<i32>().prop_map(ExitStatus::Signal)
    ];
    (rank(), status, any::<(u64, u64, u64)>()).prop_map(|(rank, status, used)| RankExit {
        rank,
        status,
        user_us: used.0,
        system_us: used.1,
        max_rss_kib: used.2,
    })
}

fn info() -> impl Strategy<Value = NodeInfo> {
    (any::<(String, String, u32, u64, String, Option<u32>)>(), vec(any::<String>(), 0..3)).prop_map(
        |((hostname, address, pes, memory_mib, version, only_uid), capabilities)| NodeInfo {
            hostname,
            address,
            pes,
            memory_mib,
            version,
            capabilities,
            returns: only_uid
                .map(|uid| NodeReturn { within_ms: uid.into(), leased_within_ms: memory_mib }),
            only_uid,
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    prop_oneof![report_of_ranks(), report_of_node_or_job()]
}

/// Reports about ranks of a job.
fn report_of_ranks() -> impl Strategy<Value = Report> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    prop_oneof![
        any::<(u32, u64, String)>().prop_map(|(channel, generation, reason)| {
            let (channel, generation) = (Channel(channel), Generation(generation));
            Report::FileFailed { channel, generation, reason }
        }),
        (step(), run(), rank(), any::<(String, u8)>()).prop_map(
            |(step, incarnation, rank, (reason, exit_code))| Report::LaunchFailed {
                step,
                incarnation,
                rank,
                reason,
                exit_code
            }
        ),
        (step(), run(), rank(), (stream, any::<u64>()), bytes()).prop_map(
            |(step, incarnation, rank, (stream, offset), data)| Report::Output {
                step,
                incarnation,
                rank,
                stream,
                offset,
                data
            }
        ),
        (step(), run(), vec(exit(), 0..5))
            .prop_map(|(step, incarnation, ranks)| Report::Terminated { step, incarnation, ranks }),
        (step(), any::<u64>(), pairs()).prop_map(|(step, sequence, puts)| Report::Fence {
            step,
            sequence,
            puts
        }),
        (step(), run(), rank(), any::<i32>()).prop_map(|(step, incarnation, rank, exit_code)| {
            Report::Aborted { step, incarnation, rank, exit_code }
        }),
        (step(), run(), exit(), any::<bool>()).prop_map(|(step, incarnation, exit, joined)| {
            Report::RankFailed { step, incarnation, exit, joined }
        }),
    ]
}

/// Reports about the node, or a job's part there.
fn report_of_node_or_job() -> impl Strategy<Value = Report> {
    prop_oneof![
        info().prop_map(Report::Joined),
        any::<(u32, u64)>().prop_map(|(load_percent, memory_available_mib)| {
            Report::Status(NodeStatus { load_percent, memory_available_mib })
        }),
        (step(), run(), ".*").prop_map(|(step, incarnation, reason)| Report::OverMemory {
            step,
            incarnation,
            reason
        }),
        (step(), run(), ".*").prop_map(|(step, incarnation, reason)| Report::JobFailed {
            step,
            incarnation,
            reason
        }),
        (step(), run(), any::<u64>()).prop_map(|(step, incarnation, taken_bytes)| {
            Report::InputTaken { step, incarnation, taken_bytes }
        }),
        (step(), run(), vec(rank_class(), 0..5)).prop_map(|(step, incarnation, ranks)| {
            Report::Classes { step, incarnation, ranks }
        }),
        Just(Report::ProcessesLost),
        (step(), run()).prop_map(|(step, incarnation)| Report::Started { step, incarnation }),
        (step(), run()).prop_map(|(step, incarnation)| Report::LeaseOver { step, incarnation }),
        (step(), run(), prop_oneof![Just(CutLaunch::Interrupted), Just(CutLaunch::NotKept)])
            .prop_map(|(step, incarnation, cut)| Report::LaunchCut { step, incarnation, cut }),
        (step(), run()).prop_map(|(step, incarnation)| Report::InSlices { step, incarnation }),
        Just(Report::Leaving),
        (step(), run()).prop_map(|(step, incarnation)| Report::SlicesBack { step, incarnation }),
        (step(), run(), rank()).prop_map(|(step, incarnation, rank)| Report::RankLeft {
            step,
            incarnation,
            rank
        }),
    ]
}

/// Decoding may fail; what it yields must encode again.
fn decode_anything(bytes: &[u8]) {
    if let Ok(heartbeat) = decode_for(NODE, bytes) {
        encode(&heartbeat).expect("what was decoded can be encoded");
    }
    if let Ok(reports) = postcard::from_bytes::<Vec<Report>>(bytes) {
        postcard::to_stdvec(&reports).expect("what was decoded can be encoded");
    }
}

proptest! {
    #[test]
    fn heartbeats_survive(heartbeat in heartbeat()) {
        let bytes = encode(&heartbeat).expect("it can be encoded");
        prop_assert_eq!(storm_rm::heartbeat::encoded_bytes(&heartbeat), Ok(bytes.len()));
        let mut own = heartbeat;
        own.commands.retain(|(nodes, _)| nodes.contains(NODE));
        prop_assert_eq!(decode_for(NODE, &bytes), Ok(own));
    }

    #[test]
    fn reports_survive(reports in vec(report(), 0..6)) {
        let bytes = postcard::to_stdvec(&reports).expect("it can be encoded");
        prop_assert_eq!(postcard::from_bytes::<Vec<Report>>(&bytes), Ok(reports));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        decode_anything(&bytes);
    }

    /// Near misses get further into the decoder than noise does.
    #[test]
    fn damaged_messages_never_panic(
        heartbeat in heartbeat(),
        reports in vec(report(), 0..6),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let encoded = [encode(&heartbeat), postcard::to_stdvec(&reports)];
        for bytes in encoded {
            let mut bytes = bytes.expect("it can be encoded");
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            decode_anything(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            decode_anything(&bytes);
        }
    }
}

/// A change of these numbers is one of the journal and of the protocol.
#[test]
fn destinations_keep_their_numbers() {
    let path = || OsBytes::from("a");
    for (number, destination) in [
        (0, Destination::JobDirectory),
        (1, Destination::Path(path())),
        (2, Destination::JobDirectoryUnlessAt(path())),
    ] {
        assert_eq!(postcard::to_stdvec(&destination).expect("encodes")[0], number);
    }
}
