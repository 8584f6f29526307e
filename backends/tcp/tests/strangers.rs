//! A peer without the cluster key, or a relay on the way, learns nothing, changes nothing, and
//! costs nothing.

mod relay;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use relay::{Relay, Tampering, Way};
use std::net::SocketAddr;
use std::time::Duration;
use storm_backend_tcp::wire::{Hello, Join, PROTOCOL_VERSION, encode};
use storm_backend_tcp::{
    ClusterKey, JoinError, NameTable, Node, NodeConfig, Refusal, Root, RootConfig, SessionError,
    TcpPrimitives, Trust,
};
use storm_primitives::{Layout, NodeId, NodeSet, Primitives, Region, Runtime, Xfer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BLOCK_BYTES: u64 = 1 << 20;
/// The beginning of an opening: magic and version of `storm_session`.
const OPENING_HEAD: [u8; 8] = *b"\xffSTORM\0\x01";
/// Length of an opening and of an answer in bytes.
const OPENING_BYTES: usize = 64;
const ANSWER_BYTES: usize = 49;
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn plan() -> (Layout, Region) {
    let mut builder = Layout::builder();
    let block = builder.region("block", BLOCK_BYTES);
    (builder.build(), block)
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

fn key() -> ClusterKey {
    ClusterKey::generate().expect("random bytes")
}

fn root(trust: Option<Trust>) -> Root {
    let mut config = RootConfig::new(loopback(), plan().0, NameTable::open(1000));
    config.trust = trust;
    Root::bind(config).expect("a port")
}

async fn join(
    root: SocketAddr,
    name: &str,
    trust: Option<Trust>,
) -> Result<TcpPrimitives, JoinError> {
    let mut config = NodeConfig::new(root, name, loopback(), plan().0);
    config.trust = trust;
    Node::join(config).await
}

/// A transfer to all reaches all.
async fn works(root: &Root, nodes: u32) {
    let data = vec![5; BLOCK_BYTES as usize];
    let xfer = Xfer::new(NodeSet::compute(nodes), plan().1.addr, data);
    assert_eq!(root.handle().xfer_and_wait(xfer).await, Ok(()));
}

/// Waits until the root counts `count` members, itself included.
async fn members(root: &Root, count: usize) {
    let handle = root.handle();
    let membership = handle.membership();
    let settled = async {
        while membership.alive().len() != count {
            membership.changed(membership.epoch()).await;
        }
    };
    assert!(handle.runtime().timeout(LONG, settled).await.is_some(), "{count} members");
}

/// Sends `bytes`, and reads until the other side closes.
async fn say(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.expect("it listens");
    // The peer may close the connection in the middle.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

/// The beginning of an opening that names `key`.
fn opening_of(key: &ClusterKey) -> Vec<u8> {
    let id = key.id().to_string();
    let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).expect("hexadecimal");
    OPENING_HEAD.into_iter().chain((0..id.len()).step_by(2).map(byte)).collect()
}

#[test]
fn a_wrong_key_is_told_on_both_sides_by_name() {
    run(async {
        let (ours, wrong) = (key(), key());
        let (ours_id, wrong_id) = (ours.id(), wrong.id());
        let root = root(Some(Trust::new(ours.clone())));
        match join(root.local_addr(), "n1", Some(Trust::new(wrong))).await {
            Err(JoinError::Session(SessionError::RefusedKey { theirs, ours })) => {
                assert_eq!((theirs, ours), (ours_id, wrong_id));
            }
            other => panic!("{other:?}"),
        }
        let node = join(root.local_addr(), "n1", Some(Trust::new(ours))).await;
        assert_eq!(node.expect("the right key").node(), NodeId(1));
        works(&root, 1).await;
    });
}

#[test]
fn a_node_without_a_key_is_told_what_it_lacks() {
    run(async {
        let key = key();
        let root = root(Some(Trust::new(key.clone())));
        match join(root.local_addr(), "n1", None).await {
            Err(JoinError::Refused(Refusal::KeyNeeded { key: named })) => {
                assert_eq!(named, key.id().to_string());
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_node_with_a_key_does_not_go_on_in_plain_text() {
    run(async {
        let root = root(None);
        let refused = join(root.local_addr(), "n1", Some(Trust::new(key()))).await;
        assert!(
            matches!(refused, Err(JoinError::Session(SessionError::RefusedAsKeyed { .. }))),
            "{refused:?}"
        );
        assert_eq!(root.handle().membership().alive().len(), 1);
    });
}

#[test]
fn beyond_this_host_nothing_is_done_without_a_key() {
    run(async {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let config = RootConfig::new(everywhere, plan().0, NameTable::open(1));
        let error = Root::bind(config).expect_err("no key");
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        for (root, listen) in [(loopback(), everywhere), (([192, 0, 2, 1], 1).into(), loopback())] {
            let config = NodeConfig::new(root, "n1", listen, plan().0);
            let refused = Node::join(config).await;
            assert!(matches!(refused, Err(JoinError::Io(_))), "{refused:?}");
        }
    });
}

#[test]
fn while_a_key_is_replaced_old_and_new_members_work_together() {
    run(async {
        let (old, new) = (key(), key());
        let both = || Some(Trust::new(new.clone()).or_previous(old.clone()));
        let mut config = RootConfig::new(loopback(), plan().0, NameTable::open(9));
        // The second node is then a child of the first.
        config.fanout = 1;
        config.trust = both();
        let root = Root::bind(config).expect("a port");
        let mut nodes = Vec::new();
        for (name, trust) in [
            ("old", Some(Trust::new(old.clone()))),
            ("both", both()),
            ("old below", Some(Trust::new(old.clone()))),
        ] {
            nodes.push(join(root.local_addr(), name, trust).await.expect("trusted"));
        }
        works(&root, 3).await;
        nodes.push(join(root.local_addr(), "new", both()).await.expect("trusted"));
        works(&root, 4).await;
    });
}

#[test]
fn a_node_that_was_a_member_awaits_the_new_key() {
    run(async {
        let (old, new) = (key(), key());
        let first = root(Some(Trust::new(old)));
        let addr = first.local_addr();
        let mut config = NodeConfig::new(addr, "n1", loopback(), plan().0);
        config.trust = Some(Trust::new(new.clone()));
        config.await_key = true;
        let change = async {
            let refused = join(addr, "n2", Some(Trust::new(new.clone()))).await;
            assert!(matches!(refused, Err(JoinError::Session(_))), "{refused:?}");
            drop(first);
            let mut config = RootConfig::new(addr, plan().0, NameTable::open(9));
            config.trust = Some(Trust::new(new.clone()));
            let bound = || Root::bind(config.clone());
            // The former root's port is free as soon as its task has ended.
            loop {
                match bound() {
                    Ok(root) => return root,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let (node, root) = futures_util::join!(Node::join(config), change);
        assert_eq!(node.expect("the root has the key by now").node(), NodeId(1));
        works(&root, 1).await;
    });
}

#[test]
fn an_encrypted_session_shows_nothing_of_what_it_carries() {
    run(async {
        let marker = b"the marker of this test";
        let data = marker.repeat(BLOCK_BYTES as usize / marker.len());
        let key = key();
        for trust in [Some(Trust::new(key).encrypt_loopback()), None] {
            let root = root(trust.clone());
            let relay = Relay::start(root.local_addr()).await;
            let mut config = NodeConfig::new(relay.addr(), "n1", loopback(), plan().0);
            config.trust.clone_from(&trust);
            // References would bypass the relay.
            config.by_reference = false;
            let node = Node::join(config).await.expect("joins");
            let xfer = Xfer::new(NodeSet::compute(1), plan().1.addr, data.clone());
            assert_eq!(root.handle().xfer_and_wait(xfer).await, Ok(()));
            assert!(node.memory().read_vec(plan().1.addr, data.len()).expect("in bounds") == data);
            let seen = relay.seen(Way::ToNode);
            assert!(seen.len() > data.len(), "the relay has seen it");
            let shown = seen.windows(marker.len()).any(|window| window == marker);
            assert_eq!(shown, trust.is_none(), "{trust:?}");
        }
    });
}

#[test]
fn both_ends_must_agree_on_what_is_encrypted() {
    run(async {
        let key = key();
        let root = root(Some(Trust::new(key.clone()).encrypt_loopback()));
        let refused = join(root.local_addr(), "n1", Some(Trust::new(key))).await;
        assert!(
            matches!(refused, Err(JoinError::Session(SessionError::RefusedHandshake { .. }))),
            "{refused:?}"
        );
    });
}

#[test]
fn an_open_session_does_not_pass_through_a_relay() {
    run(async {
        let key = key();
        let root = root(Some(Trust::new(key.clone())));
        let relay = Relay::start(root.local_addr()).await;
        let refused = join(relay.addr(), "n1", Some(Trust::new(key.clone()))).await;
        assert!(
            matches!(refused, Err(JoinError::Session(SessionError::RefusedHandshake { .. }))),
            "{refused:?}"
        );
        join(root.local_addr(), "n1", Some(Trust::new(key))).await.expect("directly");
    });
}

#[test]
fn altered_bytes_end_the_session() {
    run(async {
        for way in [Way::ToRoot, Way::ToNode] {
            for tampering in [Tampering::Flip, Tampering::Cut, Tampering::Inject] {
                let trust = Some(Trust::new(key()).encrypt_loopback());
                let root = root(trust.clone());
                let relay = Relay::start(root.local_addr()).await;
                let node = join(relay.addr(), "n1", trust.clone()).await.expect("joins");
                works(&root, 1).await;
                relay.tamper(way, tampering);
                // The root pings the node now and then.
                let closed = node.runtime().timeout(LONG, node.closed()).await;
                assert!(closed.is_some(), "{way:?} {tampering:?}");
                members(&root, 1).await;
                relay.tamper(way, Tampering::Pass);
                join(relay.addr(), "n1", trust).await.expect("joins again");
                works(&root, 1).await;
            }
        }
    });
}

#[test]
fn a_session_that_is_played_again_is_none() {
    run(async {
        let trust = Some(Trust::new(key()).encrypt_loopback());
        let root = root(trust.clone());
        let relay = Relay::start(root.local_addr()).await;
        let node = join(relay.addr(), "n1", trust).await.expect("joins");
        works(&root, 1).await;
        let said = relay.seen(Way::ToRoot);
        assert_eq!(said[..8], OPENING_HEAD);
        node.shut_down();
        members(&root, 1).await;
        let epoch = root.handle().membership().epoch();
        for len in [OPENING_BYTES, OPENING_BYTES + 16, said.len()] {
            let answer = say_and_end(root.local_addr(), &said[..len]).await;
            assert_eq!((answer.len(), answer[0]), (ANSWER_BYTES, 0), "{len}: and nothing more");
        }
        assert_eq!(root.handle().membership().epoch(), epoch, "nobody came or went");
    });
}

/// Like [`say`], and closes the sending side after `bytes`.
async fn say_and_end(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.expect("it listens");
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

/// First messages of unknown peers: plain text, a handshake with a key of their own, a handshake
/// that only names the right key, another version, and noise.
fn strange_openings(key: &ClusterKey) -> [Vec<u8>; 5] {
    let filled = |mut opening: Vec<u8>| {
        opening.resize(OPENING_BYTES, 0x5a);
        opening
    };
    let hello = Hello::Join(Join {
        version: PROTOCOL_VERSION,
        cluster: String::from("storm"),
        name: String::from("stranger"),
        layout: plan().0.hash(),
        listen: loopback(),
        fabric: String::from("tcp"),
        host: None,
    });
    let mut version = opening_of(key);
    version[7] += 1;
    [
        encode(&hello, &[]).to_vec(),
        filled(opening_of(&self::key())),
        filled(opening_of(key)),
        filled(version),
        vec![0; 300],
    ]
}

#[test]
fn a_thousand_strangers_do_not_hold_up_a_transfer() {
    run(async {
        let key = key();
        let trust = Some(Trust::new(key.clone()));
        let root = root(trust.clone());
        let mut nodes = Vec::new();
        for index in 0..6 {
            let name = format!("n{index}");
            nodes.push(join(root.local_addr(), &name, trust.clone()).await.expect("joins"));
        }
        let epoch = root.handle().membership().epoch();
        let strangers = async {
            let openings = strange_openings(&key);
            for number in 0..1000 {
                let answer = say(root.local_addr(), &openings[number % openings.len()]).await;
                assert!(answer.len() < 100, "{number}: {answer:?}");
            }
        };
        let work = async {
            for _ in 0..20 {
                works(&root, 6).await;
            }
        };
        futures_util::join!(strangers, work);
        assert_eq!(root.handle().membership().epoch(), epoch, "nobody came or went");
    });
}

#[test]
fn silent_strangers_do_not_keep_a_node_out() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit");
    assert!(hard >= 4096, "2400 sockets are needed, and {hard} files are allowed");
    run(async {
        let trust = Some(Trust::new(key()));
        let root = root(trust.clone());
        let mut silent = Vec::new();
        for number in 0..1200 {
            let mut stream = TcpStream::connect(root.local_addr()).await.expect("it listens");
            // Some connections begin an opening and never finish it.
            stream.write_all(&OPENING_HEAD[..number % 8]).await.expect("it has room");
            silent.push(stream);
        }
        join(root.local_addr(), "n1", trust).await.expect("joins among them");
        works(&root, 1).await;
        drop(silent);
    });
}
