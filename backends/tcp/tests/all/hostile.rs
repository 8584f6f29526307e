//! Unknown peers, broken members and slow readers: the cluster neither stops nor grows.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;
use storm_backend_tcp::wire::{
    Chunk, Down, FromNode, Hello, Join, Lane, Operation, PROTOCOL_VERSION, RequestId, Seq, StageId,
    TreeHello, Up, encode,
};
use storm_backend_tcp::{NameTable, Node, NodeConfig, Root, RootConfig, TcpPrimitives};
use storm_primitives::{
    Epoch, EventId, Incarnation, Layout, LocalEvent, NodeId, NodeSet, Primitives, Region, Runtime,
    Xfer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BLOCK_BYTES: u64 = 1 << 20;

struct Plan {
    layout: Layout,
    block: Region,
    freeze: EventId,
}

fn plan() -> Plan {
    let mut builder = Layout::builder();
    let block = builder.region("block", BLOCK_BYTES);
    let freeze = builder.event("freeze");
    Plan { layout: builder.build(), block, freeze }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

fn root(plan: &Plan) -> Root {
    let mut config = RootConfig::new(loopback(0), plan.layout.clone(), NameTable::open(1000));
    config.fanout = 2;
    Root::bind(config).expect("a port")
}

/// Ports that were free a moment ago.
fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| std::net::TcpListener::bind(loopback(0)).expect("a port");
    let listeners: Vec<_> = (0..count).map(bind).collect();
    listeners.iter().map(|one| one.local_addr().expect("bound").port()).collect()
}

/// First messages of an unknown peer: nonsense, a hello of an unknown node, or a member's hello,
/// each followed by more bytes.
fn openings(plan: &Plan, number: usize) -> Vec<u8> {
    let tree = |node, epoch, lane| {
        let (version, cluster) = (PROTOCOL_VERSION, String::from("storm"));
        let incarnation = Incarnation(1);
        let (host, offer) = (None, None);
        Hello::Tree(TreeHello { version, cluster, node, incarnation, epoch, lane, host, offer })
    };
    let hello = match number % 5 {
        0 => return Vec::new(),
        1 => tree(NodeId(77), Epoch(u64::MAX), Lane::Express),
        2 => tree(NodeId(78), Epoch(u64::MAX), Lane::Bulk),
        3 => tree(NodeId(3), Epoch(1), Lane::Express),
        _ => Hello::Join(Join {
            version: PROTOCOL_VERSION,
            cluster: String::from("storm"),
            name: format!("stranger{number}"),
            layout: plan.layout.hash(),
            listen: loopback(1),
            fabric: String::from("tcp"),
            host: None,
        }),
    };
    encode(&hello, &[]).to_vec()
}

/// Frames of every link.
fn frames() -> Vec<Vec<u8>> {
    let dest = NodeSet::compute(9);
    let epoch = Epoch(u64::MAX);
    let operation = Operation::Store { var: Default::default(), value: 1 };
    let (set, shared) = (dest.clone(), None);
    let down = Down { epoch, seq: Seq(1), done: Seq(0), dest: set, operation, shared };
    let chunk = Chunk { epoch, stage: StageId(9), dest, total: u64::MAX, offset: 5, shared: None };
    let acks = Up::Acks {
        epoch,
        acks: vec![(Seq(1), true), (Seq(u64::MAX), false)],
        issued: vec![(NodeId(7), RequestId(9))],
    };
    let data = FromNode::Data { request: RequestId(u64::MAX), offset: u64::MAX };
    [encode(&down, &[1; 9]), encode(&chunk, &[2; 99]), encode(&acks, &[]), encode(&data, &[3; 9])]
        .iter()
        .map(|frame| frame.to_vec())
        .collect()
}

/// Sends `bytes` and waits for the end of the connection.
async fn annoy(addr: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(addr).await else { return };
    // The peer may close the connection in the middle.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[test]
fn any_bytes_on_any_port_do_no_harm() {
    run(async {
        let plan = plan();
        let root = root(&plan);
        let mut ports = free_ports(6);
        let mut nodes = Vec::new();
        for (index, port) in ports.iter().enumerate() {
            let (name, layout) = (format!("host{index}"), plan.layout.clone());
            let config = NodeConfig::new(root.local_addr(), name, loopback(*port), layout);
            nodes.push(Node::join(config).await.expect("joins"));
        }
        ports.push(root.local_addr().port());
        let mut runner = TestRunner::deterministic();
        let noise = prop::collection::vec(any::<u8>(), 0..400);
        for round in 0..210 {
            let mut bytes = openings(&plan, round / ports.len());
            let mut more = noise.new_tree(&mut runner).expect("bytes").current();
            if round % 2 == 0 {
                let mut frame = frames().swap_remove(round / 2 % 4);
                let at = usize::from(more.first().copied().unwrap_or(0)) % frame.len();
                frame[at] ^= more.last().copied().unwrap_or(0);
                frame.append(&mut more);
                more = frame;
            }
            bytes.extend(more);
            annoy(loopback(ports[round % ports.len()]), &bytes).await;
        }
        let xfer = Xfer::new(NodeSet::compute(6), plan.block.addr, vec![5; BLOCK_BYTES as usize]);
        assert_eq!(root.handle().xfer_and_wait(xfer).await, Ok(()));
        assert!(nodes.iter().all(|node| node.memory().size() > 0));
    });
}

/// A node on a thread of its own. It is frozen from the signal of `freeze` until `thaw`.
fn freezable(root: SocketAddr, layout: Layout, freeze: EventId, thaw: mpsc::Receiver<()>) {
    run(async {
        let node = Node::join(NodeConfig::new(root, "slow", loopback(0), layout)).await;
        let node = node.expect("joins");
        assert_eq!(node.await_event(freeze).await, Ok(()));
        // Blocks the thread, as SIGSTOP blocks a process.
        thaw.recv().expect("the test goes on");
        node.closed().await;
    });
}

fn issue(mm: &TcpPrimitives, plan: &Plan, dest: &NodeSet) -> LocalEvent {
    let done = mm.events().local();
    let xfer = Xfer::new(dest.clone(), plan.block.addr, vec![5; BLOCK_BYTES as usize]);
    mm.xfer_and_signal(xfer.signal_local(done.id()));
    done
}

#[test]
fn a_slow_reader_holds_up_the_others_but_does_not_fill_them() {
    let plan = plan();
    let (thaw, thawed) = mpsc::channel();
    let (addr_out, addr) = mpsc::channel();
    let (layout, freeze) = (plan.layout.clone(), plan.freeze);
    let slow = std::thread::spawn(move || {
        freezable(addr.recv().expect("an address"), layout, freeze, thawed);
    });
    run(async {
        let mut config = RootConfig::new(loopback(0), plan.layout.clone(), NameTable::open(9));
        config.fanout = 1;
        config.patience.hang_timeout = Duration::from_secs(60);
        let window = config.stage_window_bytes;
        let root = Root::bind(config).expect("a port");
        let mm = root.handle();
        let mut inner = Vec::new();
        for name in ["first", "second"] {
            let layout = plan.layout.clone();
            let config = NodeConfig::new(root.local_addr(), name, loopback(0), layout);
            inner.push(Node::join(config).await.expect("joins"));
        }
        addr_out.send(root.local_addr()).expect("the thread waits");
        while mm.membership().alive().len() < 4 {
            mm.membership().changed(mm.membership().epoch()).await;
        }
        let slow = NodeSet::single(NodeId(3));
        let signal = Xfer::new(slow, plan.block.addr, vec![]).signal_remote(plan.freeze);
        assert_eq!(mm.xfer_and_wait(signal).await, Ok(()));
        let flying: Vec<LocalEvent> =
            (0..64).map(|_| issue(&mm, &plan, &NodeSet::compute(3))).collect();
        let last = mm.await_event(flying[63].id());
        assert_eq!(mm.runtime().timeout(Duration::from_millis(500), last).await, None);
        for node in &inner {
            assert!(node.held_bytes() > 0, "{node:?} holds what the slow one has not");
            assert!(node.held_bytes() <= window, "{node:?} holds {}", node.held_bytes());
        }
        thaw.send(()).expect("the thread waits");
        for done in &flying {
            assert_eq!(mm.await_event(done.id()).await, Ok(()));
        }
    });
    slow.join().expect("the node ends with the root");
}
