//! A whole cluster in virtual time: the manager's driver, node managers on
//! modelled hosts, and clients.

use crate::client::{Client, ROOT, USER};
use crate::contents::MemoryContents;
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::{FromClient, NodeState};
use storm_mm::driver::{self, DriverConfig, DriverError};
use storm_mm::journal::{Entry, Journal, MemoryJournal};
use storm_mm::{Core, CoreConfig, NodeConfig, PartitionConfig};
use storm_nm::modelled::{HostAct, Model, ModelledHost, RankContext, Script, Step};
use storm_nm::{JobKey, NmConfig, NmExit};
use storm_primitives::sim::{NetworkConfig, SimNetwork, SimPrimitives, SimRuntime, Simulation};
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::message::{ExitStatus, Stream};
use storm_rm::{GlobalPlan, PlanConfig};
use storm_sched::{MplLimit, PolicyParams, Quantum};

/// Virtual time after which a scenario is considered to hang.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a node keeps its jobs without a manager.
const MANAGER_LOST: Duration = Duration::from_secs(60);
/// How long a node keeps jobs that are to be queued again.
pub(crate) const NODE_FENCE: Duration = Duration::from_secs(10);
/// The longest time for which jobs that are to be queued again continue while their Node Manager
/// stands still.
pub(crate) const NODE_LEASE: Duration = Duration::from_secs(5);
/// Pause between two attempts to join.
const JOIN_PAUSE: Duration = Duration::from_millis(20);
/// Calls that may wait for the manager.
const CALLS: usize = 64;

/// Bytes that a rank puts at once.
const PUT_BYTES: u64 = 1000;

/// The cluster of a scenario.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) nodes: u32,
    pub(crate) pes: u32,
    pub(crate) sched: &'static str,
    pub(crate) quantum: Duration,
    pub(crate) job_slots: u32,
    pub(crate) history_limit: usize,
    pub(crate) strobe_span: Duration,
    /// How long the manager waits for a node that was lost before it runs a job again.
    pub(crate) requeue_fence: Duration,
    /// How long a node may stand still before it counts as dead.
    pub(crate) detection: Duration,
}

impl Shape {
    pub(crate) fn fcfs(nodes: u32, pes: u32) -> Shape {
        Shape {
            nodes,
            pes,
            sched: "fcfs",
            quantum: Duration::from_millis(10),
            job_slots: 16,
            history_limit: 5_000,
            strobe_span: Duration::ZERO,
            requeue_fence: Duration::ZERO,
            detection: NetworkConfig::default().detection,
        }
    }

    pub(crate) fn gang(nodes: u32, pes: u32) -> Shape {
        Shape { sched: "gang", ..Shape::fcfs(nodes, pes) }
    }
}

/// A running cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) simulation: Simulation,
    pub(crate) network: SimNetwork,
    pub(crate) shape: Shape,
    pub(crate) contents: MemoryContents,
    pub(crate) client: Client,
    pub(crate) hosts: Rc<RefCell<BTreeMap<NodeId, ModelledHost<SimRuntime>>>>,
    pub(crate) nm_exits: Rc<RefCell<BTreeMap<NodeId, NmExit>>>,
    pub(crate) mm_end: Rc<RefCell<Option<Result<(), DriverError>>>>,
    /// Nodes that cannot rejoin a manager.
    pub(crate) shut_out: Rc<RefCell<NodeSet>>,
    /// Every start of a part of a job on a node.
    pub(crate) launches: Rc<RefCell<Vec<(NodeId, JobKey)>>>,
    pub(crate) plan: GlobalPlan,
}

impl Cluster {
    /// Starts all daemons.
    pub(crate) fn start(seed: u64, shape: Shape) -> Cluster {
        let (simulation, journal) = (Simulation::new(seed), MemoryJournal::default());
        Cluster::start_with(&simulation, shape, journal, Vec::new())
    }

    /// Starts all daemons in a world, on a journal that holds `entries`.
    pub(crate) fn start_with(
        simulation: &Simulation,
        shape: Shape,
        journal: impl Journal + 'static,
        entries: Vec<Entry>,
    ) -> Cluster {
        let plan = GlobalPlan::new(PlanConfig {
            max_nodes: shape.nodes,
            job_slots: shape.job_slots,
            heartbeat_slots: 4,
            heartbeat_bytes: 64 * 1024,
            report_slots: 4,
            report_bytes: 8 * 1024,
            channels: 2,
            chunk_slots: 2,
            chunk_bytes: 4096,
            ..PlanConfig::default()
        });
        let config = NetworkConfig { detection: shape.detection, ..NetworkConfig::default() };
        let network = SimNetwork::new(simulation, shape.nodes, &plan.layout, config);
        let (calls, requests) = async_channel::bounded(CALLS);
        let cluster = Cluster {
            simulation: simulation.clone(),
            network,
            contents: MemoryContents::default(),
            client: Client { calls, peer: USER },
            hosts: Rc::default(),
            nm_exits: Rc::default(),
            mm_end: Rc::default(),
            shut_out: Rc::default(),
            launches: Rc::default(),
            plan,
            shape,
        };
        for node in (1..=cluster.shape.nodes).map(NodeId) {
            cluster.start_node(node);
        }
        let mm = cluster.network.node(NodeId::MM);
        cluster.run_manager(mm, journal, entries, requests, core_config(&cluster.shape));
        cluster
    }

    fn run_manager(
        &self,
        mm: SimPrimitives,
        journal: impl Journal + 'static,
        entries: Vec<Entry>,
        requests: async_channel::Receiver<FromClient>,
        config: CoreConfig,
    ) {
        let core = Core::new(config, entries, mm.runtime().now());
        let core = core.expect("a sound configuration");
        let (plan, contents) = (self.plan.clone(), self.contents.clone());
        let end = self.mm_end.clone();
        let task = mm.runtime().clone().spawn(async move {
            let settings = DriverConfig::default();
            let ended = driver::run(mm, plan, core, journal, contents, requests, settings).await;
            *end.borrow_mut() = Some(ended);
        });
        task.detach();
    }

    /// Kills the manager; the nodes continue.
    pub(crate) fn kill_manager(&self) {
        self.network.kill(NodeId::MM);
    }

    /// Starts the next manager on `entries`; returns its client.
    pub(crate) fn start_manager(
        &self,
        journal: impl Journal + 'static,
        entries: Vec<Entry>,
    ) -> Client {
        self.start_manager_as(journal, entries, core_config(&self.shape))
    }

    /// The same with an edited configuration.
    pub(crate) fn start_manager_as(
        &self,
        journal: impl Journal + 'static,
        entries: Vec<Entry>,
        config: CoreConfig,
    ) -> Client {
        let mm = self.network.restart_manager();
        let (calls, requests) = async_channel::bounded(CALLS);
        self.run_manager(mm, journal, entries, requests, config);
        Client { calls, peer: USER }
    }

    /// Whether no process of any job is left on a node.
    pub(crate) fn hosts_are_idle(&self) -> bool {
        self.hosts.borrow().values().all(|host| host.live_processes() == 0)
    }

    /// A random number below `bound`, from the seed.
    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        self.simulation.random_below(bound)
    }

    /// Starts the node manager of the present incarnation of a node.
    fn start_node(&self, node: NodeId) {
        let primitives = self.network.node(node);
        let runtime = primitives.runtime().clone();
        let (trace, clock) = (self.simulation.trace().clone(), self.simulation.runtime());
        let launches = self.launches.clone();
        let model = Model {
            hostname: format!("host{}", node.0),
            pes: self.shape.pes,
            program: Rc::new(program),
            observer: Rc::new(move |act| {
                if let HostAct::Launch { job, .. } = act {
                    launches.borrow_mut().push((node, *job));
                }
                trace.record_with(clock.now(), node, || act.to_string());
            }),
            ..Model::default()
        };
        let host = ModelledHost::new(runtime.clone(), model);
        // The keeper of the node does not freeze with it.
        host.keep_on(self.simulation.runtime());
        self.hosts.borrow_mut().insert(node, host.clone());
        let (plan, exits) = (self.plan.clone(), self.nm_exits.clone());
        let (network, waiting) = (self.network.clone(), runtime.clone());
        let shut_out = self.shut_out.clone();
        let task = runtime.spawn(async move {
            let config = NmConfig {
                manager_lost: MANAGER_LOST,
                requeue_fence: NODE_FENCE,
                lease: NODE_LEASE,
                ..NmConfig::default()
            };
            let way_back = async || loop {
                waiting.sleep(JOIN_PAUSE).await;
                if !shut_out.borrow().contains(node)
                    && let Some(primitives) = network.join_again(node)
                {
                    return Some(primitives);
                }
            };
            let exit = storm_nm::run_and_return(primitives, plan, host, config, way_back).await;
            exits.borrow_mut().insert(node, exit);
        });
        task.detach();
    }

    /// Brings a dead node back.
    pub(crate) fn rejoin(&self, node: NodeId) {
        self.network.rejoin(node);
        self.start_node(node);
    }

    /// The host of a node, to harm it.
    pub(crate) fn host(&self, node: NodeId) -> ModelledHost<SimRuntime> {
        self.hosts.borrow()[&node].clone()
    }

    pub(crate) fn admin(&self) -> Client {
        Client { peer: ROOT, ..self.client.clone() }
    }

    /// Waits a while of virtual time.
    pub(crate) async fn pause(&self, duration: Duration) {
        self.simulation.runtime().sleep(duration).await;
    }

    /// Waits until a node is in a state, as the manager sees it.
    pub(crate) async fn until_node(&self, node: NodeId, state: NodeState) {
        while self.client.nodes().await[node.index() - 1].state != state {
            self.pause(Duration::from_millis(1)).await;
        }
    }

    /// Waits until `parts` parts of jobs have been started.
    pub(crate) async fn until_launches(&self, parts: usize) {
        while self.launches.borrow().len() < parts {
            self.pause(Duration::from_millis(1)).await;
        }
    }

    /// Waits until all nodes have joined.
    pub(crate) async fn joined(&self) {
        for node in (1..=self.shape.nodes).map(NodeId) {
            self.until_node(node, NodeState::Idle).await;
        }
    }

    /// A random time below `longest`, from the seed.
    pub(crate) fn random(&self, longest: Duration) -> Duration {
        Duration::from_nanos(self.simulation.random_below(longest.as_nanos() as u64))
    }

    /// Runs `scenario` to its end.
    ///
    /// # Panics
    /// The scenario hangs.
    pub(crate) fn run<T: 'static>(&self, scenario: impl Future<Output = T> + 'static) -> T {
        let runtime = self.simulation.runtime();
        let limited = async move { runtime.timeout(PATIENCE, scenario).await };
        let done = self.simulation.run(limited).expect("no deadlock");
        done.unwrap_or_else(|| {
            let trace = self.simulation.trace().to_text();
            panic!("the scenario hangs; what happened:\n{trace}")
        })
    }
}

pub(crate) fn core_config(shape: &Shape) -> CoreConfig {
    let node = |number| NodeConfig::new(format!("n{number}"), shape.pes);
    CoreConfig {
        cluster: "simulated".to_owned(),
        nodes: (1..=shape.nodes).map(node).collect(),
        partitions: vec![PartitionConfig {
            name: "all".to_owned(),
            nodes: (0..shape.nodes as usize).collect(),
            sched: shape.sched.to_owned(),
            params: PolicyParams {
                quantum_us: Quantum::try_from(shape.quantum).expect("a quantum in range"),
                mpl_limit: MplLimit::try_from(4).expect("a limit in range"),
                ..PolicyParams::default()
            },
            default: true,
        }],
        policies: storm_sched::Registry::standard(),
        job_slots: shape.job_slots,
        heartbeat_bytes: 64 * 1024,
        chunk_bytes: 4096,
        kill_grace: Duration::from_millis(100),
        launch_timeout: Duration::from_secs(1),
        recovery_timeout: Duration::from_secs(1),
        requeue_fence: shape.requeue_fence,
        strobe_span: shape.strobe_span,
        history_limit: shape.history_limit,
        array_max: storm_mm::DEFAULT_ARRAY_MAX,
        user_jobs_max: storm_mm::DEFAULT_USER_JOBS_MAX,
        service: Default::default(),
        admin_uids: Vec::new(),
        clients: None,
        origin: Timestamp::UNIX_EPOCH,
        user_name: Rc::new(|_| None),
    }
}

/// The script of a rank, from its arguments: pairs of a word and a value.
fn program(context: &RankContext<'_>) -> Script {
    let words: Vec<String> =
        context.argv[1..].iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let mut script = Script::of(Vec::new());
    for pair in words.chunks(2) {
        let value = pair.get(1).map_or("", String::as_str);
        let number = || value.parse::<u64>().expect("a number");
        match pair[0].as_str() {
            "compute-ms" => {
                script.steps.push(Step::Compute(Duration::from_millis(number())));
            }
            "write-bytes" => {
                let data = vec![b'x'; number() as usize].into();
                script.steps.push(Step::Write(Stream::Stdout, data));
            }
            "print" => {
                let line = format!("{value} {}\n", context.rank);
                script.steps.push(Step::Write(Stream::Stdout, line.into()));
            }
            "echo" => script.steps.push(Step::Echo),
            "put-bytes" if context.rank.0 == 0 => {
                // In pieces that the key-value space takes.
                let piece = |piece| Step::Put {
                    key: format!("key-{piece}"),
                    value: "v".repeat(PUT_BYTES as usize),
                };
                script.steps.extend((0..number() / PUT_BYTES).map(piece));
            }
            "put-bytes" => {}
            "fence" => script.steps.push(Step::Fence),
            "ignore" => script.ignores.push(number() as i32),
            "exit" => script.status = ExitStatus::Code(number() as u8),
            "die" if context.rank.0 == 0 => script.status = ExitStatus::Signal(number() as i32),
            "die" => script.steps.push(Step::Compute(Duration::from_secs(1000))),
            other => panic!("no such word: {other}"),
        }
    }
    script
}
