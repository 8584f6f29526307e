//! The tasks of a node manager that run concurrently with the heartbeats.

use crate::task_set::TaskSet;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use storm_primitives::{Runtime, Task};
use storm_rm::Channel;

/// The tasks of a node manager.
#[derive(Debug, Default)]
pub(super) struct NodeTasks {
    of_node: TaskSet,
    /// The tasks that end with a life in the cluster.
    of_life: TaskSet,
    /// The file that arrives on each channel, in this life.
    receptions: RefCell<BTreeMap<Channel, Task>>,
}

impl NodeTasks {
    /// Runs `future` until it is done or the node manager ends.
    pub(super) fn spawn(&self, runtime: &impl Runtime, future: impl Future<Output = ()> + 'static) {
        self.of_node.spawn(runtime, future);
    }

    /// The same, until this life in the cluster ends.
    pub(super) fn spawn_in_life(
        &self,
        runtime: &impl Runtime,
        future: impl Future<Output = ()> + 'static,
    ) {
        self.of_life.spawn(runtime, future);
    }

    /// Receives a file with this task, in place of an earlier one on the channel.
    pub(super) fn receive(&self, channel: Channel, task: Task) {
        let former = self.receptions.borrow_mut().insert(channel, task);
        // Dropped outside the borrow, which cancels the former reception.
        drop(former);
    }

    /// Cancels the tasks of a life, except those that receive files.
    pub(super) fn end_life(&self) {
        self.of_life.cancel();
    }

    /// Cancels the tasks that receive files.
    pub(super) fn receive_no_more(&self) {
        let receptions = self.receptions.take();
        drop(receptions);
    }

    /// Cancels the tasks of the node manager.
    pub(super) fn end(&self) {
        self.of_node.cancel();
    }
}
