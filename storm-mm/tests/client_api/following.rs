//! Events of a job: in order, held back for a slow reader, ended with it.

use crate::served::{Served, on_runtime};
use bytes::Bytes;
use storm_mm::api::{
    Call, JobState, MAX_OUTPUT_EVENT_BYTES, ManagerRequest, Reply, ServerLimits, TrySendError,
};
use storm_rm::message::Stream;
use storm_rm::{JobId, JobIncarnation, Rank};

const JOB: JobId = JobId(7);
const BLOCK_BYTES: usize = 16 << 10;

fn small_buffer() -> ServerLimits {
    ServerLimits { outgoing_bytes: 64 << 10, ..ServerLimits::default() }
}

pub(crate) fn output(number: u8) -> Reply {
    let data = Bytes::from(vec![number; BLOCK_BYTES]);
    let (run, rank, stream) = (JobIncarnation(1), Rank(0), Stream::Stdout);
    Reply::Output { job: JOB, run, rank, stream, offset: 0, data }
}

fn attached() -> Reply {
    Reply::Attached { job: JOB, state: JobState::Running, run: JobIncarnation(1), away: false }
}

pub(crate) fn ended() -> Reply {
    let state = JobState::Completed;
    Reply::Ended { job: JOB, state, exit_code: 0, reason: None, breakdown: None }
}

/// Sends while there is room, as a core with flow control does.
async fn send_with_flow_control(call: &Call, blocks: u8) -> usize {
    let mut held_back = 0;
    for number in 0..blocks {
        let mut reply = output(number);
        while let Err(TrySendError::Full(unsent)) = call.replies.try_send(reply) {
            assert!(!call.replies.has_room());
            held_back += 1;
            reply = unsent;
            call.replies.room().await.expect("the client reads");
        }
    }
    held_back
}

#[test]
fn output_is_held_back_for_a_slow_reader_and_arrives_whole() {
    on_runtime(async {
        let served = Served::with(small_buffer(), 0);
        let (mut requests, mut replies) = served.client().await.split();
        let id = requests.send(ManagerRequest::Attach { job: JOB }).await.expect("sent");
        let core = async {
            let call = served.call().await;
            call.replies.send(attached()).expect("it reads");
            let held_back = send_with_flow_control(&call, 200).await;
            assert!(held_back > 0, "200 blocks do not fit into the buffer");
            call.replies.send(ended()).expect("it reads");
        };
        let reader = async {
            let first = replies.next().await.expect("open").expect("a reply");
            assert_eq!((first.id, first.reply), (id, attached()));
            for number in 0..200 {
                let line = replies.next().await.expect("open").expect("an event");
                assert_eq!(line.reply, output(number));
            }
            assert_eq!(replies.next().await.expect("open").map(|line| line.reply), Some(ended()));
        };
        tokio::join!(core, reader);
    });
}

#[test]
fn large_output_comes_in_pieces() {
    on_runtime(async {
        let served = Served::start();
        let (mut requests, mut replies) = served.client().await.split();
        requests.send(ManagerRequest::Attach { job: JOB }).await.expect("sent");
        let call = served.call().await;
        let all = Bytes::from(vec![b'x'; 3 * MAX_OUTPUT_EVENT_BYTES + 1]);
        let (run, rank, stream) = (JobIncarnation(1), Rank(0), Stream::Stderr);
        let data = all.clone();
        let output = Reply::Output { job: JOB, run, rank, stream, offset: 0, data };
        call.replies.send(output).expect("it reads");
        call.replies.send(ended()).expect("it reads");
        let mut received = Vec::new();
        while let Some(line) = replies.next().await.expect("open") {
            match line.reply {
                Reply::Output { data, .. } => {
                    assert!(data.len() <= MAX_OUTPUT_EVENT_BYTES);
                    received.extend_from_slice(&data);
                }
                reply => {
                    assert_eq!(reply, ended());
                    break;
                }
            }
        }
        assert!(received == all, "{} bytes of {}", received.len(), all.len());
    });
}

#[test]
fn a_client_that_never_reads_is_dropped() {
    on_runtime(async {
        let served = Served::with(small_buffer(), 0);
        let mut raw = served.raw().await;
        raw.hello().await;
        raw.send("{\"id\":1,\"request\":\"attach\",\"job\":7}\n").await;
        let call = served.call().await;
        // Far beyond the overflow and the socket's buffers, the end must still arrive.
        let taken = (0..=u8::MAX)
            .cycle()
            .take(4_000)
            .take_while(|number| call.replies.send(output(*number)).is_ok())
            .count();
        assert!(taken < 100, "{taken} blocks were kept for a client that does not read");
        call.replies.closed().await;
        assert!(call.replies.is_closed());
    });
}

#[test]
fn the_core_learns_that_its_client_is_gone() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.hello().await;
        raw.send("{\"id\":1,\"request\":\"attach\",\"job\":7}\n").await;
        let call = served.call().await;
        assert!(!call.replies.is_closed());
        drop(raw);
        call.replies.closed().await;
        assert!(call.replies.send(ended()).is_err());
        assert!(call.replies.room().await.is_err());
    });
}

#[test]
fn requests_are_answered_while_a_job_is_followed() {
    on_runtime(async {
        let served = Served::start();
        let (mut requests, mut replies) = served.client().await.split();
        let attach = requests.send(ManagerRequest::Attach { job: JOB }).await.expect("sent");
        let following = served.call().await;
        let data = Bytes::from_static(b"input");
        let input =
            ManagerRequest::Input { job: JOB, data, eof: false, resent_from: None, ask: None };
        let asked = requests.send(input.clone()).await.expect("sent");
        let call = served.call().await;
        assert_eq!(call.request, input);
        following.replies.send(output(1)).expect("it reads");
        call.replies.send(Reply::Ok).expect("it reads");
        let ids = [
            replies.next().await.expect("open").map(|line| line.id),
            replies.next().await.expect("open").map(|line| line.id),
        ];
        assert_eq!(ids, [Some(attach), Some(asked)]);
    });
}
