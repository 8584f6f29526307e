//! A peer, a port or a device that fails while in use.

use crate::environment::{PortDown, make_device, shell, start_shell};
use crate::lanes::{expect_resources, resources};
use crate::log::log_of;
use crate::pair::{Ends, Pair, end_of_reading, pattern, run, send};
use storm_backend_tcp::fabric::{Carrier, Fabric};
use storm_backend_tcp::wire::Lane;
use storm_backend_verbs::abi::EVENT_DEVICE_FATAL;
use storm_backend_verbs::guard::DeviceEvent;
use storm_backend_verbs::{VerbsConfig, VerbsFabric, inventory};

#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_write_is_named() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Bulk);
        ends.parent.writable().await.expect("the child grants");
        let len = pair.parent.max_chunk_bytes() as usize;
        let frame = [pattern(0, 10), pair.parent.place(pattern(0, len), false)];
        send(&*ends.parent, &frame).await.expect("it is taken");
        // Soft-RoCE may have delivered the first frame already; the second has no receiver.
        drop(ends.child);
        send(&*ends.parent, &frame).await.expect("it is taken");
        let error = end_of_reading(&*ends.parent).await.to_string();
        assert!(error.contains("the queue pair to n2 is in its error state"), "{error}");
        // The writer learns the same error.
        let again = send(&*ends.parent, &frame).await.expect_err("it has ended").to_string();
        assert_eq!(again, error);
        drop((frame, ends.parent));
        let (all, free) = pair.parent.blocks();
        assert_eq!(all, free, "nothing is kept");
    });
}

#[test]
fn messages_after_the_end_change_nothing() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Bulk);
        ends.parent.writable().await.expect("the child grants");
        ends.child.shutdown();
        let frame = [pattern(0, 10), pair.parent.place(pattern(0, 100_000), false)];
        send(&*ends.parent, &frame).await.expect("it is taken");
        let error = end_of_reading(&*ends.parent).await.to_string();
        assert!(error.contains("n2"), "{error}");
        let error = end_of_reading(&*ends.child).await.to_string();
        assert!(error.contains("closed"), "{error}");
    });
}

#[test]
fn a_port_that_goes_down_ends_its_lanes_and_another_lane_follows() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Express);
        send(&*ends.child, &[pattern(0, 10)]).await.expect("it lives");
        assert_eq!(ends.parent.read().await.expect("it lives").len(), 10);
        let down = PortDown::new();
        send(&*ends.parent, &[pattern(0, 10)]).await.expect("it is taken");
        let error = end_of_reading(&*ends.parent).await.to_string();
        assert!(error.contains("the queue pair to n2 is in its error state"), "{error}");
        assert!(error.contains("port 1 of rxe0 is down"), "{error}");
        drop(down);
        let ends = pair.lane(Lane::Express);
        send(&*ends.child, &[pattern(0, 10)]).await.expect("it lives");
        assert_eq!(ends.parent.read().await.expect("it lives").len(), 10);
    });
}

/// Sends without pause until the lane ends. Returns the reason.
async fn send_until_it_ends(carrier: &dyn Carrier) -> String {
    loop {
        if let Err(error) = send(carrier, &[pattern(0, 3000)]).await {
            return error.to_string();
        }
        tokio::task::yield_now().await;
    }
}

/// Runs the shell command `meanwhile` on the device while lanes are busy. Returns the reasons for
/// which the parent's end and the child's end ended, and the exit status of the command.
async fn ended_by(meanwhile: &str) -> (String, String, std::process::ExitStatus) {
    let pair = Pair::new();
    let (down, up) = (pair.lane(Lane::Express), pair.lane(Lane::Express));
    let mut child = start_shell(meanwhile);
    // A side that sends nothing learns of the end by its TCP connection, which this test lacks.
    let readers = [down.child.clone(), up.parent.clone()];
    let readers = readers.map(|end| {
        tokio::task::spawn_local(async move { end_of_reading(&*end).await.to_string() })
    });
    let (parent, child_said) =
        futures_util::join!(send_until_it_ends(&*down.parent), send_until_it_ends(&*up.child));
    for reader in readers {
        reader.abort();
        // The reader has ended, or was aborted.
        let _ = reader.await;
    }
    for fabric in [&pair.parent, &pair.child] {
        let (all, free) = fabric.blocks();
        assert_eq!(all, free, "nothing is kept");
    }
    drop((down, up, pair));
    // The kernel waits until the device is no longer in use.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    (parent, child_said, child.wait().expect("a shell"))
}

#[test]
fn removing_the_network_ends_the_lanes_and_frees_the_device() {
    run(async {
        let (parent, child, status) = ended_by("ip link delete d0").await;
        assert!(status.success(), "it is gone");
        assert_eq!(inventory().expect("the library works").len(), 0);
        make_device();
        assert!(parent.contains("n2") && parent.contains("rxe0"), "{parent}");
        assert!(child.contains("n1") && child.contains("rxe0"), "{child}");
        expect_data(&Pair::new()).await;
    });
}

#[test]
fn a_device_to_be_deleted_serves_its_lanes_to_their_end() {
    run(async {
        let pair = Pair::new();
        expect_data(&pair).await;
        let mut deleting = start_shell("rdma link delete rxe0");
        // Soft-RoCE cannot take a device from its users: the kernel waits.
        let ends = pair.lane(Lane::Express);
        for _ in 0..200 {
            exchange(&ends).await;
        }
        assert!(deleting.try_wait().expect("a shell").is_none(), "it waits");
        drop((ends, pair));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(deleting.wait().expect("a shell").success(), "it is gone");
        assert_eq!(inventory().expect("the library works").len(), 0);
        shell("rdma link add rxe0 type rxe netdev d0");
        expect_data(&Pair::new()).await;
    });
}

#[test]
fn a_fatal_device_event_ends_busy_lanes_and_the_device_is_reopened() {
    run(async {
        let nothing = resources();
        let pair = Pair::new();
        let (express, bulk) = (pair.lane(Lane::Express), pair.lane(Lane::Bulk));
        exchange(&express).await;
        let payload = pair.parent.place(pattern(0, 200_000), false);
        let fatal = DeviceEvent { kind: EVENT_DEVICE_FATAL, name: String::from("device failed") };
        let fails = async {
            // The port goes down while other tasks are at work.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            log_of(|| pair.parent.happened(&fatal)).1
        };
        let reader = bulk.child.clone();
        let reader = tokio::task::spawn_local(async move { end_of_reading(&*reader).await });
        let bulk_sender = async {
            loop {
                if let Err(error) = send(&*bulk.parent, &[pattern(0, 10), payload.clone()]).await {
                    return error.to_string();
                }
                tokio::task::yield_now().await;
            }
        };
        let (said, sending, filling, reading) =
            futures_util::join!(fails, send_until_it_ends(&*express.parent), bulk_sender, async {
                end_of_reading(&*express.parent).await.to_string()
            },);
        reader.abort();
        // The reader has ended, or was aborted.
        let _ = reader.await;
        assert!(said.contains("the device has failed") && said.contains("rxe0"), "{said}");
        for error in [sending, filling, reading] {
            assert!(error.starts_with("the device rxe0 of the lane to n2 has failed"), "{error}");
            assert!(error.contains("the queue pair is in its error state"), "{error}");
        }
        drop((express, bulk, payload));
        // The same member registers new memory.
        expect_data(&pair).await;
        let (all, free) = pair.parent.blocks();
        assert_eq!(all, free, "nothing is kept");
        drop(pair);
        expect_resources(&nothing).await;
    });
}

/// Sends a message each way.
async fn exchange(ends: &Ends) {
    for (from, to) in [(&ends.child, &ends.parent), (&ends.parent, &ends.child)] {
        send(&**from, &[pattern(0, 1000)]).await.expect("it lives");
        let mut missing = 1000;
        while missing > 0 {
            missing -= to.read().await.expect("it lives").len();
        }
    }
}

/// Both kinds of lanes carry data.
async fn expect_data(pair: &Pair) {
    exchange(&pair.lane(Lane::Express)).await;
    let bulk = pair.lane(Lane::Bulk);
    let payload = pattern(3, 200_000);
    send(&*bulk.parent, &[pattern(0, 10), pair.parent.place(payload.clone(), false)])
        .await
        .expect("it lives");
    assert!(bulk.child.read().await.expect("it lives")[10..] == payload);
}

#[test]
fn ports_of_different_mtu_agree_on_the_smaller_and_say_so() {
    run(async {
        let large = VerbsFabric::open(crate::pair::config(1)).expect("a device that works");
        shell("ip link set d0 mtu 1500");
        let small = VerbsFabric::open(crate::pair::config(2)).expect("a device that works");
        shell("ip link set d0 mtu 4200");
        let pair = Pair { parent: large, child: small };
        let (ends, said) = log_of(|| pair.lane(Lane::Bulk));
        let agreed = "the ports differ in MTU; this lane uses the smaller";
        assert!(said.contains(&format!("{agreed} peer=n2 ours=4096 theirs=1024")), "{said}");
        assert!(said.contains(&format!("{agreed} peer=n1 ours=1024 theirs=4096")), "{said}");
        let payload = pattern(0, 200_000);
        send(&*ends.parent, &[pattern(0, 10), payload.clone()]).await.expect("it lives");
        let frame = ends.child.read().await.expect("it lives");
        assert!(frame[10..] == payload);
    });
}

#[test]
fn a_bulk_lane_with_little_memory_still_moves() {
    run(async {
        let least =
            |host| VerbsConfig { max_blocks: 1, blocks_per_lane: 1, ..crate::pair::config(host) };
        let pair = Pair::with(least(1), least(2));
        let lanes: Vec<_> = (0..6).map(|_| pair.lane(Lane::Bulk)).collect();
        for round in 0..5 {
            for ends in &lanes {
                let frame = [pattern(round, 10), pattern(round, 100_000)];
                send(&*ends.parent, &frame).await.expect("it lives");
                let came = ends.child.read().await.expect("it lives");
                assert!(came[10..] == frame[1]);
            }
        }
    });
}
