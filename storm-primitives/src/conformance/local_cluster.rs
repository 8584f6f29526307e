//! A cluster whose nodes live in the suite's own process, around `Primitives` handles.

use super::{Agent, Cluster, Command, NodeGone, Reply, Unsupported};
use crate::{NodeId, Primitives};
use futures_util::future::{Either, select};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The faults that a backend can inject into its in-process nodes, for a [`LocalCluster`].
pub trait NodeControl<P>: 'static {
    /// Stops `node` at once. Nothing more leaves it, except messages that it has already passed to
    /// the network, and nothing is delivered to it.
    fn kill(&self, node: NodeId);

    /// See [`Cluster::arm_kill`]; calls `died` when it has happened.
    ///
    /// # Errors
    /// [`Unsupported`] unless the backend can.
    fn arm_kill(
        &self,
        _node: NodeId,
        _step: u64,
        _died: Box<dyn FnOnce()>,
    ) -> Result<(), Unsupported> {
        Err(Unsupported { ability: "kill a node at a step" })
    }

    /// See [`Cluster::freeze`].
    ///
    /// # Errors
    /// [`Unsupported`] unless the backend can.
    fn freeze(&self, _node: NodeId) -> Result<(), Unsupported> {
        Err(Unsupported { ability: "freeze a node" })
    }

    /// See [`Cluster::thaw`].
    ///
    /// # Errors
    /// [`Unsupported`] unless the backend can.
    fn thaw(&self, _node: NodeId) -> Result<(), Unsupported> {
        Err(Unsupported { ability: "thaw a node" })
    }

    /// See [`Cluster::rejoin`]: the handle of the new incarnation.
    ///
    /// # Errors
    /// [`Unsupported`] unless the backend can.
    fn rejoin(&self, _node: NodeId) -> impl Future<Output = Result<P, Unsupported>> {
        std::future::ready(Err(Unsupported { ability: "start a node again" }))
    }
}

/// Agents in this process, and the backend's way to hurt their nodes.
pub struct LocalCluster<P: Primitives, K> {
    runtime: P::Runtime,
    control: K,
    nodes: RefCell<BTreeMap<NodeId, LocalNode<P>>>,
}

struct LocalNode<P> {
    agent: Agent<P>,
    life: Rc<Life>,
}

/// Whether a node was killed, and the wakers of the tasks that wait for its death.
#[derive(Default)]
struct Life {
    state: RefCell<(bool, Vec<Waker>)>,
}

impl<P: Primitives, K: NodeControl<P>> LocalCluster<P, K> {
    /// A cluster of the nodes of `handles`, with the suite's `runtime`.
    pub fn new(
        runtime: P::Runtime,
        handles: impl IntoIterator<Item = P>,
        control: K,
    ) -> LocalCluster<P, K> {
        let nodes = handles.into_iter().map(|handle| (handle.node(), LocalNode::new(handle)));
        LocalCluster { runtime, control, nodes: RefCell::new(nodes.collect()) }
    }

    fn node(&self, node: NodeId) -> Option<(Agent<P>, Rc<Life>)> {
        let nodes = self.nodes.borrow();
        nodes.get(&node).map(|local| (local.agent.clone(), local.life.clone()))
    }

    fn life(&self, node: NodeId) -> Option<Rc<Life>> {
        self.nodes.borrow().get(&node).map(|local| local.life.clone())
    }
}

impl<P: Primitives> LocalNode<P> {
    fn new(handle: P) -> LocalNode<P> {
        LocalNode { agent: Agent::new(handle), life: Rc::default() }
    }
}

impl<P: Primitives, K: NodeControl<P>> Cluster for LocalCluster<P, K> {
    type Runtime = P::Runtime;

    fn runtime(&self) -> &P::Runtime {
        &self.runtime
    }

    async fn call(&self, node: NodeId, command: Command) -> Result<Reply, NodeGone> {
        let (agent, life) = self.node(node).ok_or(NodeGone)?;
        let reply = pin!(agent.execute(command));
        let death = pin!(life.ended());
        // Death first: a reply computed by a dead node does not count.
        match select(death, reply).await {
            Either::Left(((), _)) => Err(NodeGone),
            Either::Right((reply, _)) => Ok(reply),
        }
    }

    async fn kill(&self, node: NodeId) {
        self.control.kill(node);
        if let Some(life) = self.life(node) {
            life.end();
        }
    }

    fn is_killed(&self, node: NodeId) -> bool {
        self.life(node).is_none_or(|life| life.state.borrow().0)
    }

    async fn arm_kill(&self, node: NodeId, step: u64) -> Result<(), Unsupported> {
        let life = self.life(node);
        let died = Box::new(move || {
            if let Some(life) = life {
                life.end();
            }
        });
        self.control.arm_kill(node, step, died)
    }

    async fn freeze(&self, node: NodeId) -> Result<(), Unsupported> {
        self.control.freeze(node)
    }

    async fn thaw(&self, node: NodeId) -> Result<(), Unsupported> {
        self.control.thaw(node)
    }

    async fn rejoin(&self, node: NodeId) -> Result<(), Unsupported> {
        let handle = self.control.rejoin(node).await?;
        self.nodes.borrow_mut().insert(node, LocalNode::new(handle));
        Ok(())
    }
}

impl Life {
    fn end(&self) {
        let waiters = {
            let mut state = self.state.borrow_mut();
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    async fn ended(&self) {
        std::future::poll_fn(|cx| {
            let (dead, waiters) = &mut *self.state.borrow_mut();
            if *dead {
                return Poll::Ready(());
            }
            if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl<P: Primitives, K> std::fmt::Debug for LocalCluster<P, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalCluster").finish_non_exhaustive()
    }
}
