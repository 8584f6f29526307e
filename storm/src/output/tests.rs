//! The output of commands in each of the three forms.

use super::*;
use crate::local_cluster::ProcessIdentity;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use storm_mm::api::{
    ApiError, ErrorCode, JobState, LaunchBreakdown, LogEntry, NodeState, RankView, SpecSummary,
    UserView,
};
use storm_primitives::NodeId;
use storm_rm::message::{ExitStatus, RankExit};
use storm_rm::{ArrayTask, InputSpec, Memory, OutputSpec, Rank, Resources, Row};

/// The three forms, one after the other.
fn all(print: impl Fn(&dyn Output) -> String) -> String {
    let table = TableOutput::new(TimeZone::UTC.into());
    let forms: [(&str, &dyn Output); 3] =
        [("table", &table), ("json", &JsonOutput), ("quiet", &QuietOutput)];
    forms.iter().map(|(name, form)| format!("--- {name}\n{}", print(*form))).collect()
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn running() -> JobView {
    JobView {
        id: JobId(7),
        array: None,
        array_limit: None,
        name: "sweep3d".to_owned(),
        user: UserView { uid: 1000, name: "ada".to_owned() },
        partition: "main".to_owned(),
        sched: "gang".to_owned(),
        state: JobState::Running,
        procs: 256,
        resources: Resources { memory: Memory::PerNode(16 << 30), ..Resources::default() },
        nodes_asked: None,
        nodes: 64,
        node_list: "n[1-64]".to_owned(),
        row: Some(Row(1)),
        submitted: time(0),
        started: Some(time(1)),
        ended: None,
        elapsed_s: 3_725,
        ran_s: 1_860,
        time_limit_s: Some(86_400),
        remarks: Default::default(),
        reason: None,
        reason_code: None,
        ending: false,
        estimate: None,
        exit_code: None,
        attributes: None,
        steps: Vec::new(),
        place: None,
    }
}

fn pending() -> JobView {
    JobView {
        id: JobId(12),
        name: "evil\u{1b}[2Jname".to_owned(),
        state: JobState::Pending,
        nodes: 0,
        node_list: String::new(),
        row: None,
        started: None,
        elapsed_s: 0,
        time_limit_s: None,
        remarks: Default::default(),
        reason: Some("needs 512 PEs, 256 are free".to_owned()),
        estimate: Some(time(3_600)),
        ..running()
    }
}

fn breakdown() -> LaunchBreakdown {
    LaunchBreakdown {
        read_ms: 3.25,
        send_ms: 41.5,
        write_ms: 9.2,
        exec_ms: 65.3,
        wait_for_slice_ms: 0.0,
        total_ms: 118.9,
        sent_bytes: 12 << 20,
        skipped_bytes: 0,
    }
}

fn detail() -> JobDetail {
    let exit = |rank, status| RankView {
        rank: Rank(rank),
        node: format!("n{}", rank + 1),
        exit: Some(RankExit {
            rank: Rank(rank),
            status,
            user_us: 12_000,
            system_us: 345,
            max_rss_kib: 5_120,
        }),
        class: None,
    };
    JobDetail {
        view: JobView {
            state: JobState::Failed,
            ended: Some(time(9)),
            reason: Some("rank 1 was ended by SIGSEGV on n2".to_owned()),
            exit_code: Some(139),
            ..running()
        },
        spec: SpecSummary {
            program: "sweep3d".into(),
            shipped: true,
            first: storm_rm::FirstStep::Program,
            argv: vec!["./sweep3d".into(), "--grid".into(), "50".into()],
            cwd: "/home/ada".into(),
            nodes: None,
            partition: None,
            sched: Some("gang".to_owned()),
            shipped_bytes: 12 << 20,
            files: Vec::new(),
            without_set_id: Vec::new(),
            output: OutputSpec::Client,
            open_mode: Default::default(),
            early_signal: None,
            input: InputSpec::RankZero,
            requeue: false,
            needs: Default::default(),
        },
        ranks: vec![exit(0, ExitStatus::Code(0)), exit(1, ExitStatus::Signal(11))],
        breakdown: Some(breakdown()),
        account: Some("physics".to_owned()),
        qos: None,
        reservation: None,
        cpu_us: 24_690,
        communication: None,
        classes: None,
        parts: Vec::new(),
        runs: 1,
        log: vec![
            LogEntry { time: time(0), event: "submitted".into(), text: "by ada".into() },
            LogEntry { time: time(1), event: "started".into(), text: "on n[1-2]".into() },
        ],
    }
}

fn node(number: u32, state: NodeState) -> NodeView {
    NodeView {
        id: NodeId(number),
        name: format!("n{number}"),
        state,
        reason: (state == NodeState::Down).then(|| "missed 2 heartbeats".to_owned()),
        reservation: None,
        partitions: vec!["main".to_owned()],
        pes: 4,
        pes_used: if state == NodeState::Allocated { 4 } else { 0 },
        features: if number == 1 { vec!["gpu".to_owned()] } else { Vec::new() },
        memory_bytes: Some(64 << 30),
        memory_held_bytes: if state == NodeState::Allocated { 16 << 30 } else { 0 },
        jobs: if state == NodeState::Allocated { vec![JobId(7), JobId(8)] } else { Vec::new() },
        hostname: Some("lab".to_owned()),
        address: Some("127.0.0.1".to_owned()),
        memory_mib: Some(16_384),
        memory_available_mib: Some(8_000),
        load_percent: Some(125),
        version: Some("0.1.0".to_owned()),
        capabilities: Vec::new(),
    }
}

#[test]
fn jobs() {
    insta::assert_snapshot!(all(|form| form.jobs(&[running(), pending()])));
    assert_eq!(JsonOutput.jobs(&[]), "[]\n");
}

#[test]
fn one_job() {
    insta::assert_snapshot!(all(|form| form.job(&detail(), None)));
}

#[test]
fn nodes_folded_and_one_by_one() {
    let mut nodes: Vec<NodeView> = (1..=5).map(|n| node(n, NodeState::Allocated)).collect();
    nodes.push(node(6, NodeState::Down));
    nodes.extend((7..=8).map(|n| node(n, NodeState::Allocated)));
    let table = TableOutput::new(TimeZone::UTC.into());
    insta::assert_snapshot!(format!(
        "{}\n{}",
        table.nodes(&nodes, false),
        table.nodes(&nodes, true)
    ));
}

#[test]
fn explanations() {
    let explanation = Explanation {
        job: JobId(12),
        array: None,
        state: JobState::Pending,
        reason: "it needs 512 PEs and 256 are free in partition main".to_owned(),
        details: vec!["job 7 holds 256 PEs until 11:00".to_owned()],
        held_by: Vec::new(),
        reserved: Vec::new(),
        estimate: Some(time(3_600)),
    };
    insta::assert_snapshot!(all(|form| form.explanation(&explanation, None)));
}

#[test]
fn jobs_of_an_array_that_never_ran_are_one_line() {
    let array = JobId(9);
    let cancelled = |index: u32| JobView {
        id: JobId(10 + u64::from(index)),
        array: Some(ArrayTask { array, index }),
        state: JobState::Cancelled,
        started: None,
        reason: Some("cancelled by user 1000".to_owned()),
        ..pending()
    };
    let ran = JobView { started: Some(time(1)), ..cancelled(3) };
    // In the order of `hist`, latest first.
    let jobs = [cancelled(6), cancelled(5), cancelled(4), ran, cancelled(2)];
    let listed = TableOutput::new(TimeZone::UTC.into()).jobs(&jobs);
    let names: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["9_[4-6]", "9_3", "9_2"]);
}

#[test]
fn short_answers() {
    let refused = ApiError::new(ErrorCode::NoSuchJob, "there is no job 12_99")
        .hint("storm queue --all 12 lists the jobs of the array");
    let outcomes = [
        Changed { id: Some(JobId(7)), name: "7".to_owned(), error: None },
        Changed { id: Some(JobId(16)), name: "12_3".to_owned(), error: None },
        Changed { id: None, name: "12_99".to_owned(), error: Some(refused) },
    ];
    let kept = KeptCluster {
        process: ProcessIdentity { pid: 42, start_ticks: 4242 },
        socket: "/dev/shm/storm-x/mm.sock".into(),
        runtime_dir: "/dev/shm/storm-x".into(),
        nodes: 8,
        pes: 4,
        sched: vec!["gang".to_owned()],
        started: time(0),
    };
    insta::assert_snapshot!(all(|form| [
        form.submitted(JobId(7)),
        form.changed(&outcomes, "Cancelling") + &form.unchanged(&outcomes),
        form.up(&kept),
        form.down(true),
        form.note("running on an embedded cluster"),
        form.warning("a file has no such bit"),
    ]
    .concat()));
}

#[test]
fn outcomes() {
    let good = Outcome {
        job: JobId(1),
        step: None,
        state: JobState::Completed,
        exit_code: 0,
        interrupted: None,
        reason: None,
        breakdown: Some(breakdown()),
        node_list: Some("n[1-64]".to_owned()),
        without_pmix: false,
    };
    let bad = Outcome {
        state: JobState::NodeFail,
        exit_code: 1,
        interrupted: None,
        reason: Some("node n3 died".to_owned()),
        breakdown: None,
        node_list: None,
        ..good.clone()
    };
    insta::assert_snapshot!(all(|form| form.outcome(&good, Some(256)) + &form.outcome(&bad, None)));
}

#[test]
fn failures() {
    let error = ApiError::new(ErrorCode::NoSuchPolicy, "no partition runs the policy lottery")
        .why("this cluster has gang (main), fcfs (batch)")
        .hint("--sched gang");
    insta::assert_snapshot!(all(|form| form.failure(&Failure::from(error.clone()))));
}

#[test]
fn a_report_of_many_ranks_shows_only_failed_ranks() {
    let mut job = detail();
    let template = job.ranks[0].clone();
    job.ranks.extend((2..100).map(|rank| RankView { rank: Rank(rank), ..template.clone() }));
    let text = TableOutput::new(TimeZone::UTC.into()).job(&job, None);
    assert!(text.contains("SIGSEGV"));
    assert_eq!(text.lines().filter(|line| line.contains("5.0 MiB")).count(), 1, "{text}");
}

#[test]
fn values_and_tables_have_a_form_for_each_reader() {
    let sheet = Sheet::new(&serde_json::json!({ "launch_ms": 110.0 }))
        .pairs(vec![("Launch", "110.0 ms".to_owned()), ("Tree", String::new())])
        .table([">NODES", "LIMIT"], [vec!["64".to_owned(), "the I/O bus".to_owned()]])
        .note("Of 12 MB.");
    insta::assert_snapshot!(all(|output| output.sheet(&sheet)));
}

/// Regression: only one job of an array was described, as if there were no others.
#[test]
fn a_job_that_stands_for_its_array_says_how_that_is() {
    let task = |index, state| JobView {
        array: Some(ArrayTask { array: JobId(7), index }),
        state,
        ..pending()
    };
    let jobs = [
        task(0, JobState::Completed),
        task(1, JobState::Running),
        task(2, JobState::Pending),
        task(3, JobState::Pending),
    ];
    let array = ArrayStates::new(JobId(7), &jobs);
    let explanation = Explanation {
        job: JobId(9),
        array: Some(ArrayTask { array: JobId(7), index: 1 }),
        state: JobState::Running,
        reason: "it runs on n1".to_owned(),
        details: Vec::new(),
        held_by: Vec::new(),
        reserved: Vec::new(),
        estimate: None,
    };
    let table = TableOutput::new(TimeZone::UTC.into());
    assert_eq!(
        table.explanation(&explanation, Some(&array)),
        "Array 7, 4 jobs remembered: 2 PENDING, 1 RUNNING, 1 COMPLETED. `storm queue --all 7` lists them; \
         this is 7_1:\nJob 7_1 is RUNNING: it runs on n1\n"
    );
    assert!(table.job(&detail(), Some(&array)).starts_with("Array 7, 4 jobs remembered: "));
    for json in [
        JsonOutput.explanation(&explanation, Some(&array)),
        JsonOutput.job(&detail(), Some(&array)),
    ] {
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let states = serde_json::json!({ "PENDING": 2, "RUNNING": 1, "COMPLETED": 1 });
        assert_eq!(json["array_jobs"], serde_json::json!({ "array": 7, "states": states }));
    }
}
