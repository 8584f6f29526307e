//! The surroundings of the core: nodes with their parts of jobs, transfers, watches, timers and the
//! journal. The world carries out the core's effects when a test calls for them.

use super::lost_parts::Losses;
use crate::api::Peer;
use crate::job::{JobEventKind, JobRecord, Phase};
use crate::journal::Entry;
use crate::manager::{
    Core, Durable, Effects, Immediate, JobTimer, Notice, StageJob, StageOutcome, Timer, Watch,
};
use crate::{CoreConfig, NodeConfig, PartitionConfig, ServiceConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId};
use storm_rm::message::{
    Command, ExitStatus, LaunchJob, NodeInfo, NodeReturn, RankExit, Report, Slices,
};
use storm_rm::{
    ContentHash, Destination, FileSpec, JobId, JobIncarnation, JobSpec, PartitionId, Program, Rank,
    RowSet, StepSpec,
};
use storm_sched::{MplLimit, PolicyParams};

pub(super) const NODES: u32 = 4;
pub(super) const PES: u32 = 2;
pub(super) const PARTITION: PartitionId = PartitionId(0);
pub(super) const USER: Peer = Peer { uid: 1000, gid: 1000, pid: 1, by_door: false };
pub(super) const ADMIN: Peer = Peer { uid: 0, gid: 0, pid: 1, by_door: false };

/// One node's part of one run of a job.
pub(super) type PartKey = (NodeId, JobId, JobIncarnation);

/// The core and its surroundings.
pub(super) struct World {
    pub(super) core: Core,
    pub(super) now: Instant,
    pub(super) journal: Vec<Entry>,
    pub(super) stages: Vec<StageJob>,
    pub(super) starts: Vec<Watch>,
    pub(super) overdue: Vec<Watch>,
    pub(super) terminations: Vec<Watch>,
    pub(super) timers: Vec<(Instant, Timer)>,
    /// The running ranks, and whether they were ordered to end.
    pub(super) parts: BTreeMap<PartKey, (Vec<Rank>, bool)>,
    /// The rows in which each part was last ordered to run.
    pub(super) rows: BTreeMap<PartKey, RowSet>,
    pub(super) joined: BTreeSet<NodeId>,
    /// Parts that are over but not released, with the last report of their nodes.
    pub(super) over: BTreeMap<PartKey, Report>,
    /// For each node that joined anew, the first run that the node can have received.
    pub(super) first_runs: BTreeMap<NodeId, JobIncarnation>,
    /// How long the keepers of the nodes keep jobs.
    pub(super) returns: Option<NodeReturn>,
    /// Reports with which nodes answer. The manager receives them after all its effects.
    replies: VecDeque<(NodeId, Report)>,
    pub(super) losses: Losses,
    /// The runs that are further steps of their jobs.
    pub(super) step_runs: BTreeSet<JobIncarnation>,
    /// The further steps whose files are on their way.
    pub(super) step_stages: Vec<(JobId, JobIncarnation)>,
    /// Whether the core has had a predecessor on its journal.
    pub(super) restarted: bool,
    sched: String,
    job_slots: u32,
    pub(super) service: ServiceConfig,
    /// Edits of the configuration since the start, which the next manager reads.
    pub(super) edit: fn(&mut CoreConfig),
    /// Forbidden results of effects.
    pub(super) faults: Vec<String>,
    /// Strobes that nodes were sent.
    pub(super) strobes: Vec<Slices>,
    /// Signals that nodes were sent.
    pub(super) signals: Vec<(NodeId, Command)>,
    /// The ends of PMI barriers that nodes were sent, with the number of pairs.
    pub(super) fences: Vec<(NodeId, u64, usize)>,
    /// The notices that clients received.
    pub(super) notices: Vec<(JobId, Notice)>,
}

pub(super) fn config(sched: &str, job_slots: u32) -> CoreConfig {
    let mpl_limit = MplLimit::try_from(3).unwrap();
    CoreConfig {
        cluster: "model".to_owned(),
        nodes: (1..=NODES).map(|n| NodeConfig::new(format!("n{n}"), PES)).collect(),
        partitions: vec![PartitionConfig {
            name: "all".to_owned(),
            nodes: (0..NODES as usize).collect(),
            sched: sched.to_owned(),
            params: PolicyParams { mpl_limit, ..PolicyParams::default() },
            default: true,
        }],
        policies: storm_sched::Registry::standard(),
        job_slots,
        heartbeat_bytes: 64 * 1024,
        chunk_bytes: 4096,
        kill_grace: Duration::from_millis(50),
        launch_timeout: Duration::from_millis(70),
        recovery_timeout: Duration::from_secs(1),
        requeue_fence: Duration::ZERO,
        // A few slices of the default quantum.
        strobe_span: Duration::from_millis(200),
        history_limit: 10_000,
        array_max: 100,
        user_jobs_max: 10_000,
        service: Default::default(),
        admin_uids: Vec::new(),
        clients: None,
        origin: jiff::Timestamp::UNIX_EPOCH,
        user_name: Rc::new(|_| None),
    }
}

pub(super) fn spec(procs: u32, shipped: bool, requeue: bool) -> JobSpec {
    let file = FileSpec {
        hash: ContentHash([1; 32]),
        size_bytes: 1,
        mode: 0o755,
        name: "program".into(),
        destination: Destination::JobDirectory,
    };
    let program = if shipped { Program::Shipped(file) } else { Program::OnNodes("/p".into()) };
    let step = StepSpec::plain("p", program.clone());
    JobSpec { procs, requeue, step, ..JobSpec::plain("job", program) }
}

impl World {
    /// A world with accounts, qualities of service or priorities.
    pub(super) fn serving(sched: &str, job_slots: u32, service: ServiceConfig) -> World {
        let config = CoreConfig { service: service.clone(), ..config(sched, job_slots) };
        let core = Core::new(config, [], Instant::ORIGIN).unwrap();
        let mut world = World {
            core,
            now: Instant::ORIGIN,
            journal: Vec::new(),
            stages: Vec::new(),
            starts: Vec::new(),
            overdue: Vec::new(),
            terminations: Vec::new(),
            timers: Vec::new(),
            parts: BTreeMap::new(),
            rows: BTreeMap::new(),
            joined: BTreeSet::new(),
            over: BTreeMap::new(),
            first_runs: BTreeMap::new(),
            returns: None,
            replies: VecDeque::new(),
            losses: Losses::default(),
            step_runs: BTreeSet::new(),
            step_stages: Vec::new(),
            restarted: false,
            sched: sched.to_owned(),
            job_slots,
            service,
            edit: |_| (),
            faults: Vec::new(),
            strobes: Vec::new(),
            signals: Vec::new(),
            fences: Vec::new(),
            notices: Vec::new(),
        };
        world.perform_all();
        world
    }

    /// A world in which all nodes have joined.
    pub(super) fn joined(sched: &str, job_slots: u32) -> World {
        World::joined_serving(sched, job_slots, ServiceConfig::default())
    }

    /// A world with qualities of service in which all nodes have joined.
    pub(super) fn joined_serving(sched: &str, job_slots: u32, service: ServiceConfig) -> World {
        let mut world = World::serving(sched, job_slots, service);
        (1..=NODES).for_each(|node| world.node_up(NodeId(node)));
        world
    }

    /// Lets the core act a moment later, and carries out its effects.
    pub(super) fn act<T>(&mut self, act: impl FnOnce(&mut Core, Instant) -> T) -> T {
        self.now = self.now + Duration::from_micros(100);
        let result = act(&mut self.core, self.now);
        self.perform_all();
        result
    }

    fn perform_all(&mut self) {
        let Effects { immediate, durable } = self.core.take_effects();
        let mut passed_over = Vec::new();
        for effect in immediate {
            match effect {
                Immediate::Strobe(nodes, slices) => {
                    // Nodes that have not returned receive the command on their return.
                    let here = self.parts.keys().filter(|part| self.joined.contains(&part.0));
                    passed_over.extend(here.copied().filter(|part| !nodes.contains(part.0)));
                    self.strobes.push(slices);
                }
                Immediate::SlicesChanged(_) => {}
            }
        }
        for effect in durable {
            self.perform(effect);
        }
        // A node may have been ordered meanwhile to forget the part.
        let left = passed_over.iter().filter(|part| self.parts.contains_key(part));
        self.faults.extend(left.map(|part| format!("a strobe passed over {part:?}")));
        while let Some((node, report)) = self.replies.pop_front() {
            self.report(node, report);
        }
    }

    fn perform(&mut self, effect: Durable) {
        match effect {
            Durable::Journal(entry) => self.note(entry),
            Durable::Command(nodes, command) => {
                nodes.iter().for_each(|node| self.tell(node, &command));
            }
            Durable::Draft(nodes, draft) => {
                let command = draft.command(&self.core.active_rows());
                nodes.iter().for_each(|node| self.tell(node, &command));
            }
            Durable::Step(order) => self.order(order),
            Durable::Stage(stage) => self.stages.push(stage),
            Durable::AbandonStaging(job) => self.stages.retain(|stage| stage.job != job),
            Durable::AwaitStarted(watch) => self.may_start(watch),
            Durable::NameUnstarted(watch) => self.overdue.push(watch),
            Durable::AwaitTermination(watch) => self.terminations.push(watch),
            Durable::Timer { at, timer } => self.timers.push((at, timer)),
            Durable::Notify(job, notice) => self.notices.push((job, notice)),
            Durable::NotifyStep(..) => {}
        }
    }

    fn note(&mut self, entry: Entry) {
        if let Some((job, event)) = entry.of_job() {
            self.check_event(job, &event.kind);
        }
        self.journal.push(entry);
    }

    fn check_event(&mut self, job: JobId, kind: &JobEventKind) {
        self.faults.extend(self.losses.check(job, kind));
        if let JobEventKind::Placed { ranks, .. } = kind {
            let dead = ranks.iter().find(|share| !self.joined.contains(&share.node));
            self.faults.extend(dead.map(|share| format!("{job} was placed on {}", share.node)));
        }
        if matches!(kind, JobEventKind::Ended { .. } | JobEventKind::Requeued { .. }) {
            let left = self.parts.keys().find(|(_, of, _)| *of == job);
            self.faults.extend(left.map(|part| format!("a run is over and {part:?} lives")));
        }
    }

    fn tell(&mut self, node: NodeId, command: &Command) {
        match command {
            Command::LaunchJob(launch) if self.joined.contains(&node) => {
                let share = launch.step_ranks_of(node).unwrap();
                let ranks = (0..share.count).map(|index| Rank(share.first.0 + index)).collect();
                let part = (node, launch.step.job, launch.incarnation);
                self.faults.extend(self.losses.launched(part));
                self.parts.insert(part, (ranks, false));
                self.rows.insert(part, launch.rows);
                if node == launch.announcer {
                    let LaunchJob { step, incarnation, slot, .. } = **launch;
                    let nodes = launch.step_ranks().map(|share| share.node).collect();
                    self.may_start(Watch { step, incarnation, slot, nodes });
                }
            }
            Command::SetRows { job, rows } => {
                let parts = self.parts.keys().filter(|(n, j, _)| (n, j) == (&node, job));
                self.rows.extend(parts.map(|part| (*part, *rows)));
            }
            Command::SignalJob { .. } | Command::SignalScript { .. } => {
                self.signals.push((node, command.clone()));
            }
            Command::FenceDone { sequence, puts, .. } => {
                self.fences.push((node, *sequence, puts.len()));
            }
            Command::DestroyJob { step } => {
                let of_job = self.parts.iter_mut().filter(|((n, j, run), _)| {
                    (n, j) == (&node, &step.job) && !self.step_runs.contains(run)
                });
                of_job.for_each(|(_, (_, doomed))| *doomed = true);
            }
            Command::ReleaseJob { step } => {
                self.over.retain(|(n, j, _), _| (n, j) != (&node, &step.job));
            }
            Command::Resume { jobs, next_run, .. } => {
                self.first_runs.entry(node).or_insert(*next_run);
                self.rows.extend(jobs.iter().map(|r| ((node, r.step.job, r.incarnation), r.rows)));
                let kept: BTreeSet<_> =
                    jobs.iter().map(|r| (node, r.step.job, r.incarnation)).collect();
                self.parts.retain(|part, _| part.0 != node || kept.contains(part));
                self.over.retain(|part, _| part.0 != node || kept.contains(part));
                let again = self.over.iter().filter(|(part, _)| part.0 == node);
                self.replies.extend(again.map(|(_, report)| (node, report.clone())));
            }
            _ => {}
        }
    }

    /// The manager is killed, and a new manager begins on its journal. The nodes of `dead` have
    /// died meanwhile. The others have kept their parts and return; among them, those of `deaf` had
    /// not received the launches that were under way.
    pub(super) fn restart(&mut self, dead: impl Fn(NodeId) -> bool, deaf: impl Fn(NodeId) -> bool) {
        self.restart_over(dead, deaf, |_| false);
    }

    /// Does the same as [`World::restart`]. The nodes of `replaced` have got other Node Managers
    /// meanwhile, which find nothing of the launches that were under way.
    pub(super) fn restart_over(
        &mut self,
        dead: impl Fn(NodeId) -> bool,
        deaf: impl Fn(NodeId) -> bool,
        replaced: impl Fn(NodeId) -> bool,
    ) {
        // Without keepers that keep jobs, the jobs of a Node Manager end with it.
        let keeps = self.returns.is_some();
        let dead = |node| dead(node) || (!keeps && replaced(node));
        let starting =
            |job: &JobId| self.core.jobs.get(job).is_some_and(|job| job.phase == Phase::Starting);
        // A Node Manager that began after the run has received the job from its keeper.
        let was_there = |node: &NodeId, run: &JobIncarnation| {
            self.first_runs.get(node).is_some_and(|first| first <= run)
        };
        self.parts
            .retain(|(node, job, run), _| !(deaf(*node) && starting(job) && was_there(node, run)));
        self.forget_starting_steps(&deaf);
        self.stages.clear();
        self.step_stages.clear();
        self.starts.clear();
        self.overdue.clear();
        self.terminations.clear();
        self.timers.clear();
        self.restarted = true;
        self.parts.retain(|part, _| !dead(part.0));
        self.over.retain(|part, _| !dead(part.0));
        self.first_runs.retain(|node, _| !dead(*node));
        let nodes = std::mem::take(&mut self.joined);
        nodes.iter().filter(|node| dead(**node)).for_each(|node| self.loses(*node));
        nodes.iter().filter(|node| replaced(**node)).for_each(|node| self.is_replaced(*node, true));
        let service = self.service.clone();
        let mut config = CoreConfig { service, ..config(&self.sched, self.job_slots) };
        (self.edit)(&mut config);
        self.core = Core::new(config, self.journal.clone(), self.now).unwrap();
        self.act(|_, _| ());
        for node in nodes.into_iter().filter(|node| !dead(*node)) {
            self.comes_back(node);
        }
    }

    pub(super) fn submit(&mut self, spec: JobSpec) -> JobId {
        self.act(|core, now| core.submit(now, USER, spec)).unwrap()
    }

    pub(super) fn cancel(&mut self, job: JobId) -> bool {
        self.act(|core, now| core.cancel(now, USER, job, None)).is_ok()
    }

    pub(super) fn node_up(&mut self, node: NodeId) {
        let info = NodeInfo {
            hostname: "host".to_owned(),
            address: "address".to_owned(),
            pes: PES,
            memory_mib: 1,
            version: "0".to_owned(),
            capabilities: Vec::new(),
            only_uid: None,
            returns: self.returns,
        };
        self.joined.insert(node);
        self.report(node, Report::Joined(info));
    }

    pub(super) fn node_down(&mut self, node: NodeId) {
        self.loses(node);
        self.joined.remove(&node);
        self.parts.retain(|(at, _, _), _| *at != node);
        self.over.retain(|(at, _, _), _| *at != node);
        self.first_runs.remove(&node);
        self.act(|core, now| core.node_lost(now, node));
    }

    /// The Node Manager runs, but its processes are lost.
    pub(super) fn processes_lost(&mut self, node: NodeId) {
        if self.joined.remove(&node) {
            self.loses(node);
            self.parts.retain(|(at, _, _), _| *at != node);
            self.over.retain(|(at, _, _), _| *at != node);
            self.first_runs.remove(&node);
            self.report(node, Report::ProcessesLost);
        }
    }

    pub(super) fn report(&mut self, node: NodeId, report: Report) {
        self.act(|core, now| core.report(now, node, report));
    }

    pub(super) fn edge(&mut self) {
        if let Some(quantum) = self.core.slice(PARTITION) {
            self.now = self.now + quantum;
            self.act(|core, now| core.slice_edge(now, PARTITION));
        }
    }

    pub(super) fn staged(&mut self, index: usize, outcome: Result<StageOutcome, String>) {
        let stage = self.stages.remove(index);
        self.act(|core, now| core.staged(now, stage.job, stage.incarnation, outcome));
    }

    pub(super) fn started(&mut self, index: usize) {
        let Watch { step, incarnation, nodes, .. } = self.starts.remove(index);
        let announcer = nodes.first().unwrap();
        self.act(|core, now| core.report(now, announcer, Report::Started { step, incarnation }));
        self.starts.retain(|watch| watch.incarnation != incarnation);
        self.act(|core, now| core.started(now, step.job, incarnation));
    }

    /// A run has begun on its announcer, or will: its start on all nodes may now be seen.
    pub(super) fn may_start(&mut self, watch: Watch) {
        if !self.starts.iter().any(|other| other.incarnation == watch.incarnation) {
            self.starts.push(watch);
        }
    }

    /// Reports the nodes that have not started their ranks: those with a part, if its start was not
    /// seen.
    pub(super) fn unstarted(&mut self, index: usize) {
        let Watch { step, incarnation, .. } = self.overdue.remove(index);
        let waits = self.starts.iter().any(|watch| watch.incarnation == incarnation);
        let parts = self.parts.keys().filter(|(_, j, i)| (*j, *i) == (step.job, incarnation));
        let late = parts.filter(|_| waits).map(|(node, _, _)| *node).collect();
        self.act(|core, now| core.unstarted(now, step.job, incarnation, &late));
    }

    /// All ranks of a part have exited.
    pub(super) fn part_over(&mut self, part: PartKey, status: ExitStatus) {
        let Some((ranks, _)) = self.parts.remove(&part) else { return };
        let exit = |rank| RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        let ranks = ranks.into_iter().map(exit).collect();
        let (node, job, incarnation) = part;
        let report = Report::Terminated { step: self.core.first_step(job), incarnation, ranks };
        self.over.insert(part, report.clone());
        self.losses.part_over(part);
        self.report(node, report);
    }

    /// Fires a timer.
    pub(super) fn fire(&mut self, index: usize) {
        let (at, timer) = self.timers.remove(index);
        self.now = self.now.max(at);
        self.act(|core, now| core.timer(now, timer));
    }

    /// The timers of jobs of this kind, by their indices.
    pub(super) fn timers_of_jobs(&self, wanted: JobTimer) -> Vec<usize> {
        let timers = self.timers.iter().enumerate();
        let of_kind = timers.filter_map(|(index, (_, timer))| match timer {
            Timer::Job { kind, .. } => (*kind == wanted).then_some(index),
            Timer::Step { .. } | Timer::Cluster(_) => None,
        });
        of_kind.collect()
    }

    /// Fires the timer that is due first.
    pub(super) fn timer(&mut self) {
        let first = (0..self.timers.len()).min_by_key(|index| self.timers[*index].0);
        if let Some(index) = first {
            self.fire(index);
        }
    }

    pub(super) fn record(&self, job: JobId) -> &JobRecord {
        &self.core.jobs[&job]
    }
}
