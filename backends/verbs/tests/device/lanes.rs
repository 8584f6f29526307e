//! Lanes carry all their data in order, and leave no resources behind.

use crate::pair::{Pair, config, end_of_reading, pattern, run, send};
use bytes::Bytes;
use std::process::Command;
use std::time::Duration;
use storm_backend_tcp::fabric::{Carrier, Fabric};
use storm_backend_tcp::wire::Lane;
use storm_backend_verbs::VerbsConfig;

/// Enough to go around a ring many times.
const STREAM_BYTES: usize = 1 << 20;

async fn send_stream(carrier: &dyn Carrier) {
    let (mut at, mut len) = (0, 1);
    while at < STREAM_BYTES {
        let part = pattern(at, len.min(STREAM_BYTES - at));
        at += part.len();
        send(carrier, &[part]).await.expect("it lives");
        // Lengths that divide nothing evenly; some are longer than the free room.
        len = (len * 7 + 3) % 40_000 + 1;
    }
}

async fn expect_stream(carrier: &dyn Carrier) {
    let mut at = 0;
    while at < STREAM_BYTES {
        let run = carrier.read().await.expect("it lives");
        assert!(run == pattern(at, run.len()), "other bytes at {at}");
        at += run.len();
    }
    assert_eq!(at, STREAM_BYTES);
}

#[test]
fn an_express_lane_is_two_streams() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Express);
        // The child sends first.
        send(&*ends.child, &[Bytes::from_static(b"hello")]).await.expect("it lives");
        assert_eq!(ends.parent.read().await.expect("it lives"), "hello");
        futures_util::join!(
            send_stream(&*ends.parent),
            send_stream(&*ends.child),
            expect_stream(&*ends.parent),
            expect_stream(&*ends.child),
        );
    });
}

/// Reads `missing` bytes, which may come in parts.
async fn expect_bytes(carrier: &dyn Carrier, mut missing: usize) {
    while missing > 0 {
        missing -= carrier.read().await.expect("it lives").len();
    }
}

/// Few short messages are signalled, but the credits sent among them are.
#[test]
fn short_messages_never_fill_a_ring_that_is_read() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Express);
        let (short, answer) = (pattern(0, 8), pattern(1, 200));
        for _ in 0..1000 {
            for _ in 0..5 {
                send(&*ends.parent, std::slice::from_ref(&short)).await.expect("it lives");
            }
            expect_bytes(&*ends.child, 5 * short.len()).await;
            send(&*ends.child, std::slice::from_ref(&answer)).await.expect("it lives");
            expect_bytes(&*ends.parent, answer.len()).await;
        }
    });
}

#[test]
fn lanes_work_the_same_with_polling() {
    run(async {
        let pair = looking(Duration::from_micros(200));
        let ends = pair.lane(Lane::Express);
        futures_util::join!(send_stream(&*ends.child), expect_stream(&*ends.parent));
        futures_util::join!(send_stream(&*ends.parent), expect_stream(&*ends.child));
    });
}

/// A pair of members that poll for completions for `spin`.
fn looking(spin: Duration) -> Pair {
    Pair::with(VerbsConfig { spin, ..config(1) }, VerbsConfig { spin, ..config(2) })
}

/// The length of the message with this number.
fn mixed_len(number: usize) -> usize {
    match number % 23 {
        // A message too long for its request, and one that fits the request but not a slot.
        7 => 3000,
        13 => 215,
        _ => number * 31 % 212 + 1,
    }
}

/// Sends `count` messages without waiting. Most are short, and their bytes give their positions.
async fn send_mixed(carrier: &dyn Carrier, count: usize) -> usize {
    let mut at = 0;
    for number in 0..count {
        let len = mixed_len(number);
        send(carrier, &[pattern(at, len)]).await.expect("it lives");
        at += len;
    }
    at
}

async fn expect_pattern(carrier: &dyn Carrier, at: &mut usize, until: usize) {
    while *at < until {
        let run = carrier.read().await.expect("it lives");
        assert!(run == pattern(*at, run.len()), "other bytes at {at}");
        *at += run.len();
    }
}

/// Messages found in memory and messages reported by completions keep their common order.
#[test]
fn short_messages_keep_their_place_among_long_ones() {
    run(async {
        let pair = looking(Duration::from_millis(1));
        let ends = pair.lane(Lane::Express);
        send(&*ends.child, &[Bytes::from_static(b"hello")]).await.expect("it lives");
        assert_eq!(ends.parent.read().await.expect("it lives"), "hello");
        let (count, mut down, mut up) = (3000, 0, 0);
        let total = (0..count).map(mixed_len).sum();
        let sent = futures_util::join!(
            send_mixed(&*ends.parent, count),
            send_mixed(&*ends.child, count),
            expect_pattern(&*ends.child, &mut down, total),
            expect_pattern(&*ends.parent, &mut up, total),
        );
        assert_eq!((sent.0, sent.1, down, up), (total, total, total, total));
    });
}

/// Ends that hardly poll before they sleep, for various lengths of time. A sleeping end must be
/// woken.
#[test]
fn a_sleeping_end_is_woken_by_messages_sent_meanwhile() {
    run(async {
        for (parent_us, child_us) in [(1, 1), (5, 50), (100, 20), (0, 100), (100, 0)] {
            let spin = Duration::from_micros;
            let parent = VerbsConfig { spin: spin(parent_us), ..config(1) };
            let pair = Pair::with(parent, VerbsConfig { spin: spin(child_us), ..config(2) });
            let ends = pair.lane(Lane::Express);
            let (mut down, mut up, mut sent_down, mut sent_up) = (0, 0, 0, 0);
            for round in 0..400_usize {
                // Some answers come at once, others only after another question.
                for _ in 0..=round % 3 {
                    let question = pattern(sent_down, 8 + round % 7);
                    sent_down += question.len();
                    send(&*ends.parent, &[question]).await.expect("it lives");
                }
                expect_pattern(&*ends.child, &mut down, sent_down).await;
                let answer = pattern(sent_up, 1 + round % 200);
                sent_up += answer.len();
                send(&*ends.child, &[answer]).await.expect("it lives");
                expect_pattern(&*ends.parent, &mut up, sent_up).await;
            }
            assert_eq!((down, up), (sent_down, sent_up), "{parent_us} and {child_us} us");
        }
    });
}

/// Sends `count` frames and keeps those that arrive.
async fn frames(pair: &Pair, count: usize, len: usize) -> Vec<Bytes> {
    let ends = pair.lane(Lane::Bulk);
    let head = |number: usize| Bytes::from(format!("head {number:06}"));
    let sender = async {
        for number in 0..count {
            // Now and then a payload is outside registered memory.
            let payload = pattern(number, len);
            let payload = if number % 3 == 0 { payload } else { pair.parent.place(payload, false) };
            send(&*ends.parent, &[head(number), payload]).await.expect("it lives");
        }
    };
    let receiver = async {
        let mut kept = Vec::new();
        for number in 0..count {
            let frame = ends.child.read().await.expect("it lives");
            assert!(frame.starts_with(&head(number)), "frame {number} is next");
            kept.push(frame);
        }
        kept
    };
    futures_util::join!(sender, receiver).1
}

fn check(frames: &[Bytes], len: usize) {
    for (number, frame) in frames.iter().enumerate() {
        assert!(frame[frame.len() - len..] == pattern(number, len), "frame {number}");
    }
}

#[test]
fn frames_stay_where_they_were_written() {
    run(async {
        let pair = Pair::new();
        let len = pair.parent.max_chunk_bytes() as usize;
        let (_, free_before) = pair.child.blocks();
        assert!(free_before > 0);
        let kept = frames(&pair, 20, len).await;
        check(&kept, len);
        let (all, free) = pair.child.blocks();
        assert_eq!(all - free, 20, "each keeps its block");
        drop(kept);
        let (all, free) = pair.child.blocks();
        assert_eq!(all, free, "nothing is kept");
        let (all, free) = pair.parent.blocks();
        assert_eq!(all, free, "nothing is kept");
    });
}

#[test]
fn frames_are_copied_when_there_are_no_more_blocks() {
    run(async {
        let few = VerbsConfig { max_blocks: 4, ..config(2) };
        let pair = Pair::with(config(1), few);
        let len = pair.parent.max_chunk_bytes() as usize;
        let kept = frames(&pair, 20, len).await;
        check(&kept, len);
        assert_eq!(pair.child.blocks().0, 4, "no more than that");
    });
}

#[test]
fn short_frames_do_not_keep_a_block() {
    run(async {
        let pair = Pair::new();
        let kept = frames(&pair, 20, 1000).await;
        check(&kept, 1000);
        let (all, free) = pair.child.blocks();
        assert_eq!(all, free, "their blocks are free");
    });
}

#[test]
fn a_frame_that_fits_in_no_block_is_refused() {
    run(async {
        let small = VerbsConfig { chunk_bytes: 4096, ..config(2) };
        let pair = Pair::with(config(1), small);
        let ends = pair.lane(Lane::Bulk);
        ends.parent.writable().await.expect("the child grants");
        let frame = [Bytes::from_static(b"head"), pattern(0, 100_000)];
        let error = send(&*ends.parent, &frame).await.expect_err("it does not fit");
        assert!(error.to_string().contains("100004 bytes"), "{error}");
        assert!(error.to_string().contains("n2"), "{error}");
    });
}

#[test]
fn nothing_is_sent_on_a_lane_that_is_closed() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Express);
        ends.child.shutdown();
        for error in [
            end_of_reading(&*ends.child).await,
            send(&*ends.child, &[pattern(0, 1)]).await.expect_err("it is closed"),
        ] {
            assert!(error.to_string().contains("the lane to n1 was closed"), "{error}");
        }
    });
}

/// The kernel's objects for this process and all others: queue pairs, queues, regions.
pub(crate) fn resources() -> String {
    let output = Command::new("rdma").args(["resource", "show"]).output().expect("rdma");
    String::from_utf8(output.stdout).expect("text")
}

/// The drivers of lanes are tasks. They end when they are polled next.
pub(crate) async fn expect_resources(expected: &str) {
    for _ in 0..100 {
        if resources() == expected {
            return;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(resources(), expected);
}

/// Uses both lanes once. `reads` tells whether the last frame is read or left under way.
async fn use_lanes(pair: &Pair, reads: bool) {
    let (express, bulk) = (pair.lane(Lane::Express), pair.lane(Lane::Bulk));
    let frame = [pattern(0, 10), pair.parent.place(pattern(0, 100_000), false)];
    send(&*bulk.parent, &frame).await.expect("it lives");
    if reads {
        bulk.child.read().await.expect("it lives");
    }
    send(&*express.child, &frame[..1]).await.expect("it lives");
}

#[test]
fn lanes_leave_nothing_behind() {
    run(async {
        let nothing = resources();
        let pair = Pair::new();
        // Blocks are registered when first needed, and stay registered.
        use_lanes(&pair, true).await;
        tokio::task::yield_now().await;
        let before = resources();
        assert_ne!(before, nothing, "regions are something");
        for round in 0..20 {
            use_lanes(&pair, round % 2 == 0).await;
        }
        expect_resources(&before).await;
        for fabric in [&pair.parent, &pair.child] {
            let (all, free) = fabric.blocks();
            assert_eq!(all, free);
        }
        drop(pair);
        expect_resources(&nothing).await;
    });
}
