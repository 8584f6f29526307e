//! The modelled node as the node manager sees it, with faults that a test can inject.

mod leases;

use super::ahead::Ahead;
use super::daemon_time::DaemonTime;
use super::disk::Disk;
use super::job::Job;
use super::process::{Events, Freezer, Process};
use super::processor::Processor;
use super::share::Share;
use super::{Activity, HostAct, Model, ModelledSink, RankContext};
use crate::classes::ClassRules;
use crate::leases::Leases;
use crate::task_set::TaskSet;
use crate::{Content, Host, HostEvent, JobKey, JobTask, LaunchRefused, SwitchAhead, SwitchDone};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, Runtime};
use storm_rm::message::{NodeInfo, NodeStatus, ReceiveFile, Stream, Strobe};
use storm_rm::{Coscheduling, FileSpec, Owner, Program, Rank, RankClass, RowSet};

const SIGKILL: i32 = 9;
const MEMORY_MIB: u64 = 1024;
/// Longer than any simulation.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// A modelled node. Clones are the same node.
#[derive(Debug)]
pub struct ModelledHost<R: Runtime> {
    inner: Rc<Inner<R>>,
}

#[derive(Debug)]
struct Inner<R: Runtime> {
    runtime: R,
    model: Rc<Model>,
    disk: Rc<Disk>,
    events: Rc<Events>,
    jobs: RefCell<BTreeMap<JobKey, Rc<Job<R>>>>,
    /// The keeper's runtime.
    keeper: RefCell<R>,
    leases: RefCell<Leases>,
    daemon: Rc<DaemonTime>,
    /// Processors that jobs share if they run at once.
    processors: Vec<Rc<Processor>>,
    /// Whether processes that wait for a message that has arrived are boosted now and then.
    boosting: Cell<bool>,
    ahead: Ahead,
    tasks: TaskSet,
    left: Cell<bool>,
    stalled: Cell<bool>,
    /// The time of a computation in percent of its nominal time.
    percent: Cell<u32>,
    /// The rules of flexible coscheduling for classes.
    rules: Cell<ClassRules>,
}

impl<R: Runtime> Clone for ModelledHost<R> {
    fn clone(&self) -> Self {
        ModelledHost { inner: self.inner.clone() }
    }
}

impl<R: Runtime> ModelledHost<R> {
    /// A node without jobs, with an empty cache.
    pub fn new(runtime: R, model: Model) -> ModelledHost<R> {
        let time = model.write_time_per_byte;
        let disk = Disk::new(model.cache_bytes, time, model.check_content);
        let processor = |_| Rc::new(Processor::new(model.os.slice));
        let inner = Inner {
            processors: (0..model.pes).map(processor).collect(),
            boosting: Cell::default(),
            keeper: RefCell::new(runtime.clone()),
            leases: RefCell::default(),
            runtime,
            model: Rc::new(model),
            disk: Rc::new(disk),
            events: Rc::default(),
            jobs: RefCell::default(),
            daemon: Rc::default(),
            ahead: Ahead::default(),
            tasks: TaskSet::default(),
            left: Cell::default(),
            stalled: Cell::default(),
            percent: Cell::new(100),
            rules: Cell::default(),
        };
        ModelledHost { inner: Rc::new(inner) }
    }

    /// Sets the rules by which flexible coscheduling classifies processes of later jobs.
    pub fn judge_by(&self, rules: ClassRules) {
        self.inner.rules.set(rules);
    }

    /// Runs the keeper on its own runtime, so that it does not stand still with the node manager.
    pub fn keep_on(&self, keeper: R) {
        self.inner.keeper.replace(keeper);
    }

    /// Makes writes fail for lack of room, or work again.
    pub fn fill_disk(&self, full: bool) {
        self.inner.disk.full.set(full);
    }

    /// Sets the time to write a byte.
    pub fn slow_disk(&self, write_time_per_byte: Duration) {
        self.inner.disk.write_time_per_byte.set(write_time_per_byte);
    }

    /// Makes processes hang between the order to start and their execution, or start normally
    /// again.
    pub fn stall_starts(&self, stalled: bool) {
        self.inner.stalled.set(stalled);
    }

    /// Sets the time in which processes start and compute, in percent of their nominal time: 300 is
    /// three times slower, 100 is the nominal speed.
    pub fn slow_processors(&self, percent: u32) {
        self.inner.percent.set(percent.max(1));
        self.inner.jobs.borrow().values().for_each(|job| job.freezer.slow(percent.max(1)));
    }

    /// Kills the keeper, and all processes with it.
    pub fn lose_processes(&self) {
        self.inner.jobs.borrow_mut().clear();
        self.inner.tasks.cancel();
        self.inner.events.push(HostEvent::Lost);
    }

    /// CPU time that a rank has used so far; zero if the rank is unknown.
    pub fn cpu_time(&self, job: JobKey, rank: Rank) -> Duration {
        self.process(job, rank).map_or(Duration::ZERO, |process| process.cpu_time())
    }

    /// Number of processes alive.
    pub fn live_processes(&self) -> usize {
        let jobs = self.inner.jobs.borrow();
        let alive = |job: &Rc<Job<R>>| {
            job.processes.borrow().values().filter(|process| !process.ended.get()).count()
        };
        jobs.values().map(alive).sum()
    }

    /// Whether the node manager has left and nothing of it remains.
    pub fn is_clean(&self) -> bool {
        self.inner.left.get() && self.inner.jobs.borrow().is_empty()
    }

    fn job(&self, key: JobKey) -> Option<Rc<Job<R>>> {
        self.inner.jobs.borrow().get(&key).cloned()
    }

    fn process(&self, key: JobKey, rank: Rank) -> Option<Rc<Process<R>>> {
        self.job(key)?.processes.borrow().get(&rank).cloned()
    }

    /// A share of the processor with the fewest processes, if several jobs run at once.
    fn share(
        &self,
        who: (JobKey, Rank),
        coscheduling: Coscheduling,
        rows: RowSet,
    ) -> Option<Share> {
        if coscheduling == Coscheduling::Strobed {
            return None;
        }
        let crowd = |processor: &&Rc<Processor>| (processor.tenants_of(rows), processor.tenants());
        let processor = self.inner.processors.iter().min_by_key(crowd);
        let model = &self.inner.model;
        if coscheduling == Coscheduling::PeriodicBoost && !self.inner.boosting.replace(true) {
            let (this, period) = (self.clone(), model.os.boost_period);
            self.inner.tasks.spawn(&self.inner.runtime, async move { this.boost(period).await });
        }
        Some(Share::new(processor?.clone(), model, who, (coscheduling, rows)))
    }

    /// Boosts processes periodically, as long as there are any.
    async fn boost(&self, period: Duration) {
        loop {
            self.inner.runtime.sleep(period).await;
            let processors = &self.inner.processors;
            if processors.iter().all(|processor| processor.tenants() == 0) {
                self.inner.boosting.set(false);
                return;
            }
            let now = self.inner.runtime.now();
            processors.iter().for_each(|processor| processor.boost(now));
        }
    }

    fn observe(&self, act: HostAct) {
        (self.inner.model.observer)(&act);
    }

    fn set_stopped(&self, key: JobKey, stopped: bool) {
        if let Some(job) = self.job(key) {
            job.switches.set(job.switches.get() + 1);
            if job.set_stopped(stopped, self.inner.runtime.now()) {
                self.observe(HostAct::Classified { job: key, ranks: self.classes(key) });
                self.inner.events.push(HostEvent::Classified { job: key });
            }
        }
    }

    /// Resumes a job after a delay, unless it is switched before.
    fn resume_after(&self, key: JobKey, delay: Duration) {
        let Some(job) = self.job(key).filter(|_| !delay.is_zero()) else {
            return self.set_stopped(key, false);
        };
        let switch = job.switches.get() + 1;
        job.switches.set(switch);
        let (timer, runtime) = (self.inner.runtime.sleep(delay), self.inner.runtime.clone());
        self.inner.tasks.spawn(&self.inner.runtime, async move {
            timer.await;
            if job.switches.get() == switch {
                job.set_stopped(false, runtime.now());
            }
        });
    }

    fn signal_all(&self, key: JobKey, signal: i32) {
        if let Some(job) = self.job(key) {
            let processes = job.processes.borrow();
            processes.values().filter(|p| !p.ended.get()).for_each(|p| p.signal(signal));
        }
    }

    fn close_outputs(&self, key: JobKey) {
        if let Some(job) = self.job(key) {
            for process in job.processes.borrow().values() {
                process.stdout.close();
                process.stderr.close();
            }
        }
    }

    /// A shipped file that a job needs in its directory and that is missing.
    fn missing_file(&self, task: &JobTask) -> Option<String> {
        let spec = task.spec();
        let program = match &spec.program {
            Program::Shipped(file) => Some(file),
            Program::OnNodes(_) => None,
        };
        let local = |file: &&FileSpec| file.destination.is_job_directory();
        let now = self.inner.runtime.now();
        let missing = |file: &&FileSpec| !self.inner.disk.has(spec.owner, file.hash, now);
        let mut files = spec.files.iter().chain(program).filter(local);
        files.find(missing).map(|file| file.name.to_string_lossy().into_owned())
    }
}

impl<R: Runtime> Host for ModelledHost<R> {
    type Sink = ModelledSink<R>;

    fn info(&self, _node: NodeId) -> NodeInfo {
        let model = &self.inner.model;
        NodeInfo {
            hostname: model.hostname.clone(),
            address: model.address.clone(),
            pes: model.pes,
            memory_mib: MEMORY_MIB,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: vec!["modelled".to_owned()],
            only_uid: model.only_uid,
            returns: None,
        }
    }

    fn status(&self) -> NodeStatus {
        let load_percent = u32::try_from(self.live_processes() * 100).unwrap_or(u32::MAX);
        NodeStatus { load_percent, memory_available_mib: MEMORY_MIB }
    }

    async fn content(&self, announced: &ReceiveFile) -> io::Result<Content<Self::Sink>> {
        let (owner, file) = (announced.owner, &announced.file);
        let Inner { runtime, disk, .. } = &*self.inner;
        if disk.has(owner, file.hash, runtime.now()) {
            return Ok(Content::Present);
        }
        disk.make_room(file.size_bytes)?;
        Ok(Content::Missing(ModelledSink {
            runtime: runtime.clone(),
            disk: disk.clone(),
            owner,
            file: file.clone(),
            extra: self.inner.model.extra.clone(),
            hasher: disk.check_content.then(Box::default),
        }))
    }

    async fn place(&self, owner: Owner, file: &FileSpec) -> Result<(), LaunchRefused> {
        let Inner { runtime, disk, .. } = &*self.inner;
        let bytes = u32::try_from(file.size_bytes).unwrap_or(u32::MAX);
        runtime.sleep(disk.write_time_per_byte.get() * bytes).await;
        if disk.full.get() || !disk.has(owner, file.hash, runtime.now()) {
            return Err(LaunchRefused::because(&io::Error::from(io::ErrorKind::StorageFull)));
        }
        self.observe(HostAct::Place(file.destination.clone()));
        Ok(())
    }

    async fn prepare(&self, task: &Rc<JobTask>) -> Result<(), LaunchRefused> {
        self.inner.runtime.sleep(self.inner.model.prepare_time).await;
        match self.missing_file(task) {
            None => Ok(()),
            Some(name) => {
                self.observe(HostAct::Refuse(task.key()));
                Err(LaunchRefused {
                    reason: format!("the content of {name} is not in the cache"),
                    exit_code: LaunchRefused::NOT_FOUND,
                })
            }
        }
    }

    fn launch(&self, task: &Rc<JobTask>, stopped: bool) {
        let Inner { runtime, model, events, jobs, tasks, .. } = &*self.inner;
        let (key, ranks, rows) = (task.key(), task.count, task.launch.rows);
        self.observe(HostAct::Launch { job: key, ranks, rows, stopped });
        let freezer = Rc::new(Freezer::new(stopped, self.inner.percent.get()));
        let mut processes = BTreeMap::new();
        for rank in task.ranks() {
            let spec = task.spec();
            let context = RankContext { job: key, rank, size: spec.procs, argv: &spec.argv };
            let script = (model.program)(&context);
            // The daemon stays on the last processor, where its cache is warm.
            let shares = rank.0 - task.first.0 + 1 >= model.processors;
            let process = Rc::new(Process::new(
                runtime.clone(),
                (model.clone(), shares.then(|| self.inner.daemon.clone())),
                (key, rank, spec.procs),
                script,
                freezer.clone(),
                events.clone(),
            ));
            process.set_share(self.share((key, rank), task.launch.coscheduling, task.launch.rows));
            processes.insert(rank, process.clone());
            let stall = if self.inner.stalled.get() { FOR_EVER } else { Duration::ZERO };
            tasks.spawn(runtime, async move { process.live(stall).await });
        }
        let job = Job {
            rows: Cell::new(task.launch.rows),
            freezer,
            flexible: RefCell::default(),
            switches: Cell::new(0),
            processes: RefCell::new(processes),
        };
        if task.launch.coscheduling == Coscheduling::Flexible {
            job.coschedule(Coscheduling::Flexible, self.inner.rules.get(), runtime.now());
        }
        jobs.borrow_mut().insert(key, Rc::new(job));
    }

    async fn attend(&self) {
        let extra = (self.inner.model.extra)(Activity::Attend);
        if !extra.is_zero() {
            self.inner.daemon.work(self.inner.runtime.now(), extra);
            self.inner.runtime.sleep(extra).await;
        }
    }

    fn switch(&self, strobe: Option<&Strobe>, stop: &[JobKey], resume: &[JobKey]) {
        if let Some(strobe) = strobe {
            self.observe(HostAct::Strobe(*strobe));
        }
        for key in stop {
            self.observe(HostAct::Stop(*key));
            self.set_stopped(*key, true);
        }
        if resume.is_empty() {
            return;
        }
        // Only the jobs that run next lose the time of the switch.
        let takes = (self.inner.model.extra)(Activity::Switch);
        for key in resume {
            self.observe(HostAct::Resume(*key));
            self.resume_after(*key, takes);
        }
    }

    fn switch_ahead(&self, _now: Instant, plan: Vec<SwitchAhead>) -> bool {
        self.inner.ahead.order(self, &self.inner.runtime, plan);
        true
    }

    fn withdraw_ahead(&self) -> Vec<SwitchDone> {
        self.inner.ahead.withdraw()
    }

    fn set_rows(&self, job: JobKey, rows: RowSet) {
        self.observe(HostAct::Rows { job, rows });
        let Some(known) = self.job(job) else { return };
        known.rows.set(rows);
        if let Some(flexible) = &mut *known.flexible.borrow_mut() {
            flexible.set_rows(rows);
            known.freezer.set(flexible.apply(&known.processes.borrow()));
        }
    }

    fn coschedule(&self, key: JobKey, coscheduling: Coscheduling) {
        let Some(job) = self.job(key) else { return };
        for (rank, process) in &*job.processes.borrow() {
            if process.ended.get() {
                continue;
            }
            process.set_share(self.share((key, *rank), coscheduling, job.rows.get()));
        }
        job.coschedule(coscheduling, self.inner.rules.get(), self.inner.runtime.now());
    }

    fn classes(&self, job: JobKey) -> Vec<RankClass> {
        let now = self.inner.runtime.now();
        let report = |job: Rc<Job<R>>| {
            let flexible = job.flexible.borrow();
            flexible.as_ref().map(|flexible| flexible.report(now))
        };
        self.job(job).and_then(report).unwrap_or_default()
    }

    fn signal(&self, job: JobKey, signal: i32) {
        self.observe(HostAct::Signal { job, signal });
        self.signal_all(job, signal);
    }

    fn renew_leases(&self, jobs: &[JobKey], term: Duration) {
        let now = leases::time(&self.inner.runtime);
        let known = |job: &&JobKey| self.inner.leases.borrow().until(**job).is_none();
        let new: Vec<JobKey> = jobs.iter().filter(known).copied().collect();
        self.inner.leases.borrow_mut().renew((now, now.saturating_add(term)), jobs);
        new.into_iter().for_each(|job| self.watch_lease(job));
    }

    fn destroy(&self, job: JobKey) {
        self.inner.leases.borrow_mut().forget(job);
        self.observe(HostAct::Destroy(job));
        self.signal_all(job, SIGKILL);
        self.close_outputs(job);
    }

    fn end(&self, job: JobKey) {
        self.inner.leases.borrow_mut().forget(job);
        self.observe(HostAct::End(job));
        self.close_outputs(job);
    }

    fn forget(&self, job: JobKey) {
        self.observe(HostAct::Forget(job));
        self.inner.jobs.borrow_mut().remove(&job);
    }

    async fn read_output(
        &self,
        job: JobKey,
        rank: Rank,
        stream: Stream,
        limit: usize,
    ) -> Option<Bytes> {
        self.process(job, rank)?.output(stream).read(limit).await
    }

    async fn write_input(&self, job: JobKey, rank: Rank, data: Bytes) {
        if let Some(process) = self.process(job, rank) {
            process.stdin.write(data).await;
        }
    }

    fn close_input(&self, job: JobKey, rank: Rank) {
        if let Some(process) = self.process(job, rank) {
            process.stdin.close();
        }
    }

    fn pmi_reply(&self, job: JobKey, rank: Rank, line: &str) {
        if let Some(process) = self.process(job, rank) {
            process.reply(line);
        }
    }

    fn close_pmi(&self, job: JobKey, rank: Rank) {
        self.observe(HostAct::ClosePmi { job, rank });
    }

    async fn next_event(&self) -> HostEvent {
        self.inner.events.next().await
    }

    async fn leave(&self) {
        self.inner.jobs.borrow_mut().clear();
        self.inner.ahead.withdraw();
        self.inner.tasks.cancel();
        self.inner.left.set(true);
        self.observe(HostAct::Left);
    }
}
