//! Starts the managers of a machine, and builds its nodes.

use super::config::name_of;
use super::numbers::Numbers;
use super::{Machine, MachineError};
use crate::client::CALLS;
use crate::content::EmptyContents;
use crate::watched::Watched;
use crate::{Client, Fact};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::Core;
use storm_mm::api::FromClient;
use storm_mm::driver::{self, DriverConfig};
use storm_nm::modelled::{Activity, Model, ModelledHost, RankContext, Script, Step};
use storm_primitives::sim::{SimNetwork, SimPrimitives, SimRuntime};
use storm_primitives::{NodeId, Primitives, Runtime, Task};

/// Hundredths of a whole.
const WHOLE_PERCENT: u32 = 100;

/// The network, the nodes, and the client of the present manager.
pub(super) struct Life {
    pub(super) network: SimNetwork,
    pub(super) client: Client,
    /// The present incarnations of the nodes.
    pub(super) nodes: RefCell<BTreeMap<NodeId, NodeLife>>,
}

/// The present incarnation of a node.
pub(super) struct NodeLife {
    pub(super) host: ModelledHost<SimRuntime>,
    /// The node's manager, while it runs.
    pub(super) daemon: Option<Task>,
}

impl Life {
    /// The host of the present incarnation of a node.
    pub(super) fn host(&self, node: NodeId) -> Option<ModelledHost<SimRuntime>> {
        self.nodes.borrow().get(&node).map(|life| life.host.clone())
    }
}

impl Machine {
    /// Starts a manager and all nodes.
    pub(super) fn start_daemons(&self) -> Result<(), MachineError> {
        let inner = &self.inner;
        let (config, plan) = (&inner.config, &inner.plan);
        inner.record.note(Fact::ManagerUp);
        let spare = (config.nodes + 1..=config.all_nodes()).map(NodeId).collect();
        let network = SimNetwork::without(
            &inner.simulation,
            config.all_nodes(),
            &spare,
            &plan.layout,
            config.fabric.clone(),
        );
        let (calls, requests) = async_channel::bounded(CALLS);
        let life = Life { network, client: Client { calls }, nodes: RefCell::default() };
        for node in (1..=config.all_nodes()).map(NodeId) {
            let joined = (!spare.contains(node)).then(|| life.network.node(node));
            self.start_node(&life, node, joined);
        }
        let own = life.network.node(NodeId::MM);
        self.run_manager(own, &life.network, requests)?;
        *inner.life.borrow_mut() = Some(life);
        Ok(())
    }

    /// Starts the next manager on the journal of a dead one. The living nodes find it and report
    /// their jobs. Nodes that were due to come back in the meantime now do so.
    pub(super) fn start_next_manager(&self) -> Result<(), MachineError> {
        let inner = &self.inner;
        let configuration = self.configuration();
        let journal = inner.journal.entries();
        let numbers = Numbers::under(&configuration, &journal, inner.config.all_nodes())?;
        let renumbered = numbers.after(&inner.numbers.replace(numbers.clone()));
        if inner.read.replace(configuration.clone()) != configuration {
            inner.record.note(Fact::Configured(&configuration));
        }
        inner.record.note(Fact::ManagerUp);
        let (calls, requests) = async_channel::bounded(CALLS);
        {
            let mut life = inner.life.borrow_mut();
            let Some(life) = &mut *life else { return Ok(()) };
            life.client = Client { calls };
            let own = life.network.restart_manager_numbering(&renumbered);
            self.run_manager(own, &life.network, requests)?;
        }
        self.start_refused();
        let waiting = inner.rejoining.take();
        waiting.into_iter().for_each(|node| self.rejoin(node));
        Ok(())
    }

    fn run_manager(
        &self,
        own: SimPrimitives,
        network: &SimNetwork,
        requests: async_channel::Receiver<FromClient>,
    ) -> Result<(), MachineError> {
        let inner = &self.inner;
        let (config, plan) = (&inner.config, &inner.plan);
        let runtime = own.runtime().clone();
        let core =
            Core::new(config.core(&inner.read.borrow()), inner.journal.entries(), runtime.now())?;
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
            // A simulated cluster is never shut down.
            record.fail("the manager runs", format!("it stopped: {ended:?}"));
        });
        task.detach();
        inner.manager_up.set(true);
        Ok(())
    }

    pub(super) fn model(&self, node: NodeId, network: &SimNetwork) -> Model {
        let config = &self.inner.config;
        let numbers = self.inner.numbers.clone();
        let (hosts, network) = (config.hosts.clone(), network.clone());
        let world = self.runtime();
        let applications = self.inner.applications.clone();
        let record = self.inner.record.clone();
        Model {
            hostname: name_of(node),
            pes: config.pes,
            returns: self.returns(),
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
                        let number = numbers.borrow().number(node);
                        takes.saturating_mul(network.slow_percent(number)) / WHOLE_PERCENT
                    }
                }
            }),
            exchange: Rc::new(self.inner.interconnect.clone()),
            observer: Rc::new(move |act| record.note(Fact::Host(node, act))),
            ..Model::default()
        }
    }
}

/// The script of a rank: its application, with PMI barriers before and after it. The rank's
/// arguments are the number of the application and that of the barriers.
fn script(applications: &[crate::Application], context: &RankContext<'_>) -> Script {
    let number = |index: usize| -> Option<u32> {
        context.argv.get(index).and_then(|arg| arg.to_string_lossy().parse().ok())
    };
    let application = number(1).and_then(|number| applications.get(number as usize));
    let Some(application) = application else { return Script::of(Vec::new()) };
    let mut script = application.script(context);
    let times = number(2).filter(|fences: &u32| *fences > 0);
    if let Some(times) = times {
        let put = Step::Put { key: format!("rank-{}", context.rank), value: "here".to_owned() };
        let fences = Step::Repeat { times, steps: vec![put, Step::Fence] };
        script.steps.insert(0, fences.clone());
        script.steps.push(fences);
    }
    script
}
