//! The node managers of a machine: they outlive the manager, look for the next one, and
//! can be ended and started again while their node goes on.

use super::daemons::{Life, NodeLife};
use super::numbers::Numbers;
use super::{Configuration, Machine};
use crate::Fact;
use crate::flawed_host::FlawedHost;
use futures_util::FutureExt;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::ModelledHost;
use storm_nm::{ExitReason, Host, NmConfig};
use storm_primitives::sim::{SimNetwork, SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, PrimitiveError, Primitives, Runtime, Task};
use storm_rm::remote_queue::EnqueueError;

/// Between two tries of a node to find a manager.
const JOIN_PAUSE: Duration = Duration::from_millis(5);
/// How long a node without a manager keeps the jobs that asked to be queued again.
const NODE_FENCE: Duration = Duration::from_millis(50);
/// How long they may go on after their node manager has last said so: it may be frozen.
const NODE_LEASE: Duration = Duration::from_millis(80);

impl Machine {
    /// Starts a node and its node manager, which has joined the cluster if it is given its
    /// end of the network, else looks for a manager that knows it.
    pub(super) fn start_node(&self, life: &Life, node: NodeId, joined: Option<SimPrimitives>) {
        self.inner.refused.borrow_mut().remove(&node);
        let network = &life.network;
        let runtime = network.node(self.number(node)).runtime().clone();
        let host = self.new_host(network, node, &runtime);
        let entry = joined.map_or(Entry::New, Entry::Joined);
        let daemon = self.start_daemon(network, node, (host.clone(), runtime), entry);
        let life_of = NodeLife { host, daemon: Some(daemon) };
        let former = life.nodes.borrow_mut().insert(node, life_of);
        // Not in the borrow: what ends with it may look at other nodes.
        drop(former);
    }

    /// Kills the node manager of a node that goes on; its ranks die with it, or wait for the
    /// next one ([`MachineConfig::hand_over`](crate::MachineConfig::hand_over)). The network
    /// tells the manager.
    pub fn kill_node_manager(&self, node: NodeId) {
        let life = self.inner.life.borrow();
        let Some(life) = &*life else { return };
        if self.inner.killed.borrow().contains(&node) {
            return;
        }
        let killed = life.nodes.borrow_mut().get_mut(&node).and_then(|of_node| {
            let daemon = of_node.daemon.take()?;
            Some((daemon, of_node.host.clone()))
        });
        let Some((daemon, host)) = killed else { return };
        drop(daemon);
        self.inner.refused.borrow_mut().remove(&node);
        life.network.leave(self.number(node));
        self.inner.record.note(Fact::NodeManagerDown(node));
        if !self.inner.config.hand_over {
            self.inner.record.note(Fact::NodeDown(node));
            // Waits for nothing.
            let _ = host.leave().now_or_never();
        }
    }

    /// Starts a node manager on a node whose last one was killed. It looks for a manager
    /// that knows it.
    pub fn start_node_manager(&self, node: NodeId) {
        let life = self.inner.life.borrow();
        let Some(life) = &*life else { return };
        if self.inner.killed.borrow().contains(&node) {
            return;
        }
        let left = life.nodes.borrow().get(&node).and_then(|of_node| match of_node.daemon {
            Some(_) => None,
            None => Some(of_node.host.clone()),
        });
        match left {
            Some(host) if self.inner.config.hand_over => {
                let runtime = life.network.node(self.number(node)).runtime().clone();
                let daemon = self.start_daemon(&life.network, node, (host, runtime), Entry::Again);
                if let Some(of_node) = life.nodes.borrow_mut().get_mut(&node) {
                    of_node.daemon = Some(daemon);
                }
            }
            Some(_) => self.start_node(life, node, None),
            None => {}
        }
    }

    /// Starts the node managers again that a manager had no use for.
    pub(super) fn start_refused(&self) {
        for node in self.inner.refused.take() {
            if let Some(life) = &*self.inner.life.borrow()
                && let Some(of_node) = life.nodes.borrow_mut().get_mut(&node)
            {
                of_node.daemon = None;
            }
            self.start_node_manager(node);
        }
    }

    fn new_host(
        &self,
        network: &SimNetwork,
        node: NodeId,
        runtime: &SimRuntime,
    ) -> ModelledHost<SimRuntime> {
        let host = ModelledHost::new(runtime.clone(), self.model(node, network));
        // It does not freeze with the node manager.
        host.keep_on(self.runtime());
        host.judge_by(self.inner.config.class_rules);
        // A slow node is slow also in its next life.
        host.slow_processors(network.slow_percent(self.number(node)));
        host
    }

    fn start_daemon(
        &self,
        network: &SimNetwork,
        node: NodeId,
        (inner, runtime): (ModelledHost<SimRuntime>, SimRuntime),
        entry: Entry,
    ) -> Task {
        let host = FlawedHost { node, inner, defect: self.inner.config.defect.clone() };
        let (plan, record) = (self.inner.plan.clone(), self.inner.record.clone());
        let returns = record.clone();
        let door = Door {
            network: network.clone(),
            node,
            numbers: self.inner.numbers.clone(),
            configuration: self.inner.read.clone(),
        };
        let (waiting, refused) = (runtime.clone(), self.inner.refused.clone());
        runtime.spawn(async move {
            let config = NmConfig {
                switch_records: 0,
                requeue_fence: NODE_FENCE,
                lease: NODE_LEASE,
                ..NmConfig::default()
            };
            let way_in = async || loop {
                waiting.sleep(JOIN_PAUSE).await;
                if let Some(primitives) = door.enter() {
                    return primitives;
                }
            };
            let primitives = match entry {
                Entry::Joined(primitives) => primitives,
                Entry::New => {
                    let primitives = way_in().await;
                    returns.note(Fact::NodeUp(node));
                    primitives
                }
                Entry::Again => {
                    let primitives = way_in().await;
                    returns.note(Fact::NodeBack(node));
                    primitives
                }
            };
            let way_back = async || {
                let primitives = way_in().await;
                returns.note(Fact::NodeBack(node));
                Some(primitives)
            };
            let exit = storm_nm::run_and_return(primitives, plan, host, config, way_back).await;
            match exit.reason {
                // It was cut off; what comes next is up to the faults.
                ExitReason::Disconnected
                | ExitReason::Shutdown
                | ExitReason::Unreachable(EnqueueError::Network(
                    PrimitiveError::Disconnected | PrimitiveError::NodesDead { .. },
                )) => {}
                // It ends no job: `untouched` would say so.
                ExitReason::TooFewPes { .. } => {
                    door.leave();
                    returns.note(Fact::NodeManagerDown(node));
                    refused.borrow_mut().insert(node);
                }
                reason @ (ExitReason::Unreachable(_)
                | ExitReason::Heartbeat(_)
                | ExitReason::HostLost
                | ExitReason::NoPlace { .. }
                | ExitReason::AskedToEnd) => {
                    record.fail("a node manager runs", format!("that of {node} left: {reason}"));
                }
            }
        })
    }
}

/// How a node manager comes to its first life in the cluster.
enum Entry {
    /// It has joined.
    Joined(SimPrimitives),
    /// It looks for a manager; the node has nothing of a life before.
    New,
    /// It looks for a manager; the node has what the last node manager left.
    Again,
}

/// How a node joins. It holds no [`Machine`], which would never end then.
struct Door {
    network: SimNetwork,
    node: NodeId,
    numbers: Rc<RefCell<Numbers>>,
    /// As the present manager has read it.
    configuration: Rc<RefCell<Configuration>>,
}

impl Door {
    fn leave(&self) {
        self.network.leave(self.numbers.borrow().number(self.node));
    }

    /// The node's end of the network, while there is a manager that knows its name.
    fn enter(&self) -> Option<SimPrimitives> {
        self.configuration.borrow().pes(self.node)?;
        let number = self.numbers.borrow().number(self.node);
        self.network.join_again(number)
    }
}
