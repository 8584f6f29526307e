//! The other side's offer is not trusted.

use crate::pair::{CHILD, PARENT, Pair, end_of_reading, pattern, run, send};
use serde::{Deserialize, Serialize};
use storm_backend_tcp::fabric::{End, Fabric};
use storm_backend_tcp::wire::Lane;

/// An offer in its wire format.
#[derive(Serialize, Deserialize)]
struct Offer {
    version: u32,
    ring_bytes: u64,
    number: u32,
    first_packet: u32,
    gid: [u8; 16],
    lid: u16,
    link_layer: u8,
    mtu: u32,
    ring_addr: u64,
    ring_rkey: u32,
}

fn change(offer: &[u8], change: impl FnOnce(&mut Offer)) -> Vec<u8> {
    let mut offer = postcard::from_bytes(offer).expect("an offer");
    change(&mut offer);
    postcard::to_stdvec(&offer).expect("an offer")
}

#[test]
fn senseless_offers_are_refused_with_the_reason() {
    run(async {
        let pair = Pair::new();
        let refusal = |changed: fn(Vec<u8>) -> Vec<u8>| {
            let error = pair.lane_by(Lane::Bulk, |same| same, changed);
            error.map(|_| ()).expect_err("it makes no sense").to_string()
        };
        let garbage = refusal(|_| vec![0xff; 40]);
        assert!(garbage.contains("n2") && garbage.contains("cannot be decoded"), "{garbage}");
        let version = refusal(|offer| change(&offer, |offer| offer.version += 1));
        assert!(version.contains("another version"), "{version}");
        let layer = refusal(|offer| change(&offer, |offer| offer.link_layer = 1));
        assert_eq!(layer, "the port of n2 is on InfiniBand, the port of this node on Ethernet");
    });
}

#[test]
fn a_wrong_memory_key_ends_the_lane_and_names_the_peer() {
    run(async {
        let pair = Pair::new();
        let wrong = |offer: Vec<u8>| change(&offer, |offer| offer.ring_rkey ^= 0xff00);
        let ends = pair.lane_by(Lane::Express, wrong, |same| same).expect("nothing shows yet");
        send(&*ends.child, &[pattern(0, 1000)]).await.expect("it is taken");
        let error = end_of_reading(&*ends.child).await.to_string();
        assert!(error.contains("the queue pair to n1 is in its error state"), "{error}");
        assert!(error.contains("remote access error"), "{error}");
    });
}

#[test]
fn a_lane_that_nobody_answers_ends_when_retries_are_exhausted() {
    run(async {
        let pair = Pair::new();
        let up = pair.child.open(PARENT, Lane::Express, End::Child).expect("there is room");
        let down = pair.parent.open(CHILD, Lane::Express, End::Parent).expect("there is room");
        let offer = down.offer();
        // The parent closes before the child has connected.
        drop(down);
        let child = up.connect(&offer).expect("nothing shows yet");
        send(&*child, &[pattern(0, 10)]).await.expect("it is taken");
        let error = end_of_reading(&*child).await.to_string();
        assert!(error.contains("the queue pair to n1 is in its error state"), "{error}");
        assert!(error.contains("transport retry counter exceeded (status 12)"), "{error}");
    });
}
