//! Simulated clusters that the suite reaches through frames of bytes only, as
//! it reaches nodes in other processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::conformance::wire::{Decoder, Request, encode};
use storm_primitives::conformance::{
    Agent, Capabilities, Cluster, ClusterSpec, Command, Factory, NodeControl, NodeGone,
    RemoteAgent, Reply, RunError, Unsupported,
};
use storm_primitives::conformance::{SimControl, SimFactory};
use storm_primitives::sim::{SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, Primitives};

/// Starts clusters behind frames.
pub(crate) struct WireFactory;

/// The suite's end of every node's stream, and the far ends.
pub(crate) struct WireCluster {
    runtime: SimRuntime,
    control: SimControl<()>,
    streams: RefCell<BTreeMap<NodeId, Rc<Stream>>>,
}

struct Stream {
    remote: RemoteAgent,
    agent: Agent<SimPrimitives>,
    incoming: RefCell<Decoder>,
    is_killed: RefCell<bool>,
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
        SimFactory::around(()).run_with(spec, |runtime, handles, control| {
            let streams = handles.into_iter().map(|node| (node.node(), Stream::open(node)));
            let streams = RefCell::new(streams.collect());
            body(WireCluster { runtime, control, streams })
        })
    }
}

impl Stream {
    fn open(node: SimPrimitives) -> Rc<Stream> {
        Rc::new(Stream {
            remote: RemoteAgent::new(),
            agent: Agent::new(node),
            incoming: RefCell::default(),
            is_killed: RefCell::new(false),
        })
    }

    /// What a node's process does with bytes from the suite: the whole of it.
    fn deliver(self: &Rc<Self>, bytes: &[u8]) {
        self.incoming.borrow_mut().push(bytes);
        while let Some(request) = self.incoming.borrow_mut().pop::<Request>().expect("frames") {
            let stream = self.clone();
            self.agent.spawn(request, move |response| {
                let bytes = encode(&response).expect("a short reply");
                stream.remote.received(&bytes).expect("frames");
            });
        }
    }

    fn end(&self) {
        *self.is_killed.borrow_mut() = true;
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
        // In two parts, as a stream may deliver it.
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
        *self.stream(node).is_killed.borrow()
    }

    async fn arm_kill(&self, node: NodeId, step: u64) -> Result<(), Unsupported> {
        let stream = self.stream(node);
        self.control.arm_kill(node, step, Box::new(move || stream.end()))
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
