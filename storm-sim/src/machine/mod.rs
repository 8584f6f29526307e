//! A cluster in one thread: the real Machine Manager and the real Node Managers, on a simulated
//! network and modelled hosts.
//!
//! Nodes and the manager can be killed, frozen and brought back while the cluster runs, and the
//! configuration can be edited.

mod absences;
mod config;
mod configuration;
mod daemons;
mod journal;
mod node_daemon;
mod node_managers;
mod numbers;
mod unfinished;

pub use config::{JobRequest, MachineConfig, MachineError};
pub(crate) use config::{name_of, node_named};
pub use configuration::{Configuration, ConfiguredNode, ConfiguredPartition};
pub use node_managers::NodeManagerEnd;
pub use unfinished::{UnfinishedJob, UnfinishedJobs};

use crate::interconnect::Interconnect;
use crate::invariants::Violation;
use crate::record::{Record, RecordConfig};
use crate::{Application, ChromeTrace, Client, Fact, JobTimes};
use absences::Absences;
use daemons::Life;
use futures_util::future::{Either, select};
use hdrhistogram::Histogram;
use journal::RecordedJournal;
use numbers::Numbers;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::{ManagerRequest, Reply};
use storm_primitives::sim::{NodeFault, SimError, SimRuntime, Simulation};
use storm_primitives::{Instant, NodeId, Runtime};
use storm_rm::{GlobalPlan, JobId};
use thiserror::Error;

/// The pause between two checks whether the nodes have joined.
const JOIN_PAUSE: Duration = Duration::from_millis(1);
/// How long a submission waits for an acknowledgement before it is repeated: the manager may have
/// died before it answered.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);

/// The reason why a run did not end well.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// An invariant does not hold.
    #[error("the machine broke a promise")]
    Violation(#[from] Violation),
    /// The simulation is stuck, or does not end.
    #[error("the simulation cannot continue")]
    Simulation(#[from] SimError),
    /// The run did not end within its limit of virtual time.
    #[error("not over after {limit:?} of virtual time: {left}")]
    Hangs {
        /// The limit.
        limit: Duration,
        /// Jobs left.
        left: UnfinishedJobs,
    },
    /// A job of the workload was refused.
    #[error("job {name} was refused: {why}")]
    Refused {
        /// The name.
        name: String,
        /// Why.
        why: String,
    },
    /// No manager starts with the edited configuration.
    #[error("no manager starts with the edited configuration")]
    Configuration(#[source] MachineError),
    /// After all faults were healed, the machine could not run a job.
    #[error("after all faults were healed, a fresh job over a whole partition ended {how}")]
    NotHealed {
        /// How it ended.
        how: String,
    },
}

/// A running cluster. Clones are the same machine.
#[derive(Clone)]
pub struct Machine {
    inner: Rc<Inner>,
}

struct Inner {
    config: MachineConfig,
    simulation: Simulation,
    plan: GlobalPlan,
    record: Rc<Record>,
    journal: RecordedJournal,
    applications: Rc<RefCell<Vec<Application>>>,
    interconnect: Interconnect,
    /// The daemons and the network.
    life: RefCell<Option<Life>>,
    manager_up: Cell<bool>,
    /// The configuration that the next manager will read.
    configuration: RefCell<Configuration>,
    /// The configuration that the present manager has read. If there is none, the one that the last
    /// manager had read.
    read: Rc<RefCell<Configuration>>,
    /// The numbers that the present manager uses for the nodes.
    numbers: Rc<RefCell<Numbers>>,
    killed: RefCell<BTreeSet<NodeId>>,
    /// Nodes whose node managers were refused by a manager before they had any job. A service
    /// manager starts them again.
    refused: Rc<RefCell<BTreeSet<NodeId>>>,
    absences: Rc<Absences>,
    /// Nodes that come back with the next manager.
    rejoining: RefCell<BTreeSet<NodeId>>,
}

impl Machine {
    /// Starts all daemons; nodes join while it runs.
    ///
    /// # Errors
    /// [`MachineError`] when the configuration is invalid.
    pub fn start(config: MachineConfig) -> Result<Machine, MachineError> {
        config.check()?;
        let simulation = Simulation::new(config.seed);
        // The network's report of each operation does not belong in the machine's trace.
        simulation.trace().silence(true);
        let runtime = simulation.runtime();
        let configuration = config.configuration();
        let numbers = Numbers::under(&configuration, &[], config.all_nodes())?;
        let numbers = Rc::new(RefCell::new(numbers));
        let record = RecordConfig {
            nodes: config.all_nodes(),
            pes: config.pes,
            checks: config.checks,
            traces: config.traces,
        };
        let record = Rc::new(Record::new(runtime.clone(), record));
        let interconnect = Interconnect::new(runtime, config.messages);
        let inner = Inner {
            plan: config.plan(),
            journal: RecordedJournal::new(
                record.clone(),
                interconnect.clone(),
                config.defect.clone(),
                numbers.clone(),
            ),
            interconnect,
            record,
            applications: Rc::default(),
            life: RefCell::new(None),
            manager_up: Cell::new(false),
            read: Rc::new(RefCell::new(configuration.clone())),
            configuration: RefCell::new(configuration),
            numbers,
            killed: RefCell::default(),
            rejoining: RefCell::default(),
            refused: Rc::default(),
            absences: Rc::default(),
            simulation,
            config,
        };
        let machine = Machine { inner: Rc::new(inner) };
        machine.start_daemons()?;
        Ok(machine)
    }

    /// The configuration.
    pub fn config(&self) -> &MachineConfig {
        &self.inner.config
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.runtime().now()
    }

    /// The clock and executor for events outside the machine.
    pub fn runtime(&self) -> SimRuntime {
        self.inner.simulation.runtime()
    }

    /// A random number below `bound`, from the seed.
    pub fn random_below(&self, bound: u64) -> u64 {
        self.inner.simulation.random_below(bound)
    }

    /// Runs the machine until `scenario` is over.
    ///
    /// # Errors
    /// [`RunError`]: also that of the scenario itself.
    pub fn run<T: 'static>(
        &self,
        limit: Duration,
        scenario: impl Future<Output = Result<T, RunError>> + 'static,
    ) -> Result<T, RunError> {
        let (record, runtime, this) = (self.inner.record.clone(), self.runtime(), self.clone());
        let watched = async move {
            let done = {
                let violated = pin!(async {
                    while record.violation().is_none() {
                        record.changed().await;
                    }
                });
                let timed = pin!(runtime.timeout(limit, scenario));
                match select(timed, violated).await {
                    Either::Left((result, _)) => result,
                    Either::Right(..) => None,
                }
            };
            match done {
                Some(result) => result,
                None => Err(RunError::Hangs { limit, left: this.unfinished().await }),
            }
        };
        let result = self.inner.simulation.run(watched)?;
        match self.inner.record.violation() {
            Some(violation) => Err(violation.into()),
            None => result,
        }
    }

    /// Waits until `nodes` nodes have joined.
    pub async fn joined(&self, nodes: u32) {
        loop {
            if self.nodes_up().await.is_some_and(|up| up >= nodes) {
                return;
            }
            self.runtime().sleep(JOIN_PAUSE).await;
        }
    }

    /// The number of nodes that the manager counts as up. `None` while there is no manager.
    pub async fn nodes_up(&self) -> Option<u32> {
        let client = self.client()?;
        let asked = pin!(client.ask(ManagerRequest::Status));
        match self.runtime().timeout(ACKNOWLEDGED, asked).await?? {
            Reply::Status { status } => Some(status.nodes_up),
            _ => None,
        }
    }

    /// The client of the present incarnation of the manager.
    pub fn client(&self) -> Option<Client> {
        let life = self.inner.life.borrow();
        life.as_ref().filter(|_| self.inner.manager_up.get()).map(|life| life.client.clone())
    }

    /// Submits a job. Repeats the submission until a manager acknowledges it.
    ///
    /// # Errors
    /// [`RunError::Refused`].
    pub async fn submit(&self, request: &JobRequest) -> Result<JobId, RunError> {
        let application = {
            let mut all = self.inner.applications.borrow_mut();
            all.push(request.application.clone());
            all.len() - 1
        };
        let spec = request.spec(application);
        loop {
            let Some(client) = self.client() else {
                self.runtime().sleep(JOIN_PAUSE).await;
                continue;
            };
            let asked = pin!(client.submit(spec.clone()));
            match self.runtime().timeout(ACKNOWLEDGED, asked).await.flatten() {
                Some(Ok(job)) => {
                    self.inner.record.note(Fact::Acknowledged(job));
                    return Ok(job);
                }
                Some(Err(error)) => {
                    let why = error.why.map(|why| format!(": {why}")).unwrap_or_default();
                    let why = format!("{}{why}", error.message);
                    return Err(RunError::Refused { name: request.name.clone(), why });
                }
                None => {}
            }
        }
    }

    /// Waits until a job is over. Returns its times.
    pub async fn ended(&self, job: JobId) -> JobTimes {
        loop {
            if let Some(times) = self.job(job).filter(|times| times.ended.is_some()) {
                return times;
            }
            self.inner.record.changed().await;
        }
    }

    /// Waits until the manager knows that a job is over, though the ends of some ranks may still be
    /// on their way. Returns its times.
    pub async fn over_first(&self, job: JobId) -> JobTimes {
        loop {
            if let Some(times) = self.job(job).filter(|times| times.over().is_some()) {
                return times;
            }
            self.inner.record.changed().await;
        }
    }

    /// Waits until every job that the manager knows is over.
    pub async fn all_ended(&self) {
        while self.inner.record.unfinished() > 0 {
            self.inner.record.changed().await;
        }
    }

    /// The times of a job so far.
    pub fn job(&self, job: JobId) -> Option<JobTimes> {
        self.inner.record.job(job)
    }

    /// The times of all jobs so far.
    pub fn jobs(&self) -> BTreeMap<JobId, JobTimes> {
        self.inner.record.jobs()
    }

    /// Nanoseconds from the issue of a strobe to its switch on each node.
    pub fn switch_ns(&self) -> Histogram<u64> {
        self.inner.record.switch_ns()
    }

    /// Nanoseconds from the first to the last node that obeyed each strobe.
    pub fn skew_ns(&self) -> Histogram<u64> {
        self.inner.record.skew_ns()
    }

    /// Events of the simulation so far: tasks polled and network events.
    pub fn events(&self) -> u64 {
        let effort = self.inner.simulation.effort();
        effort.polls + effort.calls
    }

    /// Facts noted so far.
    pub fn facts(&self) -> u64 {
        self.inner.record.facts()
    }

    /// Records that nothing more will happen. The invariants then check that nothing is left.
    pub fn over(&self) {
        self.inner.record.note(Fact::Over);
    }

    /// The trace up to now, if the machine records one.
    pub fn take_trace(&self) -> Option<ChromeTrace> {
        self.inner.record.take_trace()
    }

    /// Stops a node for ever.
    pub fn kill(&self, node: NodeId) {
        if let Some(life) = &*self.inner.life.borrow() {
            life.network.kill(self.number(node));
            life.host(node).into_iter().for_each(|host| host.power_off());
        }
        self.inner.killed.borrow_mut().insert(node);
        self.inner.record.note(Fact::NodeDown(node));
    }

    /// The nodes that were killed and have not come back.
    pub fn killed(&self) -> BTreeSet<NodeId> {
        self.inner.killed.borrow().clone()
    }

    /// Makes a fault hit a node or its link. To kill a node, call [`kill`](Self::kill), which
    /// records the death.
    pub fn inflict(&self, node: NodeId, fault: NodeFault) {
        self.inner.record.note(Fact::Inflicted(node, fault));
        self.alter(node, fault);
    }

    /// Fills the disk of a node, or makes room on it again.
    pub fn fill_disk(&self, node: NodeId, full: bool) {
        let life = self.inner.life.borrow();
        if let Some(host) = life.as_ref().and_then(|life| life.host(node)) {
            host.fill_disk(full);
        }
    }

    /// Ends every fault that slows, stops or cuts off a living node, or fills its disk.
    pub fn heal(&self, node: NodeId) {
        self.fill_disk(node, false);
        for fault in [NodeFault::Thaw, NodeFault::Mend, NodeFault::Slow { percent: 100 }] {
            self.alter(node, fault);
        }
    }

    fn alter(&self, node: NodeId, fault: NodeFault) {
        let life = self.inner.life.borrow();
        let Some(life) = &*life else { return };
        life.network.inflict(self.number(node), fault);
        if let (NodeFault::Slow { percent }, Some(host)) = (fault, life.host(node)) {
            host.slow_processors(percent);
        }
    }

    /// Brings a node back with fresh memory, whether or not its last incarnation has ended. If no
    /// manager knows the node, it comes back as soon as one does.
    pub fn rejoin(&self, node: NodeId) {
        let known = self.inner.read.borrow().pes(node).is_some();
        if !self.inner.manager_up.get() || !known {
            self.inner.rejoining.borrow_mut().insert(node);
            return;
        }
        if let Some(life) = &*self.inner.life.borrow() {
            let primitives = life.network.rejoin(self.number(node));
            if !self.inner.killed.borrow_mut().remove(&node) {
                // The last incarnation of the node ends with its processes and its memory.
                self.inner.record.note(Fact::NodeDown(node));
            }
            self.inner.record.note(Fact::NodeUp(node));
            self.start_node(life, node, Some(primitives));
        }
    }

    /// Kills the Machine Manager. The nodes keep their jobs and try to find the next one.
    pub fn kill_manager(&self) {
        self.inner.manager_up.set(false);
        if let Some(life) = &*self.inner.life.borrow() {
            life.network.kill(NodeId::MM);
        }
        let nodes = (1..=self.inner.config.all_nodes()).map(NodeId);
        self.inner.absences.manager_ends(nodes, self.now());
        self.inner.record.note(Fact::ManagerDown);
    }

    /// The configuration as the next manager will read it.
    pub fn configuration(&self) -> Configuration {
        self.inner.configuration.borrow().clone()
    }

    /// The configuration that the present manager uses. If there is no manager, the one that the
    /// last manager used.
    pub fn configuration_read(&self) -> Configuration {
        self.inner.read.borrow().clone()
    }

    /// Edits the configuration file: the next manager reads it.
    pub fn edit(&self, configuration: Configuration) {
        self.inner.configuration.replace(configuration);
    }

    /// The present manager's number for a node.
    fn number(&self, node: NodeId) -> NodeId {
        self.inner.numbers.borrow().number(node)
    }

    /// Starts a manager on the journal of the former one, with the present configuration.
    ///
    /// # Errors
    /// [`MachineError`] if the configuration is invalid. The configuration that the machine was
    /// started with is always valid.
    pub fn restart_manager(&self) -> Result<(), MachineError> {
        if !self.inner.manager_up.get() {
            self.start_next_manager()?;
        }
        Ok(())
    }

    /// Whether the manager runs.
    pub fn manager_is_up(&self) -> bool {
        self.inner.manager_up.get()
    }
}
