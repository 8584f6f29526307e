//! Every request and reply survives its line; hostile lines are refused.

use super::*;
use bytes::Bytes;
use jiff::Timestamp;
use proptest::prelude::*;
use storm_rm::message::Stream;
use storm_rm::{
    ContentHash, JobId, JobIncarnation, Program, Rank, StepAsk, StepLayout, StepSize, StepSpec,
};

fn requests() -> Vec<ManagerRequest> {
    let job = JobId(7);
    vec![
        ManagerRequest::Attach { job },
        ManagerRequest::Input {
            job,
            data: Bytes::from_static(b"\xff\0text"),
            eof: true,
            resent_from: None,
            ask: None,
        },
        ManagerRequest::RunStep {
            job,
            run: JobIncarnation(u64::MAX),
            ask: StepAsk(u64::MAX),
            size: StepSize { nodes: Some(2), ..StepSize::of_procs(4) },
            layout: StepLayout { required: Some("n[1-2]".to_owned()), ..StepLayout::default() },
            spec: Box::new(StepSpec::plain("a", Program::OnNodes("/bin/a".into()))),
        },
        ManagerRequest::EndStep { job, ask: StepAsk(1) },
        ManagerRequest::Jobs(JobFilter {
            states: vec![JobState::NodeFail],
            uids: vec![0, 1000],
            users: vec!["alice".to_owned()],
            jobs: vec![job],
            history: true,
            attributes: true,
            part: None,
        }),
        ManagerRequest::Show { job },
        ManagerRequest::Script { job },
        ManagerRequest::Explain { job },
        ManagerRequest::Cancel {
            jobs: vec![job, JobId(8)],
            signal: Some(10),
            states: vec![JobState::Running],
        },
        ManagerRequest::Hold { jobs: vec![job] },
        ManagerRequest::Release { jobs: vec![job, JobId(8)] },
        ManagerRequest::Requeue { jobs: vec![job], hold: true },
        ManagerRequest::Suspend { jobs: vec![job] },
        ManagerRequest::ResumeJobs { jobs: vec![job] },
        ManagerRequest::Update {
            jobs: vec![job],
            change: JobChange { nice: Some(3), ..JobChange::default() },
        },
        ManagerRequest::SetPartition {
            partition: "main".to_owned(),
            sched: Some("gang".to_owned()),
            quantum_us: Some(2_000),
        },
        ManagerRequest::ResetPartition {
            partition: "main".to_owned(),
            sched: true,
            quantum: false,
        },
        ManagerRequest::Nodes,
        ManagerRequest::Partitions,
        ManagerRequest::History(HistoryQuery::default()),
        ManagerRequest::Status,
        ManagerRequest::Shutdown,
    ]
}

#[test]
fn requests_survive_their_line() {
    for (id, request) in (1..).zip(requests()) {
        let line = RequestLine::Manager(id, request);
        let text = line.encode().expect("encodes");
        assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert_eq!(RequestLine::parse(&text), Ok(line));
    }
    let content =
        RequestLine::Content(ContentHeader { hash: ContentHash::of(b"x"), size_bytes: 1 });
    assert_eq!(RequestLine::parse(&content.encode().expect("encodes")), Ok(content));
}

#[test]
fn a_request_may_leave_out_what_has_a_default() {
    let parse = |line: &str| RequestLine::parse(line.as_bytes());
    let jobs = ManagerRequest::Jobs(JobFilter::default());
    assert_eq!(parse(r#"{"request":"jobs"}"#), Ok(RequestLine::Manager(0, jobs)));
    let cancel = ManagerRequest::Cancel { jobs: vec![JobId(1)], signal: None, states: Vec::new() };
    let line = r#"{"id":3,"request":"cancel","jobs":[1]}"#;
    assert_eq!(parse(line), Ok(RequestLine::Manager(3, cancel)));
}

#[test]
fn an_error_has_the_number_of_its_request() {
    let refuse = |line: &str| RequestLine::parse(line.as_bytes()).expect_err("it is wrong");
    let (id, error) = refuse(r#"{"id":5,"request":"reboot"}"#);
    assert_eq!((id, error.code), (5, ErrorCode::UnknownRequest));
    assert!(error.hint.is_some_and(|hint| hint.contains("submit") && hint.contains("status")));
    for line in [
        r#"{"id":5,"request":"show"}"#,
        r#"{"id":5,"request":"show","job":-1}"#,
        r#"{"id":5,"request":"show","job":1,"jbo":2}"#,
        r#"{"id":5,"request":"jobs","state":["RUNNING"]}"#,
        r#"{"id":5,"request":"input","job":1,"data":"***"}"#,
        r#"{"id":5,"request":"content","hash":"00","size_bytes":1}"#,
    ] {
        let (id, error) = refuse(line);
        assert_eq!((id, error.code), (5, ErrorCode::BadRequest), "{line}");
        assert!(error.why.is_some(), "{line}");
    }
    assert_eq!(refuse(r#"{"id":"x","request":"nodes"}"#).1.code, ErrorCode::BadRequest);
    assert_eq!(refuse("[]").1.code, ErrorCode::BadRequest);
}

#[test]
fn a_request_that_names_more_than_can_be_answered_is_refused() {
    let cancel = |count: usize| {
        let jobs = vec![JobId(u64::MAX); count];
        RequestLine::Manager(7, ManagerRequest::Cancel { jobs, signal: None, states: Vec::new() })
    };
    let parse = |line: RequestLine| RequestLine::parse(&line.encode().expect("encodes"));
    assert_eq!(parse(cancel(MAX_NAMED)), Ok(cancel(MAX_NAMED)));
    let (id, error) = parse(cancel(MAX_NAMED + 1)).expect_err("too many");
    assert_eq!((id, error.code), (7, ErrorCode::BadRequest));
    let error = |job| ApiError::new(ErrorCode::NoSuchJob, format!("there is no job {job}"));
    let outcome = |job| CancelOutcome { job, error: Some(error(job).hint("h".repeat(100))) };
    let reply = Reply::Cancelled { jobs: vec![outcome(JobId(u64::MAX)); MAX_NAMED] };
    let answer = serde_json::to_vec(&ReplyLine { id: 7, reply }).expect("encodes");
    assert!(answer.len() < MAX_REPLY_LINE_BYTES);
}

#[test]
fn replies_have_the_documented_form() {
    let data = Bytes::from_static(b"hello\n");
    let (job, run, rank, stream) = (JobId(7), JobIncarnation(2), Rank(3), Stream::Stdout);
    let output = Reply::Output { job, run, rank, stream, offset: 0, data };
    let line = ReplyLine { id: 2, reply: output };
    let text = serde_json::to_string(&line).expect("encodes");
    let expected = r#"{"id":2,"reply":"output","job":7,"run":2,"rank":3,"stream":"stdout","offset":0,"data":"aGVsbG8K"}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<ReplyLine>(&text).expect("decodes"), line);
}

#[test]
fn replies_survive_their_line() {
    let job = JobId(7);
    let explanation = Explanation {
        job,
        array: None,
        state: JobState::Pending,
        reason: "no room".to_owned(),
        details: vec!["a".to_owned()],
        held_by: Vec::new(),
        reserved: Vec::new(),
        estimate: Some(Timestamp::UNIX_EPOCH),
    };
    let error = ApiError::new(ErrorCode::NoSuchJob, "no job 7").why("w").hint("h");
    let run = JobIncarnation(3);
    let breakdown = Some(LaunchBreakdown { read_ms: 1.5, ..LaunchBreakdown::default() });
    for reply in [
        Reply::Ok,
        Reply::Error { error: error.clone() },
        Reply::NeedFiles { hashes: vec![ContentHash::of(b"x")] },
        Reply::Submitted { job },
        Reply::Prospect { prospect: Prospect { job, partition: "main".to_owned(), start: None } },
        Reply::Script { job, name: "job.sh".to_owned(), data: Bytes::from_static(b"\xff") },
        Reply::Attached { job, state: JobState::Running, run, away: true },
        Reply::Step { job, step: None, node_list: None },
        Reply::Step { job, step: Some(3), node_list: Some("n1".into()) },
        Reply::Explanation { explanation: Box::new(explanation) },
        Reply::Cancelled { jobs: vec![CancelOutcome { job, error: Some(error) }] },
        Reply::State {
            job,
            state: JobState::Running,
            run,
            away: false,
            reason: None,
            node_list: Some("n1".into()),
        },
        Reply::Ended { job, state: JobState::Timeout, exit_code: 1, reason: None, breakdown },
    ] {
        let line = ReplyLine { id: 1, reply };
        let text = serde_json::to_vec(&line).expect("encodes");
        assert_eq!(serde_json::from_slice::<ReplyLine>(&text).expect("decodes"), line);
    }
}

#[test]
fn a_newer_managers_error_is_still_an_error() {
    let text = r#"{"code":"out-of-cheese","message":"m","extra":1}"#;
    let error: ApiError = serde_json::from_str(text).expect("decodes");
    assert_eq!(error.code, ErrorCode::Unknown);
}

#[test]
fn a_job_in_json_reads_as_the_documentation_says() {
    for state in JobState::ALL {
        assert_eq!(serde_json::to_string(&state).expect("encodes"), format!("\"{state}\""));
        assert_eq!(state.name().parse(), Ok(state));
    }
    assert!("DONE".parse::<JobState>().is_err());
}

/// JSON that resembles requests, so that more than the parser's first line is
/// exercised.
fn near_request() -> impl Strategy<Value = String> {
    let name = prop::sample::select(ManagerRequest::NAMES);
    let value = prop_oneof![
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("null".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        "[a-z]{0,8}".prop_map(|text| format!("\"{text}\"")),
    ];
    let key = prop::sample::select(vec!["job", "jobs", "spec", "data", "signal", "id", "hash"]);
    (name, prop::collection::vec((key, value), 0..4)).prop_map(|(name, fields)| {
        let fields: String =
            fields.into_iter().map(|(key, value)| format!(",\"{key}\":{value}")).collect();
        format!("{{\"request\":\"{name}\"{fields}}}")
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = RequestLine::parse(&bytes);
        let _ = serde_json::from_slice::<ReplyLine>(&bytes);
    }

    #[test]
    fn no_json_panics(text in near_request()) {
        if let Ok(line) = RequestLine::parse(text.as_bytes()) {
            let encoded = line.encode().expect("encodes");
            prop_assert_eq!(RequestLine::parse(&encoded), Ok(line));
        }
    }
}
