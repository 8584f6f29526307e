//! One node manager of a machine, from its start to its end.

use super::Configuration;
use super::absences::Absences;
use super::numbers::Numbers;
use crate::Fact;
use crate::flawed_host::FlawedHost;
use crate::record::Record;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::ModelledHost;
use storm_nm::{ExitReason, NmConfig, NmExit};
use storm_primitives::sim::{SimNetwork, SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, PrimitiveError, Runtime};
use storm_rm::GlobalPlan;
use storm_rm::remote_queue::EnqueueError;

/// The pause between two attempts of a node to find a manager.
const JOIN_PAUSE: Duration = Duration::from_millis(5);
/// How long a node without a manager keeps the jobs that asked to be queued again.
const NODE_FENCE: Duration = Duration::from_millis(50);
/// How long the jobs continue after the node manager last renewed their lease. It may be frozen.
pub(super) const NODE_LEASE: Duration = Duration::from_millis(80);

/// Runs one node manager. It holds no [`Machine`](super::Machine): a reference cycle would never be
/// freed.
pub(super) struct NodeDaemon {
    pub(super) node: NodeId,
    pub(super) host: ModelledHost<SimRuntime>,
    pub(super) plan: GlobalPlan,
    pub(super) runtime: SimRuntime,
    pub(super) record: Rc<Record>,
    /// Nodes whose node managers were refused by a manager.
    pub(super) refused: Rc<RefCell<BTreeSet<NodeId>>>,
    pub(super) absences: Rc<Absences>,
    pub(super) door: Door,
}

impl NodeDaemon {
    /// Runs until the node is cut off for good, or the node manager is killed or asked to end.
    pub(super) async fn run(self, flawed: FlawedHost, entry: Entry) {
        let (node, record, absences) = (self.node, self.record.clone(), self.absences.clone());
        let Some(primitives) = self.first_life(entry).await else {
            return self.host.manager_ends();
        };
        let config = NmConfig {
            switch_records: 0,
            requeue_fence: NODE_FENCE,
            lease: NODE_LEASE,
            ..NmConfig::default()
        };
        let way_back = async || {
            let primitives = self.way_in().await?;
            absences.joined(node);
            record.note(Fact::NodeBack(node));
            Some(primitives)
        };
        let plan = self.plan.clone();
        let exit = storm_nm::run_and_return(primitives, plan, flawed, config, way_back).await;
        self.over(&exit);
    }

    async fn first_life(&self, entry: Entry) -> Option<SimPrimitives> {
        let (primitives, fact) = match entry {
            Entry::Joined(primitives) => return Some(primitives),
            Entry::New => (self.way_in().await?, Fact::NodeUp(self.node)),
            Entry::Again => (self.way_in().await?, Fact::NodeBack(self.node)),
        };
        self.absences.joined(self.node);
        self.record.note(fact);
        Some(primitives)
    }

    /// The node's handle on the network, as soon as there is a manager that knows the node. `None`
    /// when the node manager is asked to end.
    async fn way_in(&self) -> Option<SimPrimitives> {
        use storm_nm::Host;
        loop {
            self.runtime.sleep(JOIN_PAUSE).await;
            if self.host.is_asked_to_end() {
                return None;
            }
            if let Some(primitives) = self.door.enter() {
                return Some(primitives);
            }
        }
    }

    fn over(&self, exit: &NmExit) {
        let node = self.node;
        match &exit.reason {
            // A daemon that was cut off comes back when the scenario's faults end.
            ExitReason::Disconnected
            | ExitReason::Shutdown
            | ExitReason::AskedToEnd
            | ExitReason::Unreachable(EnqueueError::Network(
                PrimitiveError::Disconnected | PrimitiveError::NodesDead { .. },
            )) => {}
            // A refused node manager ends no job: the invariant `untouched` would report it.
            ExitReason::TooFewPes { .. } => {
                self.door.leave();
                self.record.note(Fact::NodeManagerDown(node));
                self.refused.borrow_mut().insert(node);
            }
            reason @ (ExitReason::Unreachable(_)
            | ExitReason::Heartbeat(_)
            | ExitReason::HostLost
            | ExitReason::NoPlace { .. }) => {
                let how = format!("that of {node} left: {reason}");
                self.record.fail("a node manager runs", how);
            }
        }
    }
}

/// How a node manager first joins the cluster.
pub(super) enum Entry {
    /// The node manager has joined.
    Joined(SimPrimitives),
    /// The node manager tries to find a manager. The node has nothing of an earlier incarnation.
    New,
    /// The node manager tries to find a manager, with the ranks that the previous node manager
    /// left.
    Again,
}

/// How a node joins. A door holds no [`Machine`]: a reference cycle would never be freed.
pub(super) struct Door {
    pub(super) network: SimNetwork,
    pub(super) node: NodeId,
    pub(super) numbers: Rc<RefCell<Numbers>>,
    /// The configuration as the present manager has read it.
    pub(super) configuration: Rc<RefCell<Configuration>>,
}

impl Door {
    fn leave(&self) {
        self.network.leave(self.numbers.borrow().number(self.node));
    }

    /// The node's handle on the network, while there is a manager that knows its name.
    fn enter(&self) -> Option<SimPrimitives> {
        self.configuration.borrow().pes(self.node)?;
        let number = self.numbers.borrow().number(self.node);
        self.network.join_again(number)
    }
}
