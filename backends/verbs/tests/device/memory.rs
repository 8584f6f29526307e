//! Memory permits only the access that it was registered for.

use std::net::Ipv4Addr;
use std::sync::Arc;
use storm_backend_verbs::guard::{
    Access, CompletionChannel, CompletionQueue, Device, Endpoint, MemoryRegion, OpenDevice,
    Outcome, ProtectionDomain, QueuePair, RemoteAddr, Route, Source,
};

const LEN: usize = 100;

/// One end of a connection, which may be written to.
struct Side {
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    endpoint: Endpoint,
}

impl Side {
    fn new(domain: &Arc<ProtectionDomain>, device: &Arc<OpenDevice>, index: u8) -> Side {
        let channel = CompletionChannel::new(device).expect("a channel");
        let queue = Arc::new(CompletionQueue::new(&channel, 0, 8).expect("a queue"));
        let pair = QueuePair::new(domain, &queue, 4, 4, 0).expect("a pair");
        pair.initialise(&device.port(1).expect("a port")).expect("it can receive");
        pair.post_receives(1).expect("there is room");
        let gid = device.gid(1, index).expect("an address");
        let endpoint = Endpoint { number: pair.number(), first_packet: 0, gid, lid: 0 };
        Side { pair, queue, endpoint }
    }

    fn next(&self) -> Outcome {
        let mut next = None;
        while next.is_none() {
            self.queue
                .poll(|completion| next = next.or(Some(completion.outcome)))
                .expect("a queue");
        }
        next.expect("it was just found")
    }
}

/// The result of a write to memory of this access.
fn write_to(access: Access) -> (Outcome, Vec<u8>) {
    let device = Device::open(None).expect("a device");
    let domain = ProtectionDomain::new(&device).expect("a domain");
    let host = Ipv4Addr::new(10, 9, 0, 1);
    let is_own = |index: &u8| {
        device.gid(1, *index).is_ok_and(|gid| gid.raw == host.to_ipv6_mapped().octets())
    };
    let index = (0..16).find(is_own).expect("the address");
    let sides = [(); 2].map(|()| Side::new(&domain, &device, index));
    let port = device.port(1).expect("a port");
    let route = Route { gid_index: index, mtu: 3 };
    for (own, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        own.pair.connect(&port, &route, &own.endpoint, &other.endpoint).expect("they fit");
    }
    let region = |access| MemoryRegion::new(&domain, LEN, access).expect("memory");
    let (mut from, to) = (region(Access::Read), region(access));
    from.fill(0, &[7; LEN]);
    let addr = RemoteAddr { addr: to.addr(), rkey: to.rkey() };
    let source = Some(Source::Part(Arc::new(from), 0..LEN));
    sides[0].pair.post_write([source, None], addr, 5).expect("there is room");
    (sides[0].next(), to.read(0..LEN))
}

#[test]
fn a_writer_with_the_key_writes_only_to_permitted_memory() {
    assert_eq!(write_to(Access::RemoteWrite), (Outcome::Sent, vec![7; LEN]));
    for access in [Access::Receive, Access::Read] {
        let (outcome, bytes) = write_to(access);
        assert!(matches!(outcome, Outcome::Failed { .. }), "{access:?}: {outcome:?}");
        assert_eq!(bytes, [0; LEN]);
    }
}
