//! A cluster of unknown type: the cases are compiled once, not once for every backend.

use super::{Cluster, Command, NodeGone, Reply, Unsupported};
use crate::{NodeId, Runtime};
use futures_util::future::{FutureExt, LocalBoxFuture};
use std::time::Duration;

/// [`Cluster`] as an object.
pub(crate) trait AnyCluster {
    /// Completes after a time on the suite's clock.
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()>;
    /// See [`Cluster::call`].
    fn call(&self, node: NodeId, command: Command) -> LocalBoxFuture<'_, Result<Reply, NodeGone>>;
    /// See [`Cluster::kill`].
    fn kill(&self, node: NodeId) -> LocalBoxFuture<'_, ()>;
    /// See [`Cluster::is_killed`].
    fn is_killed(&self, node: NodeId) -> bool;
    /// See [`Cluster::arm_kill`].
    fn arm_kill(&self, node: NodeId, step: u64) -> LocalBoxFuture<'_, Result<(), Unsupported>>;
    /// See [`Cluster::freeze`].
    fn freeze(&self, node: NodeId) -> LocalBoxFuture<'_, Result<(), Unsupported>>;
    /// See [`Cluster::thaw`].
    fn thaw(&self, node: NodeId) -> LocalBoxFuture<'_, Result<(), Unsupported>>;
    /// See [`Cluster::rejoin`].
    fn rejoin(&self, node: NodeId) -> LocalBoxFuture<'_, Result<(), Unsupported>>;
}

impl<C: Cluster> AnyCluster for C {
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.runtime().sleep(duration).boxed_local()
    }

    fn call(&self, node: NodeId, command: Command) -> LocalBoxFuture<'_, Result<Reply, NodeGone>> {
        Cluster::call(self, node, command).boxed_local()
    }

    fn kill(&self, node: NodeId) -> LocalBoxFuture<'_, ()> {
        Cluster::kill(self, node).boxed_local()
    }

    fn is_killed(&self, node: NodeId) -> bool {
        Cluster::is_killed(self, node)
    }

    fn arm_kill(&self, node: NodeId, step: u64) -> LocalBoxFuture<'_, Result<(), Unsupported>> {
        Cluster::arm_kill(self, node, step).boxed_local()
    }

    fn freeze(&self, node: NodeId) -> LocalBoxFuture<'_, Result<(), Unsupported>> {
        Cluster::freeze(self, node).boxed_local()
    }

    fn thaw(&self, node: NodeId) -> LocalBoxFuture<'_, Result<(), Unsupported>> {
        Cluster::thaw(self, node).boxed_local()
    }

    fn rejoin(&self, node: NodeId) -> LocalBoxFuture<'_, Result<(), Unsupported>> {
        Cluster::rejoin(self, node).boxed_local()
    }
}
