//! Clients that ask and do not read: what is kept for them is bounded, and nobody else waits
//! for them.

use crate::served::{Raw, Served, on_runtime};
use bytes::Bytes;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use storm_mm::api::{
    Explanation, JobState, ManagerRequest, Reply, ReplyLine, ServerLimits, TrySendError,
};
use storm_rm::message::Stream;
use storm_rm::{JobId, Rank};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedReadHalf;

const JOB: JobId = JobId(7);
/// Any test hangs before it has passed.
const FOR_EVER: Duration = Duration::from_secs(3600);
const AT_ONCE: Duration = Duration::from_millis(10);

/// An answer of some 8 KiB.
fn explanation() -> Reply {
    let explanation = Explanation {
        job: JOB,
        array: None,
        state: JobState::Pending,
        reason: "r".repeat(256),
        details: vec!["d".repeat(256); 32],
        held_by: Vec::new(),
        estimate: None,
    };
    Reply::Explanation { explanation: Box::new(explanation) }
}

/// Has all requests answered at length; counts them.
fn answered_at_length(served: &Served) -> Arc<AtomicUsize> {
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = answered.clone();
    served.answer_with(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        explanation()
    });
    answered
}

/// Asks and does not read until it is hung up on; returns the end that was not read.
async fn ask_until_dropped(served: &Served) -> OwnedReadHalf {
    let (read, mut write) =
        tokio::net::UnixStream::connect(served.socket()).await.expect("it listens").into_split();
    write.write_all(b"{\"storm_api\":1}\n").await.expect("it reads");
    while write.write_all(b"{\"id\":1,\"request\":\"explain\",\"job\":7}\n").await.is_ok() {}
    read
}

async fn attached(served: &Served) -> (Raw, storm_mm::api::Call) {
    let mut raw = served.raw().await;
    raw.hello().await;
    raw.send("{\"id\":1,\"request\":\"attach\",\"job\":7}\n").await;
    let call = served.call().await;
    (raw, call)
}

#[test]
fn who_asks_and_never_reads_is_not_asked_on_for_and_dropped() {
    on_runtime(async {
        let limits = ServerLimits {
            outgoing_bytes: 64 << 10,
            reply_timeout: AT_ONCE,
            ..ServerLimits::default()
        };
        let served = Served::with(limits, 0);
        let answered = answered_at_length(&served);
        let _unread = ask_until_dropped(&served).await;
        // What waits, what is under way, and what the socket holds; it was 40,000.
        let answered = answered.load(Ordering::Relaxed);
        assert!(answered < 1_000, "{answered} answers for a client that reads none");
    });
}

#[test]
fn a_follower_may_stand_still_and_is_heard_meanwhile() {
    on_runtime(async {
        let limits = ServerLimits {
            outgoing_bytes: 64 << 10,
            reply_timeout: AT_ONCE,
            ..ServerLimits::default()
        };
        let served = Served::with(limits, 0);
        let (mut follower, call) = attached(&served).await;
        let block = |number: u8| Reply::Output {
            job: JOB,
            rank: Rank(0),
            stream: Stream::Stdout,
            data: Bytes::from(vec![number; 16 << 10]),
        };
        let (mut sent, mut full) = (Vec::new(), 0);
        // The server may not have written yet what the socket takes.
        while full < 100 {
            let number = sent.len() as u8;
            match call.replies.try_send(block(number)) {
                Ok(()) => {
                    sent.push(number);
                    full = 0;
                }
                Err(TrySendError::Full(_)) => full += 1,
                Err(TrySendError::Gone(_)) => panic!("the follower was dropped"),
            }
            tokio::task::yield_now().await;
        }
        follower.send("{\"id\":2,\"request\":\"cancel\",\"jobs\":[7]}\n").await;
        let cancel = served.call().await;
        assert_eq!(cancel.request, ManagerRequest::Cancel { jobs: vec![JOB], signal: None });
        cancel.replies.send(Reply::Cancelled { jobs: Vec::new() }).expect("it is there");
        // Others who stand still are dropped, as often as it takes.
        answered_at_length(&served);
        for _ in 0..3 {
            let _unread = ask_until_dropped(&served).await;
        }
        assert!(!call.replies.is_closed());
        for number in sent {
            assert_eq!(follower.reply().await.map(|line| line.reply), Some(block(number)));
        }
        let last = follower.reply().await;
        assert_eq!(last, Some(ReplyLine { id: 2, reply: Reply::Cancelled { jobs: Vec::new() } }));
    });
}

#[test]
fn who_reads_is_served_when_others_have_left_too_much_unread() {
    on_runtime(async {
        let limits = ServerLimits {
            unread_bytes: 256 << 10,
            crowded_timeout: AT_ONCE,
            reply_timeout: FOR_EVER,
            ..ServerLimits::default()
        };
        let served = Served::with(limits, 0);
        answered_at_length(&served);
        let dropped = Cell::new(false);
        let hostile = async {
            let _unread = tokio::join!(ask_until_dropped(&served), ask_until_dropped(&served));
            dropped.set(true);
        };
        let honest = async {
            let mut client = served.client().await;
            while !dropped.get() {
                client.call(ManagerRequest::Nodes).await.expect("it is served");
            }
            client.call(ManagerRequest::Nodes).await.expect("it is served");
        };
        tokio::join!(hostile, honest);
    });
}

#[test]
fn long_answers_to_one_client_are_asked_for_one_after_the_other() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.hello().await;
        raw.send(&"{\"id\":1,\"request\":\"jobs\"}\n".repeat(5)).await;
        let first = served.call().await;
        let mut other = served.raw().await;
        other.hello().await;
        other.send("{\"id\":1,\"request\":\"status\"}\n").await;
        assert_eq!(served.call().await.request, ManagerRequest::Status);
        for _ in 0..4 {
            assert!(served.calls.is_empty());
            tokio::task::yield_now().await;
        }
        first.replies.send(Reply::Jobs { jobs: Vec::new(), more: false }).expect("it is there");
        assert!(matches!(served.call().await.request, ManagerRequest::Jobs(_)));
    });
}
