//! The [`Host`] trait on a real node.

use super::inheriting::{self, kept_id};
use super::{LiveHost, PINGS_UNANSWERED_MAX, Sources, remove_in_background};
use crate::environment::joins_by_pmix;
use crate::live::cache::CacheError;
use crate::live::launch_plan::{check_placement, credentials, job_files};
use crate::live::ledger::Fate;
use crate::live::{CacheSink, job_directory, node_facts, slices_left};
use crate::{
    Content, Host, HostEvent, Inherited, JobKey, JobTask, LaunchRefused, SwitchAhead, SwitchDone,
    Whom,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storm_mpi::segment::NodeEnd;
use storm_pl::{Credentials, HostTime, PadId, PlaceSpec};
use storm_primitives::{Instant, NodeId};
use storm_rm::message::{
    ClientsAddress, NodeInfo, NodeStatus, ReceiveFile, Report, Stream, Strobe,
};
use storm_rm::{
    Coscheduling, Destination, FileSpec, OsBytes, Owner, Rank, RankClass, RowSet, StepId, StepRef,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// The most rings of one rank that count as one ring.
const RINGS_AT_ONCE: u32 = 16;

impl LiveHost {
    /// Makes the directory of a job, with its files. Returns the user that the job runs as.
    pub(super) async fn lay_out(
        &self,
        task: &Rc<JobTask>,
        directory: PathBuf,
    ) -> Result<Credentials, LaunchRefused> {
        let (owner, by_pmix) = (task.spec().owner, joins_by_pmix(task.spec()));
        if by_pmix && self.config.pmix.is_none() {
            let reason = "this node starts no ranks that join through PMIx".to_owned();
            return Err(LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE });
        }
        if by_pmix {
            check_placement(task)?;
        }
        let files = job_files(task, |owner, file| self.cache.path(owner, file.hash));
        let shared = by_pmix.then(|| (self.shared_memory.clone(), task.key()));
        let commands = self.config.script_commands.clone();
        let commands = commands.filter(|_| task.launch.step.step == StepId::Batch);
        let made = spawn_blocking(move || {
            let credentials = credentials(owner).map_err(|error| LaunchRefused::because(&error))?;
            if let Some((shared_memory, key)) = shared {
                shared_memory.make(key, owner).map_err(|error| LaunchRefused::because(&error))?;
            }
            job_directory::make(&directory, owner, &files, commands.as_ref())
                .map_err(|error| LaunchRefused::because(&error))?;
            Ok(credentials)
        });
        made.await.map_err(|error| LaunchRefused::because(&error))?
    }

    /// Copies content to a place on this host that its submitter may write to.
    async fn place_at(
        &self,
        path: &OsBytes,
        owner: Owner,
        file: &FileSpec,
    ) -> Result<(), LaunchRefused> {
        let looked_up = spawn_blocking(move || credentials(owner)).await;
        let credentials = looked_up
            .map_err(|error| LaunchRefused::because(&error))?
            .map_err(|error| LaunchRefused::because(&error))?;
        let placed = self.keeper.place(PlaceSpec {
            source: self.cache.path(owner, file.hash),
            destination: path.as_os_str().into(),
            mode: file.mode & 0o777,
            replace: true,
            credentials,
        });
        let id = placed.map_err(|error| LaunchRefused::because(&error))?;
        let (done, outcome) = oneshot::channel();
        self.places.borrow_mut().insert(id, done);
        match outcome.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(LaunchRefused {
                reason: format!("{}: {failure}", path.to_string_lossy()),
                exit_code: LaunchRefused::NOT_EXECUTABLE,
            }),
            Err(error) => Err(LaunchRefused::because(&error)),
        }
    }
}

impl Host for LiveHost {
    type Sink = CacheSink;

    fn info(&self, _node: NodeId) -> NodeInfo {
        let uid = nix::unistd::geteuid();
        NodeInfo {
            hostname: node_facts::hostname(),
            address: self.config.address.clone(),
            pes: u32::from(self.config.pes),
            memory_mib: node_facts::memory_mib(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: self.capabilities.clone(),
            only_uid: (!uid.is_root()).then_some(uid.as_raw()),
            returns: self.returns(),
        }
    }

    fn name(&self, _node: NodeId) -> String {
        self.config.name.clone()
    }

    fn status(&self) -> NodeStatus {
        node_facts::status()
    }

    fn clients_connect_at(&self, clients: Option<ClientsAddress>) {
        self.relays.set(self.config.relay.as_ref().is_some_and(|relay| (relay.hear)(clients)));
    }

    fn is_asked_to_end(&self) -> bool {
        self.config.asked_to_end.load(Ordering::Relaxed)
    }

    async fn content(&self, announced: &ReceiveFile) -> io::Result<Content<CacheSink>> {
        let ReceiveFile { owner, file, sum, .. } = announced;
        if self.cache.has(*owner, file).await {
            return Ok(Content::Present);
        }
        let sink = self.cache.create(*owner, file, *sum).await.map_err(CacheError::into_io)?;
        Ok(Content::Missing(sink))
    }

    async fn place(&self, owner: Owner, file: &FileSpec) -> Result<(), LaunchRefused> {
        let Destination::Path(path) = &file.destination else { return Ok(()) };
        let placed = self.place_at(path, owner, file).await;
        self.cache.linked(owner, file.hash);
        placed
    }

    async fn prepare(&self, task: &Rc<JobTask>) -> Result<(), LaunchRefused> {
        let key = task.key();
        match self.try_prepare(task).await {
            Ok(job) => {
                if task.launch.coscheduling == Coscheduling::Flexible {
                    self.flexible.watch(&job, &self.names());
                }
                self.by_pad.borrow_mut().insert(job.pad, key);
                self.jobs.borrow_mut().insert(key, Rc::new(job));
                Ok(())
            }
            Err(refused) => {
                // The booster may watch the job's page already.
                self.booster.forget(key);
                remove_in_background(self.job_directory(key), self.shared_memory.clone(), key);
                Err(refused)
            }
        }
    }

    fn launch(&self, task: &Rc<JobTask>, stopped: bool) {
        let key = task.key();
        let Some(job) = self.job(key) else { return };
        if stopped {
            self.switch(None, &[key], &[]);
        }
        self.leave_with_keeper(&job);
        let waiting = self.keeper.waiting(job.pad);
        let mut pls = waiting.into_iter();
        for rank in task.ranks() {
            let started = match pls.next() {
                Some(pl) => self.start_rank(&job, rank, pl),
                None => Err(LaunchRefused {
                    reason: "the process that waited for it has died".to_owned(),
                    exit_code: LaunchRefused::NOT_EXECUTABLE,
                }),
            };
            if let Err(refused) = started {
                self.tell(HostEvent::LaunchFailed { job: key, rank, refused });
            }
        }
        job.shared_files.iter().for_each(|files| files.begin(&self.keeper));
        self.unnoted.borrow_mut().push(key);
        self.note_launches();
    }

    fn inherit(&self) -> Vec<Inherited> {
        self.inherited.take()
    }

    fn keeps_jobs(&self) -> Option<Duration> {
        let ends = self.config.ends_jobs.load(Ordering::Relaxed);
        (self.survives && !ends).then_some(self.config.nm.node_return)
    }

    fn remember_fence(&self, step: StepRef, sequence: u64, puts: &[(String, String)]) {
        let jobs = self.jobs.borrow();
        let latest = jobs.iter().rev().find(|(key, _)| key.step == step);
        if let Some((key, ledger)) = latest.and_then(|(key, job)| Some((key, job.ledger.as_ref()?)))
            && let Err(error) = ledger.log_fence(sequence, puts)
        {
            self.not_kept(*key, &error);
        }
    }

    fn output_offset(&self, job: JobKey, rank: Rank, stream: Stream) -> u64 {
        let live = self.job(job);
        let ledger = live.as_ref().and_then(|live| live.ledger.as_ref());
        let spool = ledger.and_then(|ledger| ledger.spool());
        spool.map_or(0, |spool| spool.total(rank, stream))
    }

    fn kept_output(&self, job: JobKey) -> Option<Vec<Report>> {
        let live = self.job(job)?;
        let ledger = live.ledger.as_ref()?;
        ledger.spool()?;
        inheriting::outputs(job, ledger)
            .inspect_err(|error| tracing::error!(%job, %error, "output is lost"))
            .ok()
    }

    fn detach(&self) {
        self.flexible.forget_all();
        // The keeper holds the locks as well, so the directories of the jobs stay locked.
        self.shared_memory.leave_locked();
    }

    fn switch(&self, _strobe: Option<&Strobe>, stop: &[JobKey], resume: &[JobKey]) {
        stop.iter().for_each(|key| self.note_stopped(*key, true));
        resume.iter().for_each(|key| self.note_stopped(*key, false));
        let turned = self.flexible.turns().turn(stop, resume);
        let (stop, resume) = (self.freezers(&turned.stop), self.freezers(&turned.resume));
        let (from, to) = (stop.iter().map(AsRef::as_ref), resume.iter().map(AsRef::as_ref));
        if let Err(error) = storm_pl::switch(from, to) {
            tracing::warn!(error = crate::reason::explain(&error), "a switch was not complete");
        }
    }

    fn switch_ahead(&self, now: Instant, plan: Vec<SwitchAhead>) -> bool {
        let mut seen = BTreeSet::new();
        let switched = plan.iter().map(|ahead| &ahead.jobs);
        let switched = switched.filter(|jobs| seen.insert(Arc::as_ptr(jobs)));
        let named: BTreeSet<JobKey> =
            switched.flat_map(|jobs| jobs.stop.iter().chain(&jobs.resume)).copied().collect();
        let (mut freezers, mut cpus) = (BTreeMap::new(), BTreeSet::new());
        let jobs = self.jobs.borrow();
        let here = |key: JobKey| Some((key, jobs.get(&key).filter(|job| !job.over.get())?));
        for (key, job) in named.into_iter().filter_map(here) {
            freezers.extend(job.freezer.clone().map(|freezer| (key, freezer)));
            cpus.extend(job.cpus.iter().flatten());
        }
        self.switcher.order(now, plan, freezers, cpus)
    }

    fn withdraw_ahead(&self) -> Vec<SwitchDone> {
        let done = self.switcher.withdraw();
        done.stopped().into_iter().for_each(|(key, stopped)| self.note_stopped(key, stopped));
        done.switches
    }

    fn set_rows(&self, job: JobKey, rows: RowSet) {
        self.cores.set_rows(job, rows);
        self.flexible.set_rows(job, rows);
    }

    fn coschedule(&self, job: JobKey, coscheduling: Coscheduling) {
        self.booster.set_boosts(job, coscheduling == Coscheduling::PeriodicBoost);
        let Some(live) = self.job(job).filter(|live| !live.over.get()) else { return };
        match coscheduling {
            Coscheduling::Flexible if self.flexible.watches(job) => {}
            Coscheduling::Flexible => self.flexible.watch(&live, &self.names()),
            Coscheduling::Strobed
            | Coscheduling::Implicit
            | Coscheduling::Local
            | Coscheduling::PeriodicBoost => self.flexible.unwatch(job),
        }
    }

    fn classes(&self, job: JobKey) -> Vec<RankClass> {
        self.flexible.classes(job)
    }

    fn signal(&self, job: JobKey, signal: i32, whom: Whom) {
        let Some(live) = self.job(job).filter(|live| !live.over.get()) else { return };
        let sent = match whom {
            Whom::All => self.keeper.kill(live.pad, signal),
            Whom::Script => self.keeper.kill_leaders(live.pad, signal),
        };
        if let Err(error) = sent {
            tracing::error!(%job, signal, %error, "a signal was not sent");
        }
    }

    fn renew_leases(&self, jobs: &[JobKey], term: Duration) {
        let now = HostTime::now();
        let until = HostTime(now.0.saturating_add(term));
        let renewed = self.leases.borrow_mut().renew((now.0, until.0), jobs);
        let pads = renewed.into_iter().filter_map(|key| self.job(key));
        let pads: Vec<PadId> = pads.filter(|job| !job.over.get()).map(|job| job.pad).collect();
        if let Err(error) = self.keeper.lease(&pads, until) {
            tracing::error!(%error, "the keeper does not hear that jobs may go on");
        }
    }

    fn destroy(&self, job: JobKey) {
        self.give_back(job, true);
    }

    fn end(&self, job: JobKey) {
        self.give_back(job, false);
    }

    fn forget(&self, job: JobKey) {
        self.give_back(job, true);
        self.cores.release(job);
        let former = self.jobs.borrow_mut().remove(&job);
        if let Some(former) = former {
            self.keeper.forget_kept(kept_id(job));
            self.pads.fill_soon(former.pad);
            remove_in_background(self.job_directory(job), self.shared_memory.clone(), job);
        }
    }

    async fn read_output(
        &self,
        job: JobKey,
        rank: Rank,
        stream: Stream,
        limit: usize,
    ) -> Option<Bytes> {
        let streams = self.streams(job, rank)?;
        self.read_buffer.borrow_mut().resize(limit, 0);
        streams.read(stream, &self.read_buffer).await
    }

    async fn files_written(&self, job: JobKey) -> Result<(), String> {
        match self.job(job) {
            Some(job) => job.files_written().await,
            None => Ok(()),
        }
    }

    async fn write_input(&self, job: JobKey, rank: Rank, data: Bytes) {
        if let Some(streams) = self.streams(job, rank) {
            streams.write(data).await;
        }
    }

    fn close_input(&self, job: JobKey, rank: Rank) {
        if let Some(streams) = self.streams(job, rank) {
            streams.close_stdin();
        }
    }

    fn pmi_reply(&self, job: JobKey, rank: Rank, line: &str) {
        if let Some(streams) = self.streams(job, rank) {
            streams.pmi_reply(line);
        }
    }

    fn hand_over(&self, job: JobKey, rank: Rank, segment: &NodeEnd) {
        if let Some(streams) = self.streams(job, rank) {
            streams.hand_over(segment);
        }
    }

    fn ends_with_manager(&self, job: JobKey) {
        let live = self.job(job);
        // A mark, in case the keeper does not get the order before the end.
        let ledgers = live.iter().filter_map(|live| live.ledger.as_ref());
        let marked = ledgers.map(|ledger| ledger.set_fate(Fate::Ends));
        for error in marked.filter_map(Result::err) {
            tracing::warn!(%job, %error, "this job is not marked as one that ends");
        }
        self.keeper.forget_kept(kept_id(job));
    }

    fn leave_slices(
        &self,
        job: JobKey,
        saved: &[u8],
        segments: &[(Rank, &NodeEnd)],
    ) -> io::Result<()> {
        self.leave_with_slices(job, &slices_left::pack(saved, segments)?)
    }

    fn is_left(&self, job: JobKey) -> bool {
        self.job(job).is_none_or(|job| !self.keeper.is_behind(job.pad))
    }

    async fn asked_to_leave(&self) {
        self.config.departure.asked().await;
    }

    fn may_leave(&self) {
        self.config.departure.allow();
    }

    fn rings(&self, bell: OwnedFd) -> impl futures_util::Stream<Item = ()> {
        let bell = fs::File::from(bell);
        // SAFETY: a file's descriptor stays the same and open until the file is dropped.
        let bell = unsafe { AsyncFd::register_with_interest(bell, Interest::READABLE) };
        let bell = bell.inspect_err(|error| tracing::error!(%error, "a rank's bell is not heard"));
        futures_util::stream::unfold(bell.ok(), |bell| async {
            let bell = bell?;
            let mut readable = bell.readable().await.ok()?;
            // Rings up to now count as one. The bound holds for a rank that rings without end.
            for _ in 0..RINGS_AT_ONCE {
                match readable.try_io(|bell| bell.get_ref().read(&mut [0; 64])) {
                    Ok(Ok(0) | Err(_)) => return None,
                    Ok(Ok(_)) => {}
                    Err(_would_block) => break,
                }
            }
            drop(readable);
            Some(((), Some(bell)))
        })
    }

    fn close_pmi(&self, job: JobKey, rank: Rank) {
        if let Some(streams) = self.streams(job, rank) {
            streams.close_pmi();
        }
    }

    async fn next_event(&self) -> HostEvent {
        let mut sources = self.sources.lock().await;
        let Sources { keeper, local, keeper_ended, pings } = &mut *sources;
        loop {
            tokio::select! {
                event = keeper.next_event(), if !*keeper_ended => match event {
                    None => *keeper_ended = true,
                    Some(event) => {
                        if let Some(event) = self.translate(event) {
                            return event;
                        }
                    }
                },
                Some(event) = local.recv() => return event,
                _ = pings.tick(), if !*keeper_ended => self.keeper.ping(PINGS_UNANSWERED_MAX),
                // `self` holds a sender: there is always something to wait for.
                else => std::future::pending().await,
            }
        }
    }

    async fn leave(&self) {
        self.pads.close();
        self.flexible.forget_all();
        if !self.keeper_gone.get() && self.keeper.shutdown().is_ok() {
            self.await_keeper().await;
        }
        if !self.keeper_gone.get() {
            tracing::error!("the keeper of this node does not end and is killed");
            self.keeper.kill_keeper();
            self.await_keeper().await;
        }
        let (dir, keep_cache, cache) =
            (self.config.dir.clone(), self.config.keep_cache, self.cache.clone());
        if let Err(error) = storm_pl::remove_tree(&dir.join("jobs")) {
            tracing::warn!(%error, "the directories of jobs are not all removed");
        }
        self.shared_memory.remove_all();
        if !keep_cache && let Err(error) = cache.remove() {
            tracing::warn!(%error, "the file cache is not removed");
        }
        // The directory stays if it holds files that are not ours.
        let _ = fs::remove_dir(&dir);
    }
}
