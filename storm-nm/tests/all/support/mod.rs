//! A Machine Manager small enough for tests: it sends what the test orders and notes the reports.
//! Nodes are modelled, and everything runs under one seed.

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::{HostAct, Model, ModelledHost};
use storm_nm::{JobKey, NmConfig, NmExit, run};
use storm_primitives::sim::{NetworkConfig, SimNetwork, SimPrimitives, SimRuntime, Simulation};
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::file_transfer::{ChunkSource, TransferError, TransferTimes, transfer_file};
use storm_rm::heartbeat::issue_heartbeat;
use storm_rm::message::{
    Command, Heartbeat, LaunchJob, NodeRanks, RankExit, ReceiveFile, Report, ResumedJob, Stream,
    Strobe,
};
use storm_rm::remote_queue::{Reader, Writer};
use storm_rm::{
    Channel, ContentHash, Destination, FileSpec, Generation, GlobalPlan, JobId, JobIncarnation,
    JobSlot, JobSpec, OsBytes, Owner, PartitionId, PlanConfig, Program, Rank, Row, RowSet, StepRef,
};

/// The virtual time after which a test counts as hanging.
pub(crate) const HANG: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_micros(100);
pub(crate) const PARTITION: PartitionId = PartitionId(0);
pub(crate) const OWNER: Owner = Owner { uid: 1000, gid: 1000 };

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// A cluster of modelled nodes with its Machine Manager.
pub(crate) struct World {
    pub(crate) network: SimNetwork,
    pub(crate) plan: GlobalPlan,
    pub(crate) hosts: Vec<ModelledHost<SimRuntime>>,
    pub(crate) exits: Rc<RefCell<BTreeMap<NodeId, NmExit>>>,
    pub(crate) mm: SimPrimitives,
    heartbeats: tokio::sync::Mutex<Writer<SimPrimitives>>,
    /// The jobs of former node managers that continue.
    pub(crate) resumed: RefCell<Vec<ResumedJob>>,
    number: Cell<u64>,
    strobes: Cell<u64>,
    reports: Rc<RefCell<Vec<(NodeId, Report)>>>,
}

pub(crate) fn plan() -> GlobalPlan {
    GlobalPlan::new(PlanConfig {
        max_nodes: 8,
        job_slots: 16,
        report_bytes: 4096,
        chunk_bytes: 8192,
        ..PlanConfig::default()
    })
}

/// Seeds that every scenario runs under, unless `STORM_SEED` names one.
const SEEDS: u64 = 4;

/// Runs `body` against `nodes` modelled nodes under several seeds, the first of which is `seed`.
/// Returns the result and trace of the first seed.
pub(crate) fn scenario<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    nodes: u32,
    model: Model,
    body: impl Fn(Rc<World>) -> F,
) -> (T, String) {
    scenario_after(async |_| {}, seed, nodes, model, body)
}

/// The same with nodes on which `former` happens before their node managers begin.
pub(crate) fn scenario_after<T: 'static, F: Future<Output = T> + 'static>(
    former: impl AsyncFn(&ModelledHost<SimRuntime>) + Copy + 'static,
    seed: u64,
    nodes: u32,
    model: Model,
    body: impl Fn(Rc<World>) -> F,
) -> (T, String) {
    let named = std::env::var("STORM_SEED").ok().and_then(|text| text.parse().ok());
    let first = run_once(former, named.unwrap_or(seed), nodes, &model, &body);
    if named.is_none() {
        (1..SEEDS)
            .for_each(|other| drop(run_once(former, seed + 1000 * other, nodes, &model, &body)));
    }
    first
}

fn run_once<T: 'static, F: Future<Output = T> + 'static>(
    former: impl AsyncFn(&ModelledHost<SimRuntime>) + Copy + 'static,
    seed: u64,
    nodes: u32,
    model: &Model,
    body: &impl Fn(Rc<World>) -> F,
) -> (T, String) {
    println!("repeat with STORM_SEED={seed}");
    let simulation = Simulation::new(seed);
    let plan = plan();
    let network = SimNetwork::new(&simulation, nodes, &plan.layout, NetworkConfig::default());
    let exits = Rc::new(RefCell::new(BTreeMap::new()));
    let mut hosts = Vec::new();
    for node in (1..=nodes).map(NodeId) {
        let primitives = network.node(node);
        let (trace, runtime) = (simulation.trace().clone(), primitives.runtime().clone());
        let observer = {
            let runtime = runtime.clone();
            Rc::new(move |act: &HostAct| trace.record(runtime.now(), node, act.to_string()))
        };
        let model = Model { hostname: format!("host{}", node.0), observer, ..model.clone() };
        let host = ModelledHost::new(runtime.clone(), model);
        hosts.push(host.clone());
        let (plan, exits) = (plan.clone(), exits.clone());
        let manager = async move {
            former(&host).await;
            let exit = run(primitives, plan, host, NmConfig::default()).await;
            exits.borrow_mut().insert(node, exit);
        };
        runtime.spawn(manager).detach();
    }
    let world = Rc::new(World::new(&simulation, network, plan, hosts, exits));
    let result = simulation.run(body(world)).expect("the scenario ends");
    (result, simulation.trace().to_text())
}

impl World {
    fn new(
        simulation: &Simulation,
        network: SimNetwork,
        plan: GlobalPlan,
        hosts: Vec<ModelledHost<SimRuntime>>,
        exits: Rc<RefCell<BTreeMap<NodeId, NmExit>>>,
    ) -> World {
        let mm = network.node(NodeId::MM);
        let reports: Rc<RefCell<Vec<(NodeId, Report)>>> = Rc::default();
        for node in (1..=hosts.len() as u32).map(NodeId) {
            let queue = plan.reports(node).expect("a queue for every node");
            let mut reader = Reader::new(mm.clone(), queue);
            let (reports, trace, runtime) =
                (reports.clone(), simulation.trace().clone(), mm.runtime().clone());
            let listen = async move {
                while let Ok(item) = reader.dequeue().await {
                    let batch: Vec<Report> = postcard_reports(&item.data);
                    for report in batch {
                        trace.record(runtime.now(), NodeId::MM, format!("{node}: {report:?}"));
                        reports.borrow_mut().push((node, report));
                    }
                    reader.release(item);
                }
            };
            mm.runtime().spawn(listen).detach();
        }
        let heartbeats = tokio::sync::Mutex::new(Writer::new(mm.clone(), &plan.heartbeats));
        World {
            network,
            plan,
            hosts,
            exits,
            mm,
            heartbeats,
            resumed: RefCell::default(),
            number: Cell::new(0),
            strobes: Cell::new(0),
            reports,
        }
    }

    pub(crate) fn nodes(&self) -> NodeSet {
        NodeSet::compute(self.hosts.len() as u32)
    }

    pub(crate) fn host(&self, node: u32) -> &ModelledHost<SimRuntime> {
        &self.hosts[node as usize - 1]
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        self.mm.runtime().sleep(time).await;
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.mm.runtime().now().as_nanos()
    }

    /// Sends a heartbeat with these commands to all nodes.
    pub(crate) async fn say(&self, commands: Vec<Command>) {
        let mut queue = self.heartbeats.lock().await;
        let (set, number) = (self.nodes(), self.number.get() + 1);
        self.number.set(number);
        // The first heartbeat answers the joins.
        let jobs = self.resumed.borrow().clone();
        let answer = Command::Resume { jobs, next_run: JobIncarnation(1), clients: None };
        let answer = (number == 1).then_some(answer);
        let commands = answer.into_iter().chain(commands);
        let commands = commands.map(|command| (set.clone(), command)).collect();
        let heartbeat = Heartbeat { number, issued_ns: self.now_ns(), commands };
        issue_heartbeat(&self.mm, &mut queue, &set, &heartbeat).await.expect("delivered");
    }

    pub(crate) fn next_strobe(&self, row: u32) -> Strobe {
        let number = self.strobes.get() + 1;
        self.strobes.set(number);
        Strobe { partition: PARTITION, row: Row(row), number, issued_ns: self.now_ns() }
    }

    pub(crate) async fn strobe(&self, row: u32) {
        let strobe = self.next_strobe(row);
        self.say(vec![Command::Strobe(strobe)]).await;
    }

    /// The reports so far.
    pub(crate) fn reports(&self) -> Vec<(NodeId, Report)> {
        self.reports.borrow().clone()
    }

    /// Waits until `find` finds something among the reports.
    pub(crate) async fn until<T>(&self, find: impl Fn(NodeId, &Report) -> Option<T>) -> T {
        let search = async {
            loop {
                let found = self.reports.borrow().iter().find_map(|(n, r)| find(*n, r));
                if let Some(found) = found {
                    break found;
                }
                self.sleep(POLL).await;
            }
        };
        let found = self.mm.runtime().timeout(HANG, search).await;
        found.unwrap_or_else(|| panic!("never reported; heard {:#?}", self.reports()))
    }

    /// Waits until a condition of the nodes holds.
    pub(crate) async fn when(&self, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                self.sleep(POLL).await;
            }
        };
        self.mm.runtime().timeout(HANG, wait).await.expect("the condition in time");
    }

    pub(crate) fn on_all(&self, holds: impl Fn(&SimPrimitives) -> bool) -> bool {
        self.nodes().iter().all(|node| holds(&self.network.node(node)))
    }

    /// Waits until the flag of a slot has a value on all nodes.
    pub(crate) async fn all_started(&self, slot: u32, incarnation: u64) {
        let flag = self.plan.started(JobSlot(slot)).expect("a slot");
        self.when(|| self.on_all(|p| p.memory().load(flag) == incarnation)).await;
    }

    pub(crate) async fn all_terminated(&self, slot: u32, incarnation: u64) {
        let flag = self.plan.terminated(JobSlot(slot)).expect("a slot");
        self.when(|| self.on_all(|p| p.memory().load(flag) == incarnation)).await;
    }

    /// The exits of a run, once every node has reported them.
    pub(crate) async fn exits_of(&self, job: u64) -> BTreeMap<Rank, RankExit> {
        let mut exits = BTreeMap::new();
        for node in self.nodes().iter() {
            let ranks = self
                .until(|from, report| match report {
                    Report::Terminated { step: StepRef { job: JobId(id), .. }, ranks, .. }
                        if from == node && *id == job =>
                    {
                        Some(ranks.clone())
                    }
                    _ => None,
                })
                .await;
            exits.extend(ranks.into_iter().map(|exit| (exit.rank, exit)));
        }
        exits
    }

    /// Everything a rank wrote so far.
    pub(crate) fn output_of(&self, rank: u32, stream: Stream) -> Vec<u8> {
        let mut all = Vec::new();
        for (_, report) in self.reports.borrow().iter() {
            match report {
                Report::Output { rank: r, stream: s, data, .. } if r.0 == rank && *s == stream => {
                    all.extend_from_slice(data);
                }
                _ => {}
            }
        }
        all
    }

    /// Announces a file and sends it to the nodes that lack it.
    pub(crate) async fn ship(
        &self,
        generation: u64,
        file: &FileSpec,
        content: &[u8],
    ) -> Result<TransferTimes, TransferError> {
        let info = self.announcement(generation, file);
        self.say(vec![Command::ReceiveFile(info.clone())]).await;
        let mut source = Content(Bytes::copy_from_slice(content));
        transfer_file(&self.mm, &self.plan, &self.nodes(), &info, &mut source).await
    }

    pub(crate) fn announcement(&self, generation: u64, file: &FileSpec) -> ReceiveFile {
        ReceiveFile {
            channel: Channel(0),
            generation: Generation(generation),
            file: file.clone(),
            owner: OWNER,
            chunk_bytes: self.plan.config.chunk_bytes,
            sum: None,
        }
    }

    /// A job of two ranks on every node, in the rows given.
    pub(crate) fn job(&self, job: u64, rows: RowSet) -> LaunchJob {
        launch_on(&self.nodes(), job, rows)
    }

    pub(crate) async fn launch(&self, launch: LaunchJob) -> JobKey {
        let key = JobKey { step: launch.step, incarnation: launch.incarnation };
        self.say(vec![Command::LaunchJob(Rc::new(launch))]).await;
        key
    }
}

/// The content of a file, read without delay.
struct Content(Bytes);

impl ChunkSource for Content {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        Ok(self.0.split_to(len))
    }
}

/// A launch of a job of two ranks on each of these nodes, in the rows given.
pub(crate) fn launch_on(on: &NodeSet, job: u64, rows: RowSet) -> LaunchJob {
    let per_node = 2;
    let nodes: Vec<NodeId> = on.iter().collect();
    let ranks = (0u32..)
        .zip(&nodes)
        .map(|(i, n)| NodeRanks { node: *n, first: Rank(i * per_node), count: per_node })
        .collect();
    LaunchJob {
        step: StepRef::program(JobId(job)),
        incarnation: JobIncarnation(1),
        place: JobIncarnation(1),
        slot: JobSlot(job as u32),
        task: None,
        spec: Rc::new(spec(per_node * nodes.len() as u32)),
        ranks,
        partition: PARTITION,
        rows,
        active_row: Row(0),
        coscheduling: Default::default(),
        announcer: NodeId(1),
        node_list: on.to_string(),
        buffered: false,
        hold_output: false,
        facts: Default::default(),
    }
}

pub(crate) fn spec(procs: u32) -> JobSpec {
    let plain = JobSpec::plain("true", Program::OnNodes("/bin/true".into()));
    JobSpec { owner: OWNER, procs, ..plain }
}

pub(crate) fn file(name: &str, content: &[u8]) -> FileSpec {
    FileSpec {
        hash: ContentHash::of(content),
        size_bytes: content.len() as u64,
        mode: 0o755,
        name: OsBytes::from(name),
        destination: Destination::JobDirectory,
    }
}

pub(crate) fn postcard_reports(data: &[u8]) -> Vec<Report> {
    postcard::from_bytes(data).expect("a sequence of reports")
}
