//! The daemons of a machine: nodes that outlive their manager, and the next manager.

use super::{Machine, MachineError};
use crate::client::CALLS;
use crate::content::EmptyContents;
use crate::flawed_host::FlawedHost;
use crate::watched::Watched;
use crate::{Client, Fact};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::Core;
use storm_mm::api::Call;
use storm_mm::driver::{self, DriverConfig};
use storm_nm::modelled::{Activity, Model, ModelledHost, RankContext, Script};
use storm_nm::{ExitReason, NmConfig};
use storm_primitives::sim::{SimNetwork, SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, PrimitiveError, Primitives, Runtime};
use storm_rm::remote_queue::EnqueueError;

/// Hundredths of a whole.
const WHOLE_PERCENT: u32 = 100;

/// Between two tries of a node to find a manager.
const JOIN_PAUSE: Duration = Duration::from_millis(5);
/// How long a node without a manager keeps the jobs that asked to be queued again.
const NODE_FENCE: Duration = Duration::from_millis(50);
/// How long they may go on after their node manager has last said so: it may be frozen.
const NODE_LEASE: Duration = Duration::from_millis(80);
/// How long the manager waits for it: longer than the node takes to notice and to kill.
pub(super) const REQUEUE_FENCE: Duration = Duration::from_millis(200);

/// The network, the nodes, and the client of the present manager.
pub(super) struct Life {
    pub(super) network: SimNetwork,
    pub(super) client: Client,
    /// The hosts of the present lives of the nodes.
    pub(super) hosts: RefCell<BTreeMap<NodeId, ModelledHost<SimRuntime>>>,
}

impl Machine {
    /// Starts a manager and all nodes.
    pub(super) fn start_daemons(&self) -> Result<(), MachineError> {
        let inner = &self.inner;
        let (config, plan) = (&inner.config, &inner.plan);
        inner.record.note(Fact::ManagerUp);
        let network = SimNetwork::with_fabric(
            &inner.simulation,
            config.nodes,
            &plan.layout,
            config.fabric.clone(),
        );
        let (calls, requests) = async_channel::bounded(CALLS);
        let life = Life { network, client: Client { calls }, hosts: RefCell::default() };
        for node in (1..=config.nodes).map(NodeId) {
            self.start_node(&life, node);
        }
        let own = life.network.node(NodeId::MM);
        self.run_manager(own, &life.network, requests)?;
        *inner.life.borrow_mut() = Some(life);
        Ok(())
    }

    /// Starts the next manager on the journal of a dead one. The nodes that live find it,
    /// with their jobs; those that were to come back meanwhile do so now.
    pub(super) fn start_next_manager(&self) -> Result<(), MachineError> {
        let inner = &self.inner;
        inner.record.note(Fact::ManagerUp);
        let (calls, requests) = async_channel::bounded(CALLS);
        {
            let mut life = inner.life.borrow_mut();
            let Some(life) = &mut *life else { return Ok(()) };
            life.client = Client { calls };
            let own = life.network.restart_manager();
            self.run_manager(own, &life.network, requests)?;
        }
        let waiting = inner.rejoining.take();
        waiting.into_iter().for_each(|node| self.rejoin(node));
        Ok(())
    }

    fn run_manager(
        &self,
        own: SimPrimitives,
        network: &SimNetwork,
        requests: async_channel::Receiver<Call>,
    ) -> Result<(), MachineError> {
        let inner = &self.inner;
        let (config, plan) = (&inner.config, &inner.plan);
        let runtime = own.runtime().clone();
        let core = Core::new(config.core(), inner.journal.entries(), runtime.now())?;
        let (record, defect) = (inner.record.clone(), config.defect.clone());
        let mm = Watched::new(own, network.clone(), plan, record, defect);
        let contents =
            EmptyContents::new(runtime.clone(), config.chunk_bytes, config.hosts.clone());
        let (plan, journal, record) = (plan.clone(), inner.journal.clone(), inner.record.clone());
        let settings = DriverConfig {
            heartbeat_interval: config.heartbeat_interval,
            act_every: config.act_every,
            ..DriverConfig::default()
        };
        let task = runtime.spawn(async move {
            let ended = driver::run(mm, plan, core, journal, contents, requests, settings).await;
            // Nobody shuts a simulated cluster down.
            record.fail("the manager runs", format!("it stopped: {ended:?}"));
        });
        task.detach();
        inner.manager_up.set(true);
        Ok(())
    }

    /// Starts the node manager of the present life of a node.
    pub(super) fn start_node(&self, life: &Life, node: NodeId) {
        let primitives = life.network.node(node);
        let runtime = primitives.runtime().clone();
        let inner = ModelledHost::new(runtime.clone(), self.model(node, &life.network));
        // It does not freeze with the node manager.
        inner.keep_on(self.runtime());
        inner.judge_by(self.inner.config.class_rules);
        // A slow node is slow also in its next life.
        inner.slow_processors(life.network.slow_percent(node));
        life.hosts.borrow_mut().insert(node, inner.clone());
        let host = FlawedHost { node, inner, defect: self.inner.config.defect.clone() };
        let (plan, record) = (self.inner.plan.clone(), self.inner.record.clone());
        let (network, waiting) = (life.network.clone(), runtime.clone());
        let returns = record.clone();
        let task = runtime.spawn(async move {
            let config = NmConfig {
                switch_records: 0,
                requeue_fence: NODE_FENCE,
                lease: NODE_LEASE,
                ..NmConfig::default()
            };
            let way_back = async || loop {
                waiting.sleep(JOIN_PAUSE).await;
                if let Some(primitives) = network.join_again(node) {
                    returns.note(Fact::NodeBack(node));
                    return Some(primitives);
                }
            };
            let exit = storm_nm::run_and_return(primitives, plan, host, config, way_back).await;
            match exit.reason {
                // It was cut off; what comes next is up to the faults.
                ExitReason::Disconnected
                | ExitReason::Shutdown
                | ExitReason::Unreachable(EnqueueError::Network(
                    PrimitiveError::Disconnected | PrimitiveError::NodesDead { .. },
                )) => {}
                reason @ (ExitReason::Unreachable(_)
                | ExitReason::Heartbeat(_)
                | ExitReason::HostLost
                | ExitReason::NoPlace { .. }
                | ExitReason::TooFewPes { .. }
                | ExitReason::AskedToEnd) => {
                    record.fail("a node manager runs", format!("that of {node} left: {reason}"));
                }
            }
        });
        task.detach();
    }

    fn model(&self, node: NodeId, network: &SimNetwork) -> Model {
        let config = &self.inner.config;
        let (hosts, network) = (config.hosts.clone(), network.clone());
        let world = self.runtime();
        let applications = self.inner.applications.clone();
        let record = self.inner.record.clone();
        Model {
            hostname: format!("n{}", node.0),
            pes: config.pes,
            processors: config.hosts.processors(),
            prepare_time: Duration::ZERO,
            exec_time: Duration::ZERO,
            write_time_per_byte: Duration::ZERO,
            check_content: false,
            program: Rc::new(move |context| script(&applications.borrow(), context)),
            extra: Rc::new(move |activity| {
                let takes = hosts.takes(activity, &world.random());
                match activity {
                    // The processors are slow themselves.
                    Activity::Exec => takes,
                    Activity::Attend
                    | Activity::Switch
                    | Activity::Write { .. }
                    | Activity::Exit
                    | Activity::Tick => {
                        takes.saturating_mul(network.slow_percent(node)) / WHOLE_PERCENT
                    }
                }
            }),
            exchange: Rc::new(self.inner.interconnect.clone()),
            observer: Rc::new(move |act| record.note(Fact::Host(node, act))),
            ..Model::default()
        }
    }
}

/// What a rank does: the application whose number its arguments name.
fn script(applications: &[crate::Application], context: &RankContext<'_>) -> Script {
    let number = context.argv.get(1).and_then(|arg| arg.to_string_lossy().parse::<usize>().ok());
    let application = number.and_then(|number| applications.get(number));
    application.map_or_else(|| Script::of(Vec::new()), |application| application.script(context))
}
