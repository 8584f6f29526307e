//! The handle of the primitives over TCP, for the root and for every node.

use crate::driver::core::Core;
use crate::initiator::Waiter;
use crate::runtime::TcpRuntime;
use crate::wire::Primitive;
use bytes::Bytes;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use storm_primitives::{
    CompareAndWrite, EventTable, GlobalMemory, Incarnation, Membership, NodeId, PrimitiveError,
    Primitives, Xfer,
};
use tokio::sync::oneshot;

/// The primitives as one incarnation of one node sees them. Clones share the incarnation. It
/// continues after they are dropped, until it is cut off or [shut down](Self::shut_down).
#[derive(Clone)]
pub struct TcpPrimitives {
    core: Rc<Core>,
}

impl TcpPrimitives {
    pub(crate) fn new(core: Rc<Core>) -> TcpPrimitives {
        TcpPrimitives { core }
    }

    /// The incarnation of the node.
    pub fn incarnation(&self) -> Incarnation {
        self.core.incarnation
    }

    /// Completes when this node is no longer part of the cluster, because the root is gone or has
    /// cut it off. All operations of the node have failed by then. A node that joins again starts a
    /// new incarnation with new memory.
    pub fn closed(&self) -> impl Future<Output = ()> + 'static {
        let core = self.core.clone();
        async move { core.ended().await }
    }

    /// Leaves at once, as if the process had died. The caller must end its work for the cluster
    /// within [the time allowed](Membership::process_ended).
    pub fn shut_down(&self) {
        self.core.finish_with_process();
    }

    /// Bytes of data held for incomplete operations: of this node's own operations, and of large
    /// transfers that it forwards.
    pub fn held_bytes(&self) -> u64 {
        let engine = self.core.engine.borrow();
        let passing = engine.staged_bytes() + engine.lent_bytes();
        self.core.initiator.borrow().backlog_bytes() + passing
    }
}

impl Primitives for TcpPrimitives {
    type Runtime = TcpRuntime;

    fn runtime(&self) -> &TcpRuntime {
        &self.core.runtime
    }

    fn node(&self) -> NodeId {
        self.core.node
    }

    fn memory(&self) -> &GlobalMemory {
        &self.core.memory
    }

    fn events(&self) -> &EventTable {
        &self.core.events
    }

    fn membership(&self) -> &Membership {
        &self.core.membership
    }

    fn xfer_and_signal(&self, xfer: Xfer) {
        let Xfer { dest, addr, data, remote_event, local_event } = xfer;
        let primitive = Primitive::Xfer { dest, addr, len: data.len() as u64, event: remote_event };
        self.core.issue(primitive, data, Waiter::Event(local_event));
    }

    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let core = self.core.clone();
        async move {
            let (answer, outcome) = oneshot::channel();
            core.issue(Primitive::Compare(caw), Bytes::new(), Waiter::Answer(answer));
            // The sender is dropped without an answer only when the member ends.
            outcome.await.unwrap_or(Err(PrimitiveError::Disconnected))
        }
    }

    fn precedes_own_stores(&self) -> bool {
        self.core.initiator.borrow().is_prompt()
    }
}

impl std::fmt::Debug for TcpPrimitives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TcpPrimitives({}, {:?})", self.core.node, self.core.incarnation)
    }
}

/// The root of a cluster.
#[derive(Debug)]
pub struct Root {
    handle: TcpPrimitives,
    local_addr: SocketAddr,
}

impl Root {
    /// Starts a root. Must be called within a `LocalSet` on a current-thread runtime, which then
    /// drives it. Dropping the root ends it.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn bind(config: crate::RootConfig) -> std::io::Result<Root> {
        let (core, local_addr) = crate::driver::root::bind(config)?;
        Ok(Root { handle: TcpPrimitives::new(core), local_addr })
    }

    /// The primitives of the management node.
    pub fn handle(&self) -> TcpPrimitives {
        self.handle.clone()
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.handle.shut_down();
    }
}

/// A compute node.
#[derive(Debug)]
pub struct Node;

impl Node {
    /// Joins a cluster. Must be called within a `LocalSet` on a current-thread runtime, which then
    /// drives the node.
    ///
    /// # Errors
    /// [`JoinError`](crate::JoinError). An unreachable root is an error only after `join_timeout`.
    pub async fn join(config: crate::NodeConfig) -> Result<TcpPrimitives, crate::JoinError> {
        let core = crate::driver::node::join(config).await?;
        let handle = TcpPrimitives::new(core);
        let membership = handle.membership().clone();
        // The first view follows the welcome; before it, no member is known.
        let here = handle.node();
        while membership.incarnation(here).is_none() {
            let seen = membership.epoch();
            let changed = membership.changed(seen);
            let closed = handle.closed();
            let (changed, closed) = (std::pin::pin!(changed), std::pin::pin!(closed));
            if let futures_util::future::Either::Right(_) =
                futures_util::future::select(changed, closed).await
            {
                return Err(crate::JoinError::NoAnswer);
            }
        }
        Ok(handle)
    }
}
