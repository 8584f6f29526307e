//! A node with a parent, played by the test, that refers to memory that does not exist.

use bytes::Bytes;
use std::net::SocketAddr;
use storm_backend_tcp::shared_memory::{HostId, Piece, Reference};
use storm_backend_tcp::wire::{
    Down, Frame, FrameBuffer, FromNode, FromRoot, Hello, JoinAnswer, Lane, Member, Operation, Seq,
    StageId, TreeHello, View, Welcome, encode,
};
use storm_backend_tcp::{Node, NodeConfig};
use storm_primitives::{Epoch, Incarnation, Layout, NodeId, NodeSet, Region};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BLOCK_BYTES: u64 = 1 << 20;
/// The number of late references that a node accepts as coincidence.
const ACCIDENTS: u64 = 3;

fn plan() -> (Layout, Region) {
    let mut builder = Layout::builder();
    let block = builder.region("block", BLOCK_BYTES);
    (builder.build(), block)
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

struct Peer {
    stream: TcpStream,
    buffer: FrameBuffer,
}

impl Peer {
    async fn accept(listener: &TcpListener) -> Peer {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut buffer = FrameBuffer::new();
        buffer.admit();
        Peer { stream, buffer }
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.buffer.next_frame().expect("a sound frame") {
                return Some(frame);
            }
            match self.stream.read_buf(self.buffer.spare()).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }

    async fn hello(&mut self) -> Hello {
        self.next().await.expect("a hello").message().expect("a hello")
    }

    async fn say(&mut self, frame: Bytes) {
        self.stream.write_all(&frame).await.expect("it reads");
    }
}

/// The parent's ends of both lanes, and the child's hello.
async fn lanes(listener: &TcpListener) -> (Peer, Peer, TreeHello) {
    let mut ends = Vec::new();
    for _ in 0..2 {
        let mut peer = Peer::accept(listener).await;
        let Hello::Tree(hello) = peer.hello().await else { panic!("no lane") };
        ends.push((hello, peer));
    }
    ends.sort_by_key(|(hello, _)| hello.lane == Lane::Bulk);
    let (_, bulk) = ends.pop().expect("two");
    let (hello, express) = ends.pop().expect("two");
    (express, bulk, hello)
}

/// The root's side: lets the node in, then sends it bad references, one view after the other, until
/// it refuses. Returns the number of references, and the node's hello to its next parent.
async fn mislead(listener: &TcpListener, reference: Reference, block: Region) -> (u64, TreeHello) {
    let mut control = Peer::accept(listener).await;
    let Hello::Join(join) = control.hello().await else { panic!("it does not join") };
    let listen = listener.local_addr().expect("bound");
    let member = |node, listen| Member { node, incarnation: Incarnation(1), listen };
    let welcome = Welcome {
        node: NodeId(1),
        incarnation: Incarnation(1),
        fanout: 2,
        inline_limit_bytes: 4096,
        chunk_bytes: 1 << 19,
        request_window: 10,
    };
    control.say(encode(&JoinAnswer::Welcome(welcome), &[])).await;
    let mut changes = vec![(0, member(NodeId::MM, listen)), (1, member(NodeId(1), join.listen))];
    let mut refused_after = None;
    for number in 1.. {
        let epoch = Epoch(number);
        let (stages, committed) = (Vec::new(), Vec::new());
        let changes = std::mem::take(&mut changes);
        let view = View { epoch, len: 2, changes, stages, committed, next_stage: StageId(1) };
        control.say(encode(&FromRoot::View(view), &[])).await;
        let (mut express, _bulk, hello) = lanes(listener).await;
        if let Some(after) = refused_after {
            return (after, hello);
        }
        assert_eq!(hello.host, HostId::own());
        let operation = Operation::Put { addr: block.addr, event: None };
        let (dest, shared) = (NodeSet::single(NodeId(1)), Some(reference.clone()));
        let down = Down { epoch, seq: Seq(1), done: Seq(1), dest, operation, shared };
        express.say(encode(&down, &[])).await;
        while express.next().await.is_some() {}
        loop {
            let frame = control.next().await.expect("the node lives");
            match frame.message::<FromNode>().expect("a message") {
                FromNode::References { taken } => {
                    assert!(!taken && refused_after.is_none());
                    refused_after = Some(number);
                }
                FromNode::LinkLost { epoch: lost } => {
                    assert_eq!(lost, epoch);
                    break;
                }
                _ => {}
            }
        }
    }
    unreachable!("it refuses at some time")
}

/// A node once refused references for the rest of its incarnation after a single late one. The root
/// did not know, and sent it all long data between the strobes.
#[test]
fn a_node_refuses_references_only_after_several_and_tells_the_root() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let (layout, block) = plan();
        let lent = Piece::from(Bytes::from(vec![7; 100_000]));
        let reference = lent.reference().expect("memory");
        drop(lent);
        let listener = TcpListener::bind(loopback()).await.expect("a port");
        let root = listener.local_addr().expect("bound");
        let node = Node::join(NodeConfig::new(root, "n1", loopback(), layout));
        let node = async { node.await.expect("joins") };
        let (_node, (after, hello)) =
            futures_util::join!(node, mislead(&listener, reference, block));
        assert_eq!(after, ACCIDENTS + 1);
        assert_eq!(hello.host, None, "everything is to be sent");
    });
}
