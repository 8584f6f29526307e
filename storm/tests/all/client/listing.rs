//! The verbs that ask one question.

use super::served::{Served, stderr, stdout};
use storm_mm::api::{
    ApiError, CancelOutcome, ErrorCode, Explanation, ForgottenJobs, HistoryQuery, JobFilter,
    JobState, ManagerRequest, Reply,
};
use storm_rm::JobId;

/// A manager that expects one request and gives one answer.
fn answering(expected: ManagerRequest, answer: Reply) -> Served {
    Served::start(async move |calls| {
        let call = calls.recv().await.expect("a call");
        assert_eq!(call.request, expected);
        call.replies.send(answer).expect("it waits");
    })
}

#[test]
fn queue_asks_for_what_the_options_say() {
    let filter = JobFilter {
        states: vec![JobState::Pending, JobState::NodeFail],
        uids: vec![1000],
        users: Vec::new(),
        jobs: vec![JobId(7)],
        history: true,
    };
    let empty = Reply::Jobs { jobs: Vec::new(), more: false };
    let served = answering(ManagerRequest::Jobs(filter), empty);
    let output = served.storm(&[
        "queue",
        "--json",
        "--state",
        "PENDING,NODE_FAIL",
        "--user",
        "1000",
        "--all",
        "7",
    ]);
    assert_eq!(stdout(&output), "[]\n", "{}", stderr(&output));
    served.end();
}

/// It was silent about them, and its status was that of the others.
#[test]
fn wait_says_what_is_known_of_jobs_that_are_forgotten_and_counts_them() {
    for (display, listed) in [("", None), ("--json", Some("[]\n")), ("--quiet", None)] {
        let served = Served::start(async move |calls| {
            let call = calls.recv().await.expect("a call");
            assert_eq!(call.request, ManagerRequest::Wait { jobs: vec![JobId(7)] });
            let forgotten =
                ForgottenJobs { array: JobId(7), size: 5, jobs: 5, failed: 2, exit_code: 9 };
            let arrays = vec![forgotten];
            call.replies.send(Reply::Forgotten { arrays }).expect("it waits");
            call.replies.send(Reply::Jobs { jobs: Vec::new(), more: false }).expect("it waits");
        });
        let words: Vec<_> = "wait 7".split(' ').chain(display.split_whitespace()).collect();
        let output = served.storm(&words);
        assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
        let said = stderr(&output);
        if display == "--quiet" {
            assert_eq!(said, "");
        } else {
            assert!(said.contains("5 of the 5 jobs of 7 have ended and are forgotten"), "{said}");
            assert!(said.contains("2 of these did not end COMPLETED"), "{said}");
        }
        listed.into_iter().for_each(|listed| assert_eq!(stdout(&output), listed));
        served.end();
    }
}

#[test]
fn hist_asks_for_the_latest() {
    let query = HistoryQuery { limit: 5, ..HistoryQuery::default() };
    let empty = Reply::Jobs { jobs: Vec::new(), more: false };
    let served = answering(ManagerRequest::History(query), empty);
    let output = served.storm(&["hist", "-n", "5"]);
    assert!(stdout(&output).starts_with("JOB  PARTITION"), "{}", stderr(&output));
    served.end();
}

#[test]
fn explain_tells_the_reason() {
    let explanation = Explanation {
        job: JobId(7),
        array: None,
        state: JobState::Pending,
        reason: "it needs 512 PEs, the partition main has 256".to_owned(),
        details: Vec::new(),
        held_by: Vec::new(),
        estimate: None,
    };
    let served = answering(
        ManagerRequest::Explain { job: JobId(7) },
        Reply::Explanation { explanation: Box::new(explanation) },
    );
    let output = served.storm(&["explain", "7"]);
    let expected = "Job 7 is PENDING: it needs 512 PEs, the partition main has 256\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    served.end();
}

#[test]
fn cancel_fails_if_one_of_the_jobs_cannot_be_ended() {
    let error = Some(ApiError::new(ErrorCode::NoSuchJob, "there is no job 9"));
    let jobs =
        vec![CancelOutcome { job: JobId(7), error: None }, CancelOutcome { job: JobId(9), error }];
    let request = ManagerRequest::Cancel { jobs: vec![JobId(7), JobId(9)], signal: Some(15) };
    let served = answering(request, Reply::Cancelled { jobs });
    let output = served.storm(&["cancel", "7", "9", "--signal", "TERM"]);
    assert_eq!(stdout(&output), "Signalled job 7\nJob 9: there is no job 9\n");
    assert_eq!(output.status.code(), Some(1));
    served.end();
}

#[test]
fn version_needs_no_cluster() {
    let served = Served::start(async |_calls| {});
    let output = served.storm(&["version", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    served.end();
}
