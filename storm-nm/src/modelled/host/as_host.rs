//! The modelled node as the node manager sees it.

use super::{Inner, ModelledHost, SIGKILL, leases};
use crate::modelled::job::Job;
use crate::modelled::process::{Freezer, Process};
use crate::modelled::{Activity, HostAct, ModelledSink, RankContext};
use crate::{
    Content, Host, HostEvent, Inherited, JobKey, JobTask, LaunchRefused, SwitchAhead, SwitchDone,
    Whom,
};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, Runtime};
use storm_rm::message::{NodeInfo, NodeStatus, ReceiveFile, Report, Stream, Strobe};
use storm_rm::{Coscheduling, FileSpec, Owner, Rank, RankClass, RowSet, StepRef};

const MEMORY_MIB: u64 = 1024;
/// Longer than any simulation.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

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
            returns: model.returns,
        }
    }

    fn status(&self) -> NodeStatus {
        let load_percent = u32::try_from(self.live_processes() * 100).unwrap_or(u32::MAX);
        NodeStatus { load_percent, memory_available_mib: MEMORY_MIB }
    }

    fn is_asked_to_end(&self) -> bool {
        self.inner.asked_to_end.get()
    }

    fn keeps_jobs(&self) -> Option<Duration> {
        self.inner.model.returns.map(|returns| Duration::from_millis(returns.within_ms))
    }

    fn inherit(&self) -> Vec<Inherited> {
        self.hand_over_jobs()
    }

    fn remember_fence(&self, step: StepRef, sequence: u64, puts: &[(String, String)]) {
        let jobs = self.inner.jobs.borrow();
        let latest = jobs.iter().rev().find(|(key, _)| key.step == step);
        if let Some(ledger) = latest.and_then(|(_, job)| job.ledger.as_ref()) {
            ledger.log_fence(sequence, puts);
        }
    }

    fn output_offset(&self, job: JobKey, rank: Rank, stream: Stream) -> u64 {
        let job = self.job(job);
        let ledger = job.as_ref().and_then(|job| job.ledger.as_ref());
        ledger.map_or(0, |ledger| ledger.output_offset(rank, stream))
    }

    fn kept_output(&self, job: JobKey) -> Option<Vec<Report>> {
        Some(self.job(job)?.ledger.as_ref()?.outputs())
    }

    fn detach(&self) {
        self.manager_ends();
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
            let context =
                RankContext { job: key, rank, size: task.launch.size(), argv: &spec.step.argv };
            let script = (model.program)(&context);
            // The daemon keeps to the last processor, where its cache is warm.
            let shares = rank.0 - task.first.0 + 1 >= model.processors;
            let process = Rc::new(Process::new(
                runtime.clone(),
                (model.clone(), shares.then(|| self.inner.daemon.clone())),
                (key, rank, task.launch.size()),
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
            is_resuming: Cell::default(),
            ledger: self.ledger_of(task),
            cut: Cell::default(),
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

    // A modelled process has no children.
    fn signal(&self, job: JobKey, signal: i32, _whom: Whom) {
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
        let data = self.process(job, rank)?.output(stream).read(limit).await?;
        if let Some(ledger) = self.job(job).as_ref().and_then(|job| job.ledger.as_ref()) {
            ledger.keep_output(rank, stream, &data);
        }
        Some(data)
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
        let event = self.inner.events.next().await;
        if let HostEvent::Pmi { job, rank, line } = &event {
            self.request_taken(*job, *rank, line);
        }
        event
    }

    async fn leave(&self) {
        self.inner.has_manager.set(false);
        self.end_all();
        self.inner.left.set(true);
        self.observe(HostAct::Left);
    }
}
