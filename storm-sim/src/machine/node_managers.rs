//! The node managers of a machine. They outlive the manager and try to find the next one. They can
//! end and start again while their node continues.

use super::Machine;
use super::daemons::{Life, NodeLife};
use super::node_daemon::{Door, Entry, NODE_LEASE, NodeDaemon};
use crate::Fact;
use crate::flawed_host::FlawedHost;
use futures_util::FutureExt;
use std::time::Duration;
use storm_nm::Host;
use storm_nm::modelled::ModelledHost;
use storm_primitives::sim::{SimNetwork, SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, Primitives, Runtime, Task};
use storm_rm::message::NodeReturn;

/// How a node manager ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeManagerEnd {
    /// The node manager is killed, and its host closes its link in order.
    Killed,
    /// The node manager is killed with unread bytes, so its host resets its link.
    Reset,
    /// The node manager is asked to end (SIGTERM). It is killed instead in three cases: it is
    /// frozen, it still tries to find its first manager, or its jobs end with it.
    Asked,
}

impl Machine {
    /// Starts a node and its node manager. Given its end of the network, the node manager has
    /// joined the cluster; otherwise it tries to find a manager that knows it.
    pub(super) fn start_node(&self, life: &Life, node: NodeId, joined: Option<SimPrimitives>) {
        self.inner.refused.borrow_mut().remove(&node);
        self.inner.absences.joined(node);
        let network = &life.network;
        let runtime = network.node(self.number(node)).runtime().clone();
        let host = self.new_host(network, node, &runtime);
        let entry = joined.map_or(Entry::New, Entry::Joined);
        let daemon = self.start_daemon(network, (node, runtime), host.clone(), entry);
        let life_of = NodeLife { host, daemon: Some(daemon) };
        let former = life.nodes.borrow_mut().insert(node, life_of);
        // Drops the borrow first: tasks that end with the former incarnation may access other
        // nodes.
        former.into_iter().for_each(|former| former.host.power_off());
    }

    /// Kills the node manager of a node, and the node continues ([`NodeManagerEnd::Killed`]).
    pub fn kill_node_manager(&self, node: NodeId) {
        self.end_node_manager(node, NodeManagerEnd::Killed);
    }

    /// Ends the node manager of a node, and the node continues. Its ranks die with it, or wait for
    /// the next one ([`MachineConfig::hand_over`](crate::MachineConfig::hand_over)). The network
    /// informs the manager, unless the node's link is cut.
    pub fn end_node_manager(&self, node: NodeId, how: NodeManagerEnd) {
        let life = self.inner.life.borrow();
        let Some(life) = &*life else { return };
        let hand_over = self.inner.config.hand_over;
        let Some(host) = life.host(node).filter(|host| host.has_manager()) else { return };
        let daemon = life.nodes.borrow_mut().get_mut(&node).and_then(|one| one.daemon.take());
        let Some(daemon) = daemon else { return };
        let (network, number) = (&life.network, self.number(node));
        // A node manager that has not joined has no link, so the manager cannot notice its end.
        let joins = self.inner.absences.is_left(node);
        let obeys = hand_over && !joins && !network.is_frozen(number);
        match how {
            NodeManagerEnd::Asked if obeys => {
                host.ask_to_end();
                // The daemon ends by itself.
                daemon.detach();
            }
            NodeManagerEnd::Asked | NodeManagerEnd::Killed | NodeManagerEnd::Reset => drop(daemon),
        }
        self.inner.refused.borrow_mut().remove(&node);
        match how {
            NodeManagerEnd::Reset => network.reset(number),
            NodeManagerEnd::Asked | NodeManagerEnd::Killed => network.leave(number),
        }
        self.inner.record.note(Fact::NodeManagerDown(node));
        match how {
            NodeManagerEnd::Asked if obeys => {}
            _ if hand_over => host.manager_ends(),
            _ => {
                self.inner.record.note(Fact::NodeDown(node));
                // Waits for nothing.
                let _ = host.leave().now_or_never();
            }
        }
        self.watch_absence(node);
    }

    /// Notes when nobody has renewed the leases of a node without a node manager for most of a
    /// lease: from then on, jobs that are to be queued again may end.
    fn watch_absence(&self, node: NodeId) {
        let (absences, record) = (self.inner.absences.clone(), self.inner.record.clone());
        let Some(since) = absences.node_manager_ends(node, self.now()) else { return };
        let timer = self.runtime().sleep_until(since + NODE_LEASE * 3 / 4);
        let task = self.runtime().spawn(async move {
            timer.await;
            if absences.is_left_since(node, since) {
                record.note(Fact::NodeManagerLate(node));
            }
        });
        task.detach();
    }

    /// Whether a node has a node manager. A node manager that was asked to end counts while it
    /// runs.
    pub fn has_node_manager(&self, node: NodeId) -> bool {
        let life = self.inner.life.borrow();
        life.as_ref().and_then(|life| life.host(node)).is_some_and(|host| host.has_manager())
    }

    /// Starts a node manager on a node whose last one has ended. The new one tries to find a
    /// manager that knows the node.
    pub fn start_node_manager(&self, node: NodeId) {
        let life = self.inner.life.borrow();
        let Some(life) = &*life else { return };
        let left = life.host(node).filter(|host| !host.has_manager());
        let Some(host) = left.filter(|_| !self.inner.killed.borrow().contains(&node)) else {
            return;
        };
        if !self.inner.config.hand_over {
            return self.start_node(life, node, None);
        }
        let runtime = life.network.node(self.number(node)).runtime().clone();
        let daemon = self.start_daemon(&life.network, (node, runtime), host, Entry::Again);
        if let Some(of_node) = life.nodes.borrow_mut().get_mut(&node) {
            of_node.daemon = Some(daemon);
        }
    }

    /// Starts the refused node managers again.
    pub(super) fn start_refused(&self) {
        let refused = self.inner.refused.take();
        refused.into_iter().for_each(|node| self.start_node_manager(node));
    }

    fn new_host(
        &self,
        network: &SimNetwork,
        node: NodeId,
        runtime: &SimRuntime,
    ) -> ModelledHost<SimRuntime> {
        let host = ModelledHost::new(runtime.clone(), self.model(node, network));
        // The keeper does not freeze with the node manager.
        host.keep_on(self.runtime());
        host.judge_by(self.inner.config.class_rules);
        // A slow node stays slow in its next incarnation.
        host.slow_processors(network.slow_percent(self.number(node)));
        host
    }

    /// How the nodes' keepers hand jobs over, as the nodes report it to the manager.
    pub(super) fn returns(&self) -> Option<NodeReturn> {
        let config = &self.inner.config;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        config.hand_over.then(|| NodeReturn {
            within_ms: ms(config.node_return),
            leased_within_ms: ms(config.node_return.min(NODE_LEASE)),
        })
    }

    fn start_daemon(
        &self,
        network: &SimNetwork,
        (node, runtime): (NodeId, SimRuntime),
        host: ModelledHost<SimRuntime>,
        entry: Entry,
    ) -> Task {
        let inner = &self.inner;
        host.manager_begins();
        let flawed = FlawedHost { node, inner: host.clone(), defect: inner.config.defect.clone() };
        let daemon = NodeDaemon {
            node,
            host,
            plan: inner.plan.clone(),
            runtime: runtime.clone(),
            record: inner.record.clone(),
            refused: inner.refused.clone(),
            absences: inner.absences.clone(),
            door: Door {
                network: network.clone(),
                node,
                numbers: inner.numbers.clone(),
                configuration: inner.read.clone(),
            },
        };
        runtime.spawn(daemon.run(flawed, entry))
    }
}
