//! The process of one node. It joins, serves the suite's agent, and kills itself at a chosen frame
//! if the suite asks for it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use storm_backend_tcp::fabric::Fabric;
use storm_backend_tcp::{
    ClusterKey, NameTable, Node, NodeConfig, Observer, Root, RootConfig, TcpPrimitives, Trust,
};
use storm_primitives::conformance::wire::{Decoder, Request, encode};
use storm_primitives::conformance::{Agent, ClusterSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The address of the waiting suite.
pub(crate) const SUITE_VARIABLE: &str = "STORM_TCP_TEST_SUITE";
pub(crate) const NODE_VARIABLE: &str = "STORM_TCP_TEST_NODE";
/// The address of its machine.
pub(crate) const HOST_VARIABLE: &str = "STORM_TCP_TEST_HOST";
/// The key of the cluster.
pub(crate) const KEY_VARIABLE: &str = "STORM_TCP_TEST_KEY";
/// The root's address; unset for the root itself.
pub(crate) const ROOT_VARIABLE: &str = "STORM_TCP_TEST_ROOT";

/// A tag and a length.
pub(crate) const FRAME_HEAD_BYTES: usize = 5;
/// Suite to node: bytes for the agent.
pub(crate) const TO_AGENT: u8 = 0;
/// Suite to node: kill yourself before this frame (a little-endian `u64`).
pub(crate) const TO_ARM: u8 = 1;
/// Node to suite: joined; the root's port.
pub(crate) const JOINED: u8 = 2;
/// Node to suite: bytes of the agent.
const FROM_AGENT: u8 = 3;
/// Node to suite: armed.
pub(crate) const ARMED: u8 = 4;

/// The largest cluster of the suite.
const MAX_NODES: u32 = 64;
/// How long a node with a fabric must be silent to count as frozen. Its machine is emulated, and a
/// healthy node may not run for seconds there.
const EMULATED_HANG_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a host on another machine must be silent to count as cut off. Packets between the
/// machines are lost, and TCP needs time to send one a third time.
const LOSSY_PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The process of one node, as its environment describes it.
pub(crate) struct NodeProcess {
    suite: SocketAddr,
    node: u32,
    host: IpAddr,
    root: Option<SocketAddr>,
    key: ClusterKey,
}

/// Frames that may still pass before the process kills itself.
type Countdown = Rc<Cell<Option<u64>>>;

/// The frames that are to be sent to the suite.
#[derive(Default)]
struct Outbox {
    frames: RefCell<VecDeque<Vec<u8>>>,
    filled: Notify,
}

impl NodeProcess {
    /// The process that the environment describes, if it does.
    pub(crate) fn from_env() -> Option<NodeProcess> {
        let read = |name| std::env::var(name).ok();
        Some(NodeProcess {
            suite: read(SUITE_VARIABLE)?.parse().expect("an address"),
            node: read(NODE_VARIABLE)?.parse().expect("a number"),
            host: read(HOST_VARIABLE)?.parse().expect("an address"),
            key: read(KEY_VARIABLE)?.parse().expect("a key"),
            root: read(ROOT_VARIABLE).map(|text| text.parse().expect("an address")),
        })
    }

    /// Runs until the suite is gone. `fabric` makes the fabric of this node, given its machine's
    /// address; `None` means TCP.
    pub(crate) fn run(self, fabric: impl FnOnce(u32, IpAddr) -> Option<Rc<dyn Fabric>>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let fabric = fabric(self.node, self.host);
            self.serve(fabric).await;
        });
    }

    async fn serve(self, fabric: Option<Rc<dyn Fabric>>) {
        let countdown = Countdown::default();
        let watched = countdown.clone();
        let observer = Observer::new(move |_, _, _| count_down(&watched));
        let listen = SocketAddr::new(self.host, 0);
        let name = |id: u32| format!("host{id}");
        let layout = ClusterSpec::layout();
        let (_root, handle, port) = match self.root {
            None => {
                let names = NameTable::fixed((1..=MAX_NODES).map(name));
                let mut config = RootConfig::new(listen, layout, names);
                // Deep enough to have inner nodes below inner nodes.
                config.fanout = 2;
                if fabric.is_some() {
                    config.patience.hang_timeout = EMULATED_HANG_TIMEOUT;
                }
                if !self.host.is_loopback() {
                    config.patience.ping_timeout = LOSSY_PING_TIMEOUT;
                    config.patience.hang_timeout = EMULATED_HANG_TIMEOUT;
                }
                config.fabric = fabric;
                config.observer = observer;
                config.trust = Some(Trust::new(self.key));
                let root = Root::bind(config).expect("a port");
                let (handle, port) = (root.handle(), root.local_addr().port());
                (Some(root), handle, port)
            }
            Some(root) => {
                let mut config = NodeConfig::new(root, name(self.node), listen, layout);
                config.fabric = fabric;
                config.observer = observer;
                config.trust = Some(Trust::new(self.key));
                (None, Node::join(config).await.expect("joins"), 0)
            }
        };
        let stream = TcpStream::connect(self.suite).await.expect("the suite waits");
        stream.set_nodelay(true).expect("a socket");
        serve_suite(stream, handle, port, countdown).await;
    }
}

async fn serve_suite(stream: TcpStream, handle: TcpPrimitives, port: u16, countdown: Countdown) {
    let (mut from_suite, mut to_suite) = stream.into_split();
    let outbox = Rc::new(Outbox::default());
    outbox.push(frame(JOINED, &port.to_le_bytes()));
    let queue = outbox.clone();
    tokio::task::spawn_local(async move {
        loop {
            let next = queue.frames.borrow_mut().pop_front();
            match next {
                Some(bytes) => to_suite.write_all(&bytes).await.expect("the suite reads"),
                None => queue.filled.notified().await,
            }
        }
    });
    let agent = Agent::new(handle);
    let mut decoder = Decoder::new();
    loop {
        let mut head = [0; FRAME_HEAD_BYTES];
        if from_suite.read_exact(&mut head).await.is_err() {
            return;
        }
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; len as usize];
        from_suite.read_exact(&mut body).await.expect("whole frames");
        if head[0] == TO_ARM {
            let step = u64::from_le_bytes(body.try_into().expect("eight bytes"));
            countdown.set(Some(step));
            outbox.push(frame(ARMED, &[]));
            continue;
        }
        decoder.push(&body);
        while let Some(request) = decoder.pop::<Request>().expect("the suite's protocol") {
            let outbox = outbox.clone();
            agent.spawn(request, move |response| {
                outbox.push(frame(FROM_AGENT, &encode(&response).expect("a short reply")));
            });
        }
    }
}

impl Outbox {
    fn push(&self, bytes: Vec<u8>) {
        self.frames.borrow_mut().push_back(bytes);
        self.filled.notify_one();
    }
}

/// Counts a frame that is about to be sent or processed.
fn count_down(countdown: &Countdown) {
    match countdown.get() {
        None => {}
        Some(0) => {
            // No code runs after this call, as in a power failure.
            kill(Pid::this(), Signal::SIGKILL).expect("its own process");
        }
        Some(left) => countdown.set(Some(left - 1)),
    }
}

/// A frame between the suite and the process.
pub(crate) fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![tag];
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(body);
    frame
}
