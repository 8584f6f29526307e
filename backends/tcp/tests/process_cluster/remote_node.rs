//! The suite's end of one node's process.

use super::machines::{Machines, Process};
use super::node_process::{
    ARMED, FRAME_HEAD_BYTES, HOST_VARIABLE, JOINED, KEY_VARIABLE, NODE_VARIABLE, ROOT_VARIABLE,
    SUITE_VARIABLE, TO_AGENT, TO_ARM, frame,
};
use nix::sys::signal::Signal;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use storm_backend_tcp::ClusterKey;
use storm_primitives::NodeId;
use storm_primitives::conformance::{Command, NodeGone, RemoteAgent, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};

/// A process and the stream to its agent.
pub(crate) struct RemoteNode {
    root: SocketAddr,
    process: Process,
    agent: RemoteAgent,
    to_node: mpsc::UnboundedSender<Vec<u8>>,
    armed: Rc<Notify>,
    gone: Rc<Gone>,
}

/// Whether the stream has ended.
#[derive(Default)]
struct Gone {
    is: Cell<bool>,
    notify: Notify,
}

impl RemoteNode {
    /// Starts the process of `node` and waits until it has joined.
    pub(crate) async fn start(
        machines: &Machines,
        node: NodeId,
        root: Option<SocketAddr>,
        key: &ClusterKey,
    ) -> io::Result<RemoteNode> {
        let listener = TcpListener::bind((machines.own(), 0)).await?;
        let mut environment = BTreeMap::from([
            (SUITE_VARIABLE, listener.local_addr()?.to_string()),
            (NODE_VARIABLE, node.0.to_string()),
            (HOST_VARIABLE, machines.of(node).to_string()),
            // The key is for this test only, and useless after it.
            (KEY_VARIABLE, key.to_text().to_string()),
        ]);
        environment.extend(root.map(|root| (ROOT_VARIABLE, root.to_string())));
        let process = machines.start(node, &environment).await?;
        let (stream, _) = listener.accept().await?;
        let (mut from_node, into_node) = stream.into_split();
        let (tag, body) = read_frame(&mut from_node).await?;
        assert_eq!(tag, JOINED, "a node says first that it has joined");
        let port = u16::from_le_bytes([body[0], body[1]]);
        let (to_node, queue) = mpsc::unbounded_channel();
        let node = RemoteNode {
            root: root.unwrap_or(SocketAddr::new(machines.of(node), port)),
            process,
            agent: RemoteAgent::new(),
            to_node,
            armed: Rc::default(),
            gone: Rc::default(),
        };
        tokio::task::spawn_local(write_all(into_node, queue));
        tokio::task::spawn_local(read_all(
            from_node,
            node.agent.clone(),
            node.armed.clone(),
            node.gone.clone(),
        ));
        Ok(node)
    }

    /// The root's address.
    pub(crate) fn root_addr(&self) -> SocketAddr {
        self.root
    }

    pub(crate) async fn call(&self, command: Command) -> Result<Reply, NodeGone> {
        let (id, bytes) = self.agent.request(command).expect("a short command");
        // If the node is gone, so is the receiver of the queue.
        let _ = self.to_node.send(frame(TO_AGENT, &bytes));
        self.agent.reply(id).await
    }

    /// Makes the process kill itself before the `step`-th frame from now.
    pub(crate) async fn arm(&self, step: u64) {
        let _ = self.to_node.send(frame(TO_ARM, &step.to_le_bytes()));
        let (armed, gone) = (self.armed.notified(), self.gone.notify.notified());
        if !self.gone.is.get() {
            tokio::select! { () = armed => {}, () = gone => {} }
        }
    }

    pub(crate) async fn kill(&self) {
        let gone = self.gone.notify.notified();
        if !self.gone.is.get() {
            self.process.signal(Signal::SIGKILL).await;
            gone.await;
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.gone.is.get()
    }

    pub(crate) async fn signal(&self, signal: Signal) {
        self.process.signal(signal).await;
    }
}

async fn write_all(mut stream: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read_all(
    mut stream: OwnedReadHalf,
    agent: RemoteAgent,
    armed: Rc<Notify>,
    gone: Rc<Gone>,
) {
    while let Ok((tag, body)) = read_frame(&mut stream).await {
        if tag == ARMED {
            armed.notify_one();
        } else {
            agent.received(&body).expect("the agent's protocol");
        }
    }
    gone.is.set(true);
    gone.notify.notify_waiters();
    agent.closed();
}

async fn read_frame(stream: &mut OwnedReadHalf) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; FRAME_HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = vec![0; len as usize];
    stream.read_exact(&mut body).await?;
    Ok((head[0], body))
}
