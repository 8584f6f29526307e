//! Clients that do not read: their cost, and that others are served meanwhile.

use crate::following::{ended, output};
use crate::requests::view;
use crate::served::{Raw, Served, on_runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storm_mm::api::{
    ApiError, ErrorCode, JobFilter, JobView, ManagerRequest, Part, Reply, ServerLimits,
    TrySendError,
};
use tokio::io::AsyncWriteExt;

/// The jobs that the core of these tests has.
const JOBS: u64 = 4_000;
/// More than a socket holds.
const LONG_BYTES: usize = 4 << 20;

/// A part of a listing of [`JOBS`] jobs.
fn listed(part: Part) -> Reply {
    let first = part.after.map_or(1, |job| job.0 + 1);
    let last = JOBS.min(first + part.most as u64 - 1);
    let jobs: Vec<JobView> = (first..=last).map(view).collect();
    Reply::Jobs { jobs, more: last < JOBS }
}

/// Answers all requests, and counts the jobs that are listed.
fn listing(served: &Served) -> Arc<AtomicU64> {
    let jobs = Arc::new(AtomicU64::new(0));
    let counted = jobs.clone();
    served.answer_with(move |request| match request {
        ManagerRequest::Jobs(JobFilter { part: Some(part), .. }) => {
            counted.fetch_add(part.most as u64, Ordering::Relaxed);
            listed(*part)
        }
        _ => Reply::Ok,
    });
    jobs
}

fn long() -> Reply {
    Reply::Error { error: ApiError::new(ErrorCode::Internal, "x".repeat(LONG_BYTES)) }
}

async fn asks(served: &Served, requests: &str) -> Raw {
    let mut raw = served.raw().await;
    raw.hello().await;
    raw.send(requests).await;
    raw
}

#[test]
fn a_client_that_never_reads_gets_few_parts_and_others_get_all() {
    on_runtime(async {
        let served = Served::start();
        let made = listing(&served);
        let mut deaf = Vec::new();
        for _ in 0..20 {
            deaf.push(asks(&served, "{\"id\":1,\"request\":\"jobs\"}\n").await);
        }
        let mut honest = served.client().await;
        let request = ManagerRequest::Jobs(JobFilter::default());
        let reply = honest.call(request).await.expect("answered");
        let Reply::Jobs { jobs, more: false } = reply else { panic!("{reply:?}") };
        assert!(jobs.iter().map(|job| job.id.0).eq(1..=JOBS));
        let made = made.load(Ordering::Relaxed);
        // A socket holds 64 KiB, and two parts wait: some hundreds of jobs for each client.
        assert!(made < JOBS + 20 * 600, "{made} jobs were listed, of which {JOBS} were read");
        drop(deaf);
    });
}

#[test]
fn a_client_with_an_unread_answer_gets_no_other() {
    on_runtime(async {
        let served = Served::start();
        let request = "{\"id\":1,\"request\":\"nodes\"}\n";
        let mut deaf = asks(&served, &request.repeat(8)).await;
        let first = served.call().await;
        first.replies.send(long()).expect("it is there");
        let _other = asks(&served, request).await;
        let call = served.call().await;
        assert!(served.calls.is_empty(), "nothing more of the first");
        call.replies.send(Reply::Ok).expect("it is there");
        drop((first, call));
        assert!(matches!(deaf.reply().await.expect("all of it").reply, Reply::Error { .. }));
        served.call().await.replies.send(Reply::Ok).expect("it has read");
    });
}

#[test]
fn a_client_that_reads_no_answer_is_dropped_but_a_follower_is_not() {
    on_runtime(async {
        let read_timeout = Duration::from_millis(20);
        let served = Served::with(ServerLimits { read_timeout, ..ServerLimits::default() }, 0);
        let mut follower = asks(&served, "{\"id\":1,\"request\":\"attach\",\"job\":7}\n").await;
        let following = served.call().await;
        let mut sent = 0_u8;
        while let Ok(()) = following.replies.try_send(output(sent)) {
            sent += 1;
            // The writer has its turn.
            tokio::task::yield_now().await;
        }
        // Neither reads; the follower has stopped earlier.
        let _deaf = asks(&served, "{\"id\":1,\"request\":\"nodes\"}\n").await;
        let call = served.call().await;
        call.replies.send(long()).expect("it is there");
        call.replies.closed().await;
        assert!(matches!(following.replies.try_send(output(sent)), Err(TrySendError::Full(_))));
        following.replies.send(ended()).expect("it is there");
        // The job is over, but its output is not read: the server keeps it for as long as that
        // takes.
        drop(following);
        let _deaf = asks(&served, "{\"id\":1,\"request\":\"nodes\"}\n").await;
        let call = served.call().await;
        call.replies.send(long()).expect("it is there");
        call.replies.closed().await;
        for number in 0..sent {
            let line = follower.reply().await.expect("nothing is lost");
            assert_eq!(line.reply, output(number));
        }
        assert_eq!(follower.reply().await.map(|line| line.reply), Some(ended()));
    });
}

#[test]
fn a_few_long_requests_of_a_user_are_read_at_a_time_and_short_ones_beside_them() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(|_| Reply::Ok);
        // More than a socket holds: once it is sent, the server is reading it.
        let blanks = " ".repeat(1 << 20);
        let mut halves = Vec::new();
        for _ in 0..4 {
            let mut raw = served.raw().await;
            raw.hello().await;
            raw.send(&blanks).await;
            halves.push(raw);
        }
        // The server does not read from a client that waits for a turn.
        let mut waiting = served.raw().await;
        waiting.hello().await;
        let sending = waiting.write.write_all(blanks.as_bytes());
        let mut short = served.client().await;
        let sending = {
            let mut sending = Box::pin(sending);
            for _ in 0..100 {
                assert!(futures_util::poll!(sending.as_mut()).is_pending(), "it is read");
                let reply = short.call(ManagerRequest::Nodes).await.expect("answered");
                assert_eq!(reply, Reply::Ok);
            }
            sending
        };
        let mut first = halves.remove(0);
        first.send("{\"id\":1,\"request\":\"nodes\"}\n").await;
        assert_eq!(first.reply().await.map(|line| line.reply), Some(Reply::Ok));
        sending.await.expect("it has a turn");
        waiting.send("{\"id\":1,\"request\":\"nodes\"}\n").await;
        assert_eq!(waiting.reply().await.map(|line| line.reply), Some(Reply::Ok));
    });
}

#[test]
fn a_client_that_stops_in_a_long_request_is_dropped() {
    on_runtime(async {
        let upload_timeout = Duration::from_millis(20);
        let served = Served::with(ServerLimits { upload_timeout, ..ServerLimits::default() }, 0);
        let mut raw = served.raw().await;
        raw.hello().await;
        raw.send(&" ".repeat(100_000)).await;
        assert_eq!(raw.reply().await, None);
    });
}
