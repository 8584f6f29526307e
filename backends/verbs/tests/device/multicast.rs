//! Payloads that the root sends to all members at once.

use crate::environment::shell;
use crate::lanes::{expect_resources, resources};
use crate::log::Recording;
use crate::pair::{CHILD, Ends, Pair, config, pattern, run, send};
use bytes::Bytes;
use std::rc::Rc;
use storm_backend_tcp::fabric::{Carrier, End, Fabric};
use storm_backend_tcp::wire::Lane;
use storm_backend_verbs::{Multicast, MulticastReport, VerbsConfig, VerbsFabric};

/// Length of the payloads: some tens of datagrams, the last one short.
const LEN: usize = 200_001;
/// Stands for the head of a chunk.
const HEAD: &[u8] = b"the head of a chunk";

fn root(multicast: Multicast) -> VerbsFabric {
    open(VerbsConfig { multicast: Some(multicast), ..config(1) })
}

fn open(config: VerbsConfig) -> VerbsFabric {
    VerbsFabric::open(config).expect("a device that works")
}

fn frame(fabric: &VerbsFabric, number: usize) -> [Bytes; 2] {
    [Bytes::from_static(HEAD), fabric.place(pattern(number, LEN), true)]
}

fn check(frame: &Bytes, number: usize) {
    assert!(frame.starts_with(HEAD), "frame {number} is next");
    assert!(frame[HEAD.len()..] == pattern(number, LEN), "frame {number}");
}

/// The bulk lane between two members.
fn bulk(parent: &VerbsFabric, child: &VerbsFabric) -> Ends {
    let up = child.open(crate::pair::PARENT, Lane::Bulk, End::Child).expect("there is room");
    let down = parent.open(CHILD, Lane::Bulk, End::Parent).expect("there is room");
    let (from_child, from_parent) = (up.offer(), down.offer());
    let parent = down.connect(&from_child).expect("they fit together");
    Ends { parent, child: up.connect(&from_parent).expect("they fit together") }
}

/// Runs the tasks of the members until `done`, or until they have had enough time.
async fn until(done: impl Fn() -> bool) {
    let waits = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), waits).await.expect("it is done");
}

fn works(fabric: &VerbsFabric) -> bool {
    fabric.multicast().is_some_and(|report| report.works)
}

/// Reads `count` frames in a task of its own.
fn read(carrier: &Rc<dyn Carrier>, count: usize) -> tokio::task::JoinHandle<Vec<Bytes>> {
    let carrier = carrier.clone();
    tokio::task::spawn_local(async move {
        let mut frames = Vec::new();
        for _ in 0..count {
            frames.push(carrier.read().await.expect("it lives"));
        }
        frames
    })
}

fn report(fabric: &VerbsFabric) -> MulticastReport {
    fabric.multicast().expect("it takes part")
}

#[test]
fn a_multicast_is_sent_once_and_arrives_unchanged_everywhere() {
    run(async {
        let (root, children) = (root(Multicast::Auto), [open(config(2)), open(config(3))]);
        let lanes = children.each_ref().map(|child| bulk(&root, child));
        let readers = lanes.each_ref().map(|lane| read(&lane.child, 21));
        until(|| works(&root) && children.iter().all(works)).await;
        for number in 0..20 {
            let frame = frame(&root, number);
            for lane in &lanes {
                send(&*lane.parent, &frame).await.expect("it lives");
            }
        }
        // Data that is not for many members is sent down the tree as usual.
        let last = [Bytes::from_static(HEAD), root.place(pattern(20, LEN), false)];
        for lane in &lanes {
            send(&*lane.parent, &last).await.expect("it lives");
        }
        for reader in readers {
            let frames = reader.await.expect("it ends");
            frames.iter().enumerate().for_each(|(number, frame)| check(frame, number));
        }
        let sent = report(&root);
        assert!(sent.chunks > 0 && sent.chunks <= 20, "{sent:?}");
        let missed: u64 = children.iter().map(|child| report(child).missed_bytes).sum();
        assert_eq!(sent.missed_bytes, missed);
        for child in &children {
            let got = report(child);
            assert!(got.chunks > 0 && got.chunks <= sent.chunks, "{got:?} of {sent:?}");
        }
        drop(last);
        for fabric in children.iter().chain([&root]) {
            until(|| fabric.blocks().0 - fabric.blocks().1 <= 4).await;
        }
    });
}

#[test]
fn a_child_passes_on_the_mark_of_a_multicast_payload() {
    run(async {
        let (root, middle, leaf) = (root(Multicast::On), open(config(2)), open(config(3)));
        let (upper, lower) = (bulk(&root, &middle), bulk(&middle, &leaf));
        let passed = upper.child.clone();
        let below = lower.parent.clone();
        let passing = tokio::task::spawn_local(async move {
            for number in 0..10 {
                let frame = passed.read().await.expect("it lives");
                check(&frame, number);
                let parts = [frame.slice(..HEAD.len()), frame.slice(HEAD.len()..)];
                send(&*below, &parts).await.expect("it lives");
            }
        });
        let reader = read(&lower.child, 10);
        // A leaf asks through its parent.
        until(|| works(&root) && works(&middle) && works(&leaf)).await;
        for number in 0..10 {
            send(&*upper.parent, &frame(&root, number)).await.expect("it lives");
        }
        passing.await.expect("it ends");
        let frames = reader.await.expect("it ends");
        frames.iter().enumerate().for_each(|(number, frame)| check(frame, number));
        let (sent, got) = (report(&root), report(&leaf));
        assert!(got.chunks > 0 && got.chunks <= sent.chunks, "{got:?} of {sent:?}");
    });
}

/// A forwarder does not forward a payload that its children also got by multicast.
#[test]
fn a_forwarder_does_not_resend_a_multicast_payload() {
    run(async {
        let (root, middle, leaf) = (root(Multicast::On), open(config(2)), open(config(3)));
        let (upper, lower) = (bulk(&root, &middle), bulk(&middle, &leaf));
        let (passed, below) = (upper.child.clone(), lower.parent.clone());
        let _passing = tokio::task::spawn_local(async move {
            while let Ok(frame) = passed.read().await {
                let parts = [frame.slice(..HEAD.len()), frame.slice(HEAD.len()..)];
                drop(frame);
                send(&*below, &parts).await.expect("it lives");
            }
        });
        // From here on, the leaf receives datagrams, and its parent knows it.
        while !works(&leaf) || report(&leaf).chunks == 0 {
            let reader = read(&lower.child, 1);
            send(&*upper.parent, &frame(&root, 0)).await.expect("it lives");
            check(&reader.await.expect("it ends")[0], 0);
        }
        let before = (report(&root).chunks, report(&leaf).chunks);
        for len in [5000, 20_000, 60_000, 69_000, 75_000, LEN] {
            let reader = read(&lower.child, 1);
            let payload = root.place(pattern(3, len), true);
            send(&*upper.parent, &[Bytes::from_static(HEAD), payload]).await.expect("it lives");
            let frames = reader.await.expect("it ends");
            assert!(frames[0][HEAD.len()..] == pattern(3, len), "of {len} bytes");
        }
        let sent = report(&root).chunks - before.0;
        assert!(sent > 0);
        assert_eq!(report(&leaf).chunks - before.1, sent, "each once");
    });
}

#[test]
fn data_for_others_is_not_kept() {
    run(async {
        let (root, children) = (root(Multicast::Auto), [open(config(2)), open(config(3))]);
        let lanes = children.each_ref().map(|child| bulk(&root, child));
        let reader = read(&lanes[0].child, 3);
        let _other = read(&lanes[1].child, 1);
        until(|| works(&root) && children.iter().all(works)).await;
        let in_use = |fabric: &VerbsFabric| fabric.blocks().0 - fabric.blocks().1;
        let before = in_use(&children[1]);
        for number in 0..3 {
            send(&*lanes[0].parent, &frame(&root, number)).await.expect("it lives");
        }
        reader.await.expect("it ends");
        assert!(report(&root).chunks > 0);
        until(|| in_use(&children[1]) > before).await;
        until(|| in_use(&children[1]) <= before).await;
    });
}

#[test]
fn a_member_without_room_for_datagrams_gets_everything_from_its_parent() {
    run(async {
        let few = VerbsConfig { max_blocks: 4, blocks_per_lane: 4, ..config(2) };
        let (root, child) = (root(Multicast::On), open(few));
        let lane = bulk(&root, &child);
        let reader = read(&lane.child, 10);
        until(|| works(&root)).await;
        for number in 0..10 {
            send(&*lane.parent, &frame(&root, number)).await.expect("it lives");
        }
        let frames = reader.await.expect("it ends");
        frames.iter().enumerate().for_each(|(number, frame)| check(frame, number));
        assert!(report(&child).missed_bytes >= LEN as u64, "{:?}", report(&child));
        assert_eq!(child.blocks().0, 4, "no more than that");
    });
}

#[test]
fn obstacles_are_reported_and_the_tree_carries_the_payload() {
    run(async {
        let root = root(Multicast::On);
        shell("ip link set d0 mtu 1500");
        let child = open(config(2));
        shell("ip link set d0 mtu 4200");
        let lane = bulk(&root, &child);
        let reader = read(&lane.child, 3);
        let recording = Recording::start();
        for number in 0..3 {
            send(&*lane.parent, &frame(&root, number)).await.expect("it lives");
        }
        let frames = reader.await.expect("it ends");
        frames.iter().enumerate().for_each(|(number, frame)| check(frame, number));
        let said = recording.text();
        assert!(said.contains("no multicast: large transfers go by the tree"), "{said}");
        assert!(said.contains("its MTU is smaller than that of the root"), "{said}");
        assert!(child.multicast().is_none());
    });
}

#[test]
fn a_group_leaves_nothing_behind() {
    run(async {
        let nothing = resources();
        {
            let (root, child) = (root(Multicast::On), open(config(2)));
            let lane = bulk(&root, &child);
            let reader = read(&lane.child, 5);
            until(|| works(&root)).await;
            for number in 0..5 {
                send(&*lane.parent, &frame(&root, number)).await.expect("it lives");
            }
            drop(reader.await.expect("it ends"));
            let pair = Pair { parent: root, child };
            for fabric in [&pair.parent, &pair.child] {
                until(|| fabric.blocks().0 - fabric.blocks().1 <= 4).await;
            }
        }
        expect_resources(&nothing).await;
    });
}
