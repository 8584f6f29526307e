//! A Machine Manager for real nodes, small enough for tests.

use crate::loopback::{Loopback, cluster};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use storm_nm::live::{LiveConfig, LiveHost, start_keeper};
use storm_nm::{NmExit, run};
use storm_pl::StartMethod;
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::file_transfer::{ChunkSource, TransferError, TransferTimes, transfer_file};
use storm_rm::heartbeat::issue_heartbeat;
use storm_rm::message::{
    Command, Heartbeat, LaunchJob, NodeRanks, RankExit, ReceiveFile, Report, Stream, Strobe,
};
use storm_rm::remote_queue::{Reader, Writer};
use storm_rm::{
    Channel, FileSpec, Generation, GlobalPlan, JobId, JobIncarnation, JobSlot, JobSpec, Owner,
    PartitionId, PlanConfig, Program, Rank, Row, RowSet, StepRef,
};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};

/// The time after which a test counts as hanging.
const HANG: Duration = Duration::from_secs(60);

pub(crate) struct Cluster {
    pub(crate) mm: Loopback,
    pub(crate) nodes: Vec<Loopback>,
    pub(crate) dir: tempfile::TempDir,
    plan: GlobalPlan,
    managers: RefCell<Vec<JoinHandle<NmExit>>>,
    heartbeats: tokio::sync::Mutex<Writer<Loopback>>,
    number: Cell<u64>,
    strobes: Cell<u64>,
    generation: Cell<u64>,
    reports: Rc<RefCell<Vec<(NodeId, Report)>>>,
    news: Rc<Notify>,
}

pub(crate) fn own() -> Owner {
    Owner { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
}

pub(crate) fn plan() -> GlobalPlan {
    GlobalPlan::new(PlanConfig { max_nodes: 4, ..PlanConfig::default() })
}

/// The settings of a node of two PEs whose keeper is this program.
pub(crate) fn node_config(node: NodeId, dir: PathBuf) -> LiveConfig {
    let cluster = format!("nmtest-{}", std::process::id());
    let mut config = LiveConfig::new(cluster, node.to_string(), 2, "127.0.0.1".to_owned(), dir);
    config.start =
        StartMethod::Exec { program: "/proc/self/exe".into(), args: vec!["keeper".into()] };
    config
}

impl Cluster {
    /// `count` nodes of two PEs.
    pub(crate) fn start(count: u32, signals_only: bool) -> Rc<Cluster> {
        let this = Cluster::without_managers(count);
        for node in &this.nodes {
            this.manage(node.clone(), |config| config.signals_only = signals_only);
        }
        this
    }

    /// Makes the Machine Manager and the network only.
    pub(crate) fn without_managers(count: u32) -> Rc<Cluster> {
        let plan = plan();
        let mut handles = cluster(count, &plan.layout);
        let dir = tempfile::tempdir().expect("a directory");
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), permissions).expect("passable");
        let mm = handles.remove(0);
        let this = Rc::new(Cluster {
            heartbeats: tokio::sync::Mutex::new(Writer::new(mm.clone(), &plan.heartbeats)),
            nodes: handles,
            dir,
            plan,
            managers: RefCell::default(),
            number: Cell::new(0),
            strobes: Cell::new(0),
            generation: Cell::new(0),
            reports: Rc::default(),
            news: Rc::default(),
            mm,
        });
        this.nodes.iter().for_each(|node| this.listen(node.node()));
        this
    }

    /// Starts the manager of a node. Returns the process id of its keeper.
    pub(crate) fn manage(&self, node: Loopback, adjust: impl FnOnce(&mut LiveConfig)) -> i32 {
        let id = node.node();
        let mut config = node_config(id, self.node_dir(id.0));
        adjust(&mut config);
        let keeper = start_keeper(&config).expect("a keeper");
        let pid = keeper.pid().0;
        let host = LiveHost::attach(keeper, config.clone()).expect("a node");
        host.joined_as(id);
        let manager = run(node, self.plan.clone(), host, config.nm);
        self.managers.borrow_mut().push(spawn_local(manager));
        pid
    }

    fn listen(&self, node: NodeId) {
        let queue = self.plan.reports(node).expect("a queue for every node");
        let mut reader = Reader::new(self.mm.clone(), queue);
        let (reports, news) = (self.reports.clone(), self.news.clone());
        spawn_local(async move {
            while let Ok(item) = reader.dequeue().await {
                let batch: Vec<Report> = postcard::from_bytes(&item.data).expect("reports");
                reports.borrow_mut().extend(batch.into_iter().map(|report| (node, report)));
                reader.release(item);
                news.notify_waiters();
            }
        });
    }

    pub(crate) fn node_dir(&self, node: u32) -> PathBuf {
        self.dir.path().join(format!("n{node}"))
    }

    fn set(&self) -> NodeSet {
        NodeSet::compute(self.nodes.len() as u32)
    }

    pub(crate) async fn say(&self, commands: Vec<Command>) {
        let (set, number) = (self.set(), self.number.get() + 1);
        self.number.set(number);
        // The first heartbeat answers the joins.
        let answer =
            Command::Resume { jobs: Vec::new(), next_run: JobIncarnation(1), clients: None };
        let answer = (number == 1).then_some(answer);
        let commands = answer.into_iter().chain(commands);
        let commands = commands.map(|command| (set.clone(), command)).collect();
        let issued_ns = self.mm.runtime().now().as_nanos();
        let heartbeat = Heartbeat { number, issued_ns, commands };
        let mut queue = self.heartbeats.lock().await;
        issue_heartbeat(&self.mm, &mut queue, &set, &heartbeat).await.expect("delivered");
    }

    pub(crate) async fn strobe(&self, row: u32) {
        let number = self.strobes.get() + 1;
        self.strobes.set(number);
        let issued_ns = self.mm.runtime().now().as_nanos();
        let strobe = Strobe { partition: PartitionId(0), row: Row(row), number, issued_ns };
        self.say(vec![Command::Strobe(strobe)]).await;
    }

    /// Waits until `find` finds something among the reports so far.
    pub(crate) async fn until<T>(&self, find: impl Fn(&[(NodeId, Report)]) -> Option<T>) -> T {
        let search = async {
            loop {
                let news = self.news.notified();
                if let Some(found) = find(&self.reports.borrow()) {
                    return found;
                }
                news.await;
            }
        };
        match tokio::time::timeout(HANG, search).await {
            Ok(found) => found,
            Err(_) => panic!("never reported; heard {:#?}", self.reports.borrow()),
        }
    }

    /// The exits of all ranks of a job with ranks on all nodes.
    pub(crate) async fn exits_of(&self, job: u64) -> BTreeMap<Rank, RankExit> {
        self.exits_of_step(StepRef::program(JobId(job)), self.nodes.len()).await
    }

    /// The exits of all ranks of a step with ranks on this many nodes.
    pub(crate) async fn exits_of_step(
        &self,
        step: StepRef,
        nodes: usize,
    ) -> BTreeMap<Rank, RankExit> {
        let part_of = |report: &Report| match report {
            Report::Terminated { step: of, ranks, .. } if *of == step => Some(ranks.clone()),
            _ => None,
        };
        self.until(|reports| {
            let parts = reports.iter().filter_map(|(_, report)| part_of(report));
            let parts: Vec<Vec<RankExit>> = parts.collect();
            let all = || parts.iter().flatten().cloned();
            (parts.len() == nodes).then(|| all().map(|exit| (exit.rank, exit)).collect())
        })
        .await
    }

    pub(crate) fn output(&self, job: u64, rank: u32, stream: Stream) -> String {
        self.output_of(StepRef::program(JobId(job)), rank, stream)
    }

    pub(crate) fn output_of(&self, of: StepRef, rank: u32, stream: Stream) -> String {
        let mut all = Vec::new();
        for (_, report) in self.reports.borrow().iter() {
            if let Report::Output { step, rank: Rank(r), stream: s, data, .. } = report
                && (*step, *r, *s) == (of, rank, stream)
            {
                all.extend_from_slice(data);
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    pub(crate) async fn output_contains(&self, job: u64, rank: u32, text: &str) {
        self.until(|_| self.output(job, rank, Stream::Stdout).contains(text).then_some(())).await;
    }

    pub(crate) async fn ship(
        &self,
        file: &FileSpec,
        content: &[u8],
    ) -> Result<TransferTimes, TransferError> {
        self.generation.set(self.generation.get() + 1);
        let info = ReceiveFile {
            channel: Channel(0),
            generation: Generation(self.generation.get()),
            file: file.clone(),
            owner: own(),
            chunk_bytes: self.plan.config.chunk_bytes,
            sum: None,
        };
        self.say(vec![Command::ReceiveFile(info.clone())]).await;
        let mut source = Content(Bytes::copy_from_slice(content));
        transfer_file(&self.mm, &self.plan, &self.set(), &info, &mut source).await
    }

    /// Starts a job of `per_node` ranks on every node; row 0 is active.
    pub(crate) async fn launch(&self, job: u64, per_node: u32, rows: RowSet, spec: JobSpec) {
        self.launch_step((StepRef::program(JobId(job)), 1), per_node, rows, spec).await;
    }

    /// Starts a run of a step in the first place of a job, which has `per_node` ranks on every
    /// node.
    pub(crate) async fn launch_step(
        &self,
        (step, run): (StepRef, u64),
        per_node: u32,
        rows: RowSet,
        spec: JobSpec,
    ) {
        let ids: Vec<NodeId> = self.nodes.iter().map(Primitives::node).collect();
        let ranks = (0u32..)
            .zip(&ids)
            .map(|(i, node)| NodeRanks { node: *node, first: Rank(i * per_node), count: per_node })
            .collect();
        let launch = LaunchJob {
            step,
            incarnation: JobIncarnation(run),
            place: JobIncarnation(1),
            slot: JobSlot((step.job.0 + run - 1) as u32),
            task: None,
            spec: Rc::new(JobSpec { procs: per_node * ids.len() as u32, ..spec }),
            ranks,
            partition: PartitionId(0),
            rows,
            active_row: Row(0),
            coscheduling: Default::default(),
            announcer: NodeId(1),
            node_list: self.set().to_string(),
            buffered: false,
            hold_output: false,
            facts: Default::default(),
        };
        self.say(vec![Command::LaunchJob(Rc::new(launch))]).await;
    }

    /// Waits until all managers have left. Returns why they left.
    pub(crate) async fn exits(&self) -> Vec<storm_nm::ExitReason> {
        let mut reasons = Vec::new();
        for manager in self.managers.take() {
            let exit = tokio::time::timeout(HANG, manager).await.expect("an end");
            reasons.push(exit.expect("no panic").reason);
        }
        reasons
    }

    /// Ends the cluster and checks that it leaves nothing.
    pub(crate) async fn shut_down(&self) {
        self.say(vec![Command::Shutdown]).await;
        let all = self.exits().await;
        assert!(all.iter().all(|reason| *reason == storm_nm::ExitReason::Shutdown), "{all:?}");
        for node in &self.nodes {
            let dir = self.node_dir(node.node().0);
            assert!(!dir.exists(), "{} is still there", dir.display());
        }
    }
}

struct Content(Bytes);

impl ChunkSource for Content {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        Ok(self.0.split_to(len))
    }
}

/// `bash -c script`, its output to the client.
pub(crate) fn shell(script: &str) -> JobSpec {
    let plain = JobSpec::plain("test", Program::OnNodes("/bin/bash".into()));
    let mut spec = JobSpec { owner: own(), ..plain };
    spec.step.argv = vec!["bash".into(), "-c".into(), script.into()];
    spec.step.env = vec![("PATH".into(), "/usr/bin:/bin".into())].into();
    spec
}

/// The number of processes of this host with a text in their command line.
pub(crate) fn processes_with(text: &str) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let line = std::fs::read(Path::new(&entry.path()).join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(text) {
            found += 1;
        }
    }
    found
}
