//! Simulated clusters that the suite reaches only through frames of bytes, like nodes in other
//! processes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use storm_primitives::conformance::wire::{Decoder, Request, encode};
use storm_primitives::conformance::{
    Agent, Capabilities, Cluster, ClusterSpec, Command, Factory, NodeControl, NodeGone,
    RemoteAgent, Reply, RunError, Unsupported,
};
use storm_primitives::conformance::{SimControl, SimFactory};
use storm_primitives::sim::{SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, Primitives, Runtime};

/// Starts clusters behind frames.
pub(crate) struct WireFactory;

/// Clusters whose streams end some time after the death of their nodes, like the stream of another
/// machine whose last packet is lost.
pub(crate) struct LateNewsFactory;

/// How long after a node's death its stream ends: longer than operations take.
const NEWS_TAKE: Duration = Duration::from_millis(200);

/// The suite's end of every node's stream, and the far ends.
pub(crate) struct WireCluster {
    runtime: SimRuntime,
    news_take: Duration,
    control: SimControl<()>,
    streams: RefCell<BTreeMap<NodeId, Rc<Stream>>>,
}

struct Stream {
    remote: RemoteAgent,
    agent: Agent<SimPrimitives>,
    incoming: RefCell<Decoder>,
    /// The process has ended, and the suite has noticed the end.
    is_dead: Cell<bool>,
    is_killed: Cell<bool>,
    /// The waker of the task that waits for the first message.
    watcher: RefCell<Option<Waker>>,
}

impl Factory for WireFactory {
    type Cluster = WireCluster;

    fn capabilities(&self) -> Capabilities {
        Capabilities { arm_kill: true, freeze: true, rejoin: true }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn run<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(Self::Cluster) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static,
    {
        run(spec, Duration::ZERO, body)
    }
}

impl Factory for LateNewsFactory {
    type Cluster = WireCluster;

    fn capabilities(&self) -> Capabilities {
        WireFactory.capabilities()
    }

    fn patience(&self) -> Duration {
        WireFactory.patience()
    }

    fn run<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(Self::Cluster) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static,
    {
        run(spec, NEWS_TAKE, body)
    }
}

fn run<R: 'static, Fut: Future<Output = R> + 'static>(
    spec: &ClusterSpec,
    news_take: Duration,
    body: impl FnOnce(WireCluster) -> Fut,
) -> Result<R, RunError> {
    SimFactory::around(()).run_with(spec, |runtime, handles, control| {
        let streams = handles.into_iter().map(|node| (node.node(), Stream::open(node)));
        let streams = RefCell::new(streams.collect());
        body(WireCluster { runtime, news_take, control, streams })
    })
}

impl Stream {
    fn open(node: SimPrimitives) -> Rc<Stream> {
        Rc::new(Stream {
            remote: RemoteAgent::new(),
            agent: Agent::new(node),
            incoming: RefCell::default(),
            is_dead: Cell::new(false),
            is_killed: Cell::new(false),
            watcher: RefCell::default(),
        })
    }

    /// Handles bytes from the suite, as a node's process does.
    fn deliver(self: &Rc<Self>, bytes: &[u8]) {
        if self.is_dead.get() {
            return;
        }
        self.incoming.borrow_mut().push(bytes);
        while let Some(request) = self.incoming.borrow_mut().pop::<Request>().expect("frames") {
            let stream = self.clone();
            self.agent.spawn(request, move |response| {
                let bytes = encode(&response).expect("a short reply");
                stream.remote.received(&bytes).expect("frames");
            });
        }
    }

    /// Ends the process before its end is noticed.
    fn die(&self) {
        self.is_dead.set(true);
        let watcher = self.watcher.borrow_mut().take();
        watcher.into_iter().for_each(Waker::wake);
    }

    /// Waits until its process has ended.
    async fn died(&self) {
        poll_fn(|context| {
            if self.is_dead.get() {
                return Poll::Ready(());
            }
            *self.watcher.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn end(&self) {
        self.is_dead.set(true);
        self.is_killed.set(true);
        self.remote.closed();
    }
}

impl WireCluster {
    fn stream(&self, node: NodeId) -> Rc<Stream> {
        self.streams.borrow()[&node].clone()
    }
}

impl Cluster for WireCluster {
    type Runtime = SimRuntime;

    fn runtime(&self) -> &SimRuntime {
        &self.runtime
    }

    async fn call(&self, node: NodeId, command: Command) -> Result<Reply, NodeGone> {
        let stream = self.stream(node);
        let (id, frame) = stream.remote.request(command).expect("a short command");
        // Deliver it in two parts, as a stream may.
        let (head, tail) = frame.split_at(frame.len() / 2);
        stream.deliver(head);
        stream.deliver(tail);
        stream.remote.reply(id).await
    }

    async fn kill(&self, node: NodeId) {
        self.control.kill(node);
        self.stream(node).end();
    }

    fn is_killed(&self, node: NodeId) -> bool {
        self.stream(node).is_killed.get()
    }

    async fn arm_kill(&self, node: NodeId, step: u64) -> Result<(), Unsupported> {
        let stream = self.stream(node);
        if self.news_take.is_zero() {
            return self.control.arm_kill(node, step, Box::new(move || stream.end()));
        }
        let (runtime, news_take, other_end) =
            (self.runtime.clone(), self.news_take, stream.clone());
        let news = self.runtime.spawn(async move {
            other_end.died().await;
            runtime.sleep(news_take).await;
            other_end.end();
        });
        news.detach();
        self.control.arm_kill(node, step, Box::new(move || stream.die()))
    }

    async fn freeze(&self, node: NodeId) -> Result<(), Unsupported> {
        self.control.freeze(node)
    }

    async fn thaw(&self, node: NodeId) -> Result<(), Unsupported> {
        self.control.thaw(node)
    }

    async fn rejoin(&self, node: NodeId) -> Result<(), Unsupported> {
        let stream = Stream::open(self.control.rejoin(node).await?);
        self.streams.borrow_mut().insert(node, stream);
        Ok(())
    }
}
