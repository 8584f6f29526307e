//! A user who follows or waits for a queued job learns why it waits.

use super::served::{Served, stderr, stdout};
use async_channel::Receiver;
use bytes::Bytes;
use serde_json::json;
use std::process::Stdio;
use storm_mm::api::{
    ApiError, Call, ErrorCode, Explanation, JobState, JobView, ManagerRequest, Reply,
};
use storm_rm::{JobId, JobIncarnation};

const JOB: JobId = JobId(7);
const TOLD: &str = "storm: job 7 is PENDING: it needs 4 PEs, and none are free\n";

async fn call(calls: &Receiver<Call>) -> Call {
    calls.recv().await.expect("a call")
}

/// Takes the question why the job waits.
async fn explain(calls: &Receiver<Call>) {
    let call = call(calls).await;
    assert_eq!(call.request, ManagerRequest::Explain { job: JOB });
    let reason = "it needs 4 PEs, and none are free";
    let told = json!({ "job": JOB, "state": "PENDING", "reason": reason, "details": [] });
    let explanation: Explanation = serde_json::from_value(told).expect("as managers send it");
    let reply = Reply::Explanation { explanation: Box::new(explanation) };
    call.replies.send(reply).expect("it waits");
}

/// Regression: nothing was reported until the end of a job that waited for hours.
#[test]
fn a_follower_is_told_why_the_job_waits() {
    let served = Served::start(async |calls| {
        let submitted = call(&calls).await;
        let events = submitted.replies;
        events.send(Reply::Submitted { job: JOB }).expect("it waits");
        explain(&calls).await;
        let (state, node_list) = (JobState::Running, Some("n1".to_owned()));
        let run = JobIncarnation(1);
        let away = false;
        let running = Reply::State { job: JOB, state, run, away, reason: None, node_list };
        events.send(running).expect("it waits");
        let input = call(&calls).await;
        let end = ManagerRequest::Input {
            job: JOB,
            data: Bytes::new(),
            eof: true,
            resent_from: None,
            ask: None,
        };
        assert_eq!(input.request, end);
        input.replies.send(Reply::Ok).expect("it waits");
        let (state, breakdown) = (JobState::Completed, None);
        let ended = Reply::Ended { job: JOB, state, exit_code: 0, reason: None, breakdown };
        events.send(ended).expect("it reads");
    });
    let output = served.command(&["run", "true"]).stdin(Stdio::null()).output().expect("started");
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("", TOLD));
    assert_eq!(output.status.code(), Some(0));
    served.end();
}

#[test]
fn a_waiter_for_a_new_job_is_told_why_it_waits() {
    let served = Served::start(async |calls| {
        call(&calls).await.replies.send(Reply::Submitted { job: JOB }).expect("it waits");
        let waited = call(&calls).await;
        assert_eq!(waited.request, ManagerRequest::Wait { jobs: vec![JOB] });
        explain(&calls).await;
        waited.replies.send(Reply::Jobs { jobs: Vec::new(), more: false }).expect("it waits");
    });
    let output = served.storm(&["submit", "-W", "true"]);
    assert_eq!(stdout(&output), "Submitted job 7\n");
    assert!(stderr(&output).starts_with(TOLD), "{}", stderr(&output));
    served.end();
}

#[test]
fn a_job_that_nothing_explains_is_waited_for_all_the_same() {
    let served = Served::start(async |calls| {
        call(&calls).await.replies.send(Reply::Submitted { job: JOB }).expect("it waits");
        let waited = call(&calls).await;
        let asked = call(&calls).await;
        assert_eq!(asked.request, ManagerRequest::Explain { job: JOB });
        let error = ApiError::new(ErrorCode::NoSuchJob, "there is no job 7");
        asked.replies.refuse(error).expect("it waits");
        waited.replies.send(Reply::Jobs { jobs: Vec::new(), more: false }).expect("it waits");
    });
    let output = served.storm(&["submit", "-W", "true"]);
    let told = "storm: job 7 has ended, and is forgotten";
    assert!(stderr(&output).starts_with(told), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(125));
    served.end();
}

/// Regression: of many jobs that ended well, a header without rows was printed.
#[test]
fn many_jobs_that_ended_well_are_only_counted() {
    let view = |id: u64| {
        let end = json!({
            "id": id, "name": "a", "user": { "uid": 0, "name": "root" }, "partition": "main",
            "sched": "gang", "state": "COMPLETED", "procs": 1, "resources": {}, "nodes": 1,
            "node_list": "n1", "submitted": "2026-01-01T00:00:00Z", "ran_s": 0, "elapsed_s": 0,
            "exit_code": 0,
        });
        serde_json::from_value::<JobView>(end).expect("as managers send it")
    };
    let served = Served::start(async move |calls| {
        let jobs = (1..=20).map(view).collect();
        call(&calls).await.replies.send(Reply::Jobs { jobs, more: false }).expect("it waits");
    });
    let numbers: Vec<String> = (1..=20).map(|id: u64| id.to_string()).collect();
    let words: Vec<&str> = ["wait"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let output = served.storm(&words);
    assert_eq!(stdout(&output), "");
    assert_eq!(stderr(&output), "storm: 20 of 20 jobs are COMPLETED\n");
    served.end();
}
