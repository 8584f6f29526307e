//! The verbs with a single question.

use super::served::{Served, stderr, stdout};
use storm_mm::api::{
    ApiError, CancelOutcome, ErrorCode, Explanation, ForgottenJobs, HistoryQuery, JobFilter,
    JobState, JobView, ManagerRequest, Reply,
};
use storm_rm::{ArrayTask, JobId};

/// A manager that expects one request and gives one answer.
fn answering(expected: ManagerRequest, answer: Reply) -> Served {
    Served::start(async move |calls| {
        let call = calls.recv().await.expect("a call");
        assert_eq!(whole(call.request), expected);
        call.replies.send(answer).expect("it waits");
    })
}

/// The client's whole request, which the server asks the core for in parts.
fn whole(mut request: ManagerRequest) -> ManagerRequest {
    match &mut request {
        ManagerRequest::Jobs(filter) => filter.part = None,
        ManagerRequest::History(query) => query.part = None,
        _ => {}
    }
    request
}

#[test]
fn queue_asks_for_what_the_options_say() {
    let filter = JobFilter {
        states: vec![JobState::Pending, JobState::NodeFail],
        uids: vec![1000],
        users: Vec::new(),
        jobs: vec![JobId(7)],
        history: true,
        ..JobFilter::default()
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

/// Regression: `wait` ignored forgotten jobs, in its output and its status.
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
fn hist_asks_for_jobs_by_how_they_ended() {
    let states = vec![JobState::Failed, JobState::Timeout];
    let query = HistoryQuery { states, limit: u32::MAX, ..HistoryQuery::default() };
    let empty = Reply::Jobs { jobs: Vec::new(), more: false };
    let served = answering(ManagerRequest::History(query), empty);
    let output = served.storm(&["hist", "--json", "--state", "FAILED,timeout"]);
    assert_eq!(stdout(&output), "[]\n", "{}", stderr(&output));
    let refused = served.storm(&["hist", "-t", "RUNNING"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("storm queue --state RUNNING"), "{}", stderr(&refused));
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
        reserved: Vec::new(),
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
    let request = ManagerRequest::Cancel {
        jobs: vec![JobId(7), JobId(9)],
        signal: Some(15),
        states: Vec::new(),
    };
    let served = answering(request, Reply::Cancelled { jobs });
    let output = served.storm(&["cancel", "7", "9", "--signal", "TERM"]);
    assert_eq!(stdout(&output), "Signalled job 7\n");
    assert_eq!(stderr(&output), "Job 9: there is no job 9\n");
    assert_eq!(output.status.code(), Some(1));
    served.end();
}

#[test]
fn hist_leaves_the_jobs_of_a_partition_however_few_are_wanted() {
    let query = HistoryQuery { limit: u32::MAX, ..HistoryQuery::default() };
    let jobs = [(9, "main"), (8, "batch"), (7, "main"), (6, "batch"), (5, "batch")];
    let jobs = jobs.map(|(id, partition)| view(id, None, partition, "COMPLETED")).to_vec();
    let served = answering(ManagerRequest::History(query), Reply::Jobs { jobs, more: false });
    let output = served.storm(&["hist", "-p", "batch", "-n", "2", "--json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&stdout(&output)).expect("JSON");
    let numbers: Vec<u64> = listed.iter().filter_map(|job| job["id"].as_u64()).collect();
    assert_eq!((numbers, output.status.code()), (vec![8, 6], Some(0)));
    served.end();
}

/// A job of a listing.
fn view(id: u64, array: Option<ArrayTask>, partition: &str, state: &str) -> JobView {
    serde_json::from_value(serde_json::json!({
        "id": id, "array": array, "name": "a", "user": { "uid": 1000, "name": "ada" },
        "partition": partition, "sched": "fcfs", "state": state, "procs": 1, "nodes": 0,
        "node_list": "", "row": null, "submitted": "2026-01-01T00:00:00Z", "started": null,
        "ended": null, "elapsed_s": 0, "ran_s": 0, "time_limit_s": null, "reason": null,
        "estimate": null, "exit_code": null,
    }))
    .expect("a job")
}

#[test]
fn cancel_takes_the_jobs_of_a_user_and_a_partition() {
    let served = Served::start(async |calls| {
        let call = calls.recv().await.expect("a call");
        let states = vec![JobState::Pending];
        let filter = JobFilter { states, uids: vec![1000], ..JobFilter::default() };
        assert_eq!(whole(call.request), ManagerRequest::Jobs(filter));
        let task = Some(ArrayTask { array: JobId(7), index: 3 });
        let jobs = vec![
            view(8, task, "batch", "PENDING"),
            view(9, None, "main", "PENDING"),
            view(10, None, "batch", "PENDING"),
        ];
        call.replies.send(Reply::Jobs { jobs, more: false }).expect("it waits");
        let call = calls.recv().await.expect("a call");
        let jobs = vec![JobId(8), JobId(10)];
        assert_eq!(
            call.request,
            ManagerRequest::Cancel { jobs, signal: None, states: vec![JobState::Pending] }
        );
        // The second job has started meanwhile, so it is not to be cancelled any more.
        let begun = ApiError::new(ErrorCode::OtherState, "job 10 is RUNNING by now");
        let outcome = |(job, error)| CancelOutcome { job: JobId(job), error };
        let jobs = [(8, None), (10, Some(begun))].map(outcome).to_vec();
        call.replies.send(Reply::Cancelled { jobs }).expect("it waits");
    });
    let words = ["cancel", "-u", "1000", "--state", "PENDING", "-p", "batch", "--json"];
    let output = served.storm(&words);
    let said: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!((&said[0]["name"], &said[1]), (&"7_3".into(), &serde_json::Value::Null), "{said}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    served.end();
}

#[test]
fn nothing_is_cancelled_when_nobody_is_meant_and_it_says_so() {
    let empty = Reply::Jobs { jobs: Vec::new(), more: false };
    let filter = JobFilter { uids: vec![1000], ..JobFilter::default() };
    let served = answering(ManagerRequest::Jobs(filter), empty);
    let output = served.storm(&["cancel", "--user", "1000"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(0)));
    assert!(stderr(&output).contains("nothing is cancelled"), "{}", stderr(&output));
    served.end();
}

#[test]
fn queue_lists_one_partition_which_has_to_be_there() {
    let served = Served::start(async |calls| {
        for _ in 0..2 {
            let call = calls.recv().await.expect("a call");
            assert_eq!(whole(call.request), ManagerRequest::Jobs(JobFilter::default()));
            let jobs = vec![view(8, None, "batch", "PENDING"), view(9, None, "main", "PENDING")];
            call.replies.send(Reply::Jobs { jobs, more: false }).expect("it waits");
        }
        let call = calls.recv().await.expect("a call");
        assert_eq!(call.request, ManagerRequest::Partitions);
        call.replies.send(Reply::Partitions { partitions: Vec::new() }).expect("it waits");
    });
    assert_eq!(stdout(&served.storm(&["queue", "-q", "-p", "batch"])), "8 PENDING\n");
    let output = served.storm(&["queue", "-p", "lottery"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no partition lottery"), "{}", stderr(&output));
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
