//! A peer, a port or a device that goes away while it is used.

use crate::environment::{PortDown, make_device, shell, start_shell};
use crate::log::log_of;
use crate::pair::{Pair, end_of_reading, pattern, run, send};
use storm_backend_tcp::fabric::{Carrier, Fabric};
use storm_backend_tcp::wire::Lane;
use storm_backend_verbs::{VerbsConfig, VerbsFabric, inventory};

#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_write_is_named() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Bulk);
        ends.parent.writable().await.expect("the child grants");
        let len = pair.parent.max_chunk_bytes() as usize;
        let frame = [pattern(0, 10), pair.parent.place(pattern(0, len))];
        send(&*ends.parent, &frame).await.expect("it is taken");
        // Soft-RoCE may have it delivered already; the second frame is for nobody.
        drop(ends.child);
        send(&*ends.parent, &frame).await.expect("it is taken");
        let error = end_of_reading(&*ends.parent).await.to_string();
        assert!(error.contains("the queue pair to n2 is in its error state"), "{error}");
        // And who writes learns of the same.
        let again = send(&*ends.parent, &frame).await.expect_err("it has ended").to_string();
        assert_eq!(again, error);
        drop((frame, ends.parent));
        let (all, free) = pair.parent.blocks();
        assert_eq!(all, free, "nothing is kept");
    });
}

#[test]
fn what_comes_after_the_end_changes_nothing() {
    run(async {
        let pair = Pair::new();
        let ends = pair.lane(Lane::Bulk);
        ends.parent.writable().await.expect("the child grants");
        ends.child.shutdown();
        let frame = [pattern(0, 10), pair.parent.place(pattern(0, 100_000))];
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

/// Sends all the time until the lane ends; why it has.
async fn send_until_it_ends(carrier: &dyn Carrier) -> String {
    loop {
        if let Err(error) = send(carrier, &[pattern(0, 3000)]).await {
            return error.to_string();
        }
        tokio::task::yield_now().await;
    }
}

/// What `meanwhile` does to the device comes while lanes are busy. Why the parent's end and
/// the child's have ended, and what is left when nobody uses the device any more.
async fn ended_by(meanwhile: &str) -> (String, String, std::process::ExitStatus) {
    let pair = Pair::new();
    let (down, up) = (pair.lane(Lane::Express), pair.lane(Lane::Express));
    let mut child = start_shell(meanwhile);
    // A side that sends nothing is told by the end of its TCP connection, which is not here.
    let readers = [down.child.clone(), up.parent.clone()];
    let readers = readers.map(|end| {
        tokio::task::spawn_local(async move { end_of_reading(&*end).await.to_string() })
    });
    let (parent, child_said) =
        futures_util::join!(send_until_it_ends(&*down.parent), send_until_it_ends(&*up.child));
    for reader in readers {
        reader.abort();
        // It has ended, or will never.
        let _ = reader.await;
    }
    for fabric in [&pair.parent, &pair.child] {
        let (all, free) = fabric.blocks();
        assert_eq!(all, free, "nothing is kept");
    }
    drop((down, up, pair));
    // The kernel waits for those who use what it takes away.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    (parent, child_said, child.wait().expect("a shell"))
}

#[test]
fn a_device_whose_network_is_taken_out_ends_its_lanes_and_can_go() {
    run(async {
        let (parent, child, status) = ended_by("ip link delete d0").await;
        assert!(status.success(), "it is gone");
        assert_eq!(inventory().expect("the library works").len(), 0);
        make_device();
        assert!(parent.contains("n2") && parent.contains("rxe0"), "{parent}");
        assert!(child.contains("n1") && child.contains("rxe0"), "{child}");
        let ends = Pair::new().lane(Lane::Express);
        drop(ends);
    });
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
