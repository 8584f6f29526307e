//! [`Host`] on a real node.

use super::cache::{Cache, CacheError};
use super::launch_plan::{credentials, job_files, launch_spec, program_path, rank_spec, refused};
use super::live_job::LiveJob;
use super::pad_pool::PadPool;
use super::rank_streams::RankStreams;
use super::{CacheSink, LiveConfig, job_directory, node_facts};
use crate::environment::NodeNames;
use crate::{Content, Host, HostEvent, JobKey, JobTask, LaunchRefused};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storm_pl::{
    Event, ExitStatus, Freezer, Keeper, KeeperEvents, KeeperHandle, PadId, PlIndex, PlaceFailure,
    PlaceId, PlaceSpec, Usage,
};
use storm_primitives::NodeId;
use storm_rm::message::{NodeInfo, NodeStatus, RankExit, Stream};
use storm_rm::{Destination, FileSpec, InputSpec, Owner, Rank};
use thiserror::Error;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::task::spawn_blocking;

/// PMI lines and refusals that wait for the node manager; ranks wait behind them.
const EVENTS_MAX: usize = 256;
/// How long the keeper is given to end everything that it keeps.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(5);
const SIGKILL: i32 = 9;

/// Why a node cannot serve.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The keeper cannot be used.
    #[error("the keeper cannot be attached")]
    Keeper(#[source] io::Error),
    /// The directory cannot be used.
    #[error("the directory {path} cannot be used")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A real node.
pub struct LiveHost {
    config: LiveConfig,
    capabilities: Vec<String>,
    names: NodeNames,
    keeper: KeeperHandle,
    sources: Mutex<Sources>,
    /// To [`Sources::local`].
    events: mpsc::Sender<HostEvent>,
    pads: PadPool,
    cache: Cache,
    jobs: RefCell<BTreeMap<JobKey, Rc<LiveJob>>>,
    by_pad: RefCell<BTreeMap<PadId, JobKey>>,
    places: RefCell<BTreeMap<PlaceId, oneshot::Sender<Result<(), PlaceFailure>>>>,
    read_buffer: RefCell<Vec<u8>>,
    keeper_gone: Cell<bool>,
    keeper_left: Notify,
}

/// Where events come from.
struct Sources {
    keeper: KeeperEvents,
    local: mpsc::Receiver<HostEvent>,
    keeper_ended: bool,
}

impl LiveHost {
    /// Attaches a keeper to the tokio runtime that the caller runs in, opens the
    /// cache and asks for the first pads.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(keeper: Keeper, config: LiveConfig) -> Result<LiveHost, AttachError> {
        let capabilities = vec![keeper.capabilities().to_string()];
        prepare_directory(&config.dir)?;
        let at = |path: PathBuf| move |source| AttachError::Directory { path, source };
        let cache_path = config.dir.join("cache");
        let cache = Cache::open(cache_path.clone(), config.cache_bytes)
            .map_err(CacheError::into_io)
            .map_err(at(cache_path))?;
        let (keeper, keeper_events) = keeper.into_async().map_err(AttachError::Keeper)?;
        let pads = PadPool::new(keeper.clone(), config.pads, config.pads_max);
        let (events, local) = mpsc::channel(EVENTS_MAX);
        Ok(LiveHost {
            capabilities,
            names: NodeNames { node: config.node, address: config.address.clone() },
            pads: pads.map_err(AttachError::Keeper)?,
            keeper,
            sources: Mutex::new(Sources { keeper: keeper_events, local, keeper_ended: false }),
            events,
            cache,
            jobs: RefCell::default(),
            by_pad: RefCell::default(),
            places: RefCell::default(),
            read_buffer: RefCell::default(),
            keeper_gone: Cell::new(false),
            keeper_left: Notify::new(),
            config,
        })
    }

    fn job(&self, key: JobKey) -> Option<Rc<LiveJob>> {
        self.jobs.borrow().get(&key).cloned()
    }

    fn streams(&self, key: JobKey, rank: Rank) -> Option<Rc<RankStreams>> {
        self.job(key)?.streams_of(rank)
    }

    fn job_directory(&self, key: JobKey) -> PathBuf {
        self.config.dir.join("jobs").join(key.to_string())
    }

    async fn try_prepare(&self, task: &Rc<JobTask>) -> Result<LiveJob, LaunchRefused> {
        let (owner, directory) = (task.spec().owner, self.job_directory(task.key()));
        let files = job_files(task, |owner, file| self.cache.path(owner, file.hash));
        let making = directory.clone();
        let made = spawn_blocking(move || {
            let credentials = credentials(owner).map_err(|error| LaunchRefused::because(&error))?;
            job_directory::make(&making, owner, &files)
                .map_err(|error| LaunchRefused::because(&error))?;
            Ok(credentials)
        });
        let credentials = made.await.map_err(|error| LaunchRefused::because(&error))??;
        let program =
            program_path(task, &directory).map_err(|error| LaunchRefused::because(&error))?;
        let spec = launch_spec(task, program.clone(), credentials)
            .encode()
            .map_err(|error| LaunchRefused::because(&error))?;
        let pad = self.pads.take().await.map_err(|error| LaunchRefused::because(&error))?;
        let Some(freezer) = self.keeper.freezer(pad) else {
            let reason = "the place for the job is gone".to_owned();
            return Err(LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE });
        };
        Ok(LiveJob {
            task: task.clone(),
            pad,
            freezer,
            spec,
            program,
            directory,
            streams: RefCell::default(),
            ranks: RefCell::default(),
            over: Cell::new(false),
        })
    }

    fn start_rank(&self, job: &LiveJob, rank: Rank, pl: PlIndex) -> Result<(), LaunchRefused> {
        let key = job.task.key();
        let rank_spec = rank_spec(&job.task, rank, &self.names, &job.directory);
        let launching = self
            .keeper
            .launch(job.pad, pl, &job.spec, &rank_spec)
            .map_err(|error| LaunchRefused::because(&error))?;
        job.ranks.borrow_mut().insert(pl, rank);
        let reads = match job.task.spec().input {
            InputSpec::None => false,
            InputSpec::RankZero => rank.0 == 0,
            InputSpec::All => true,
        };
        let use_of = (reads, job.task.output_to_client());
        match RankStreams::open(launching.ends, use_of, (key, rank), &self.events) {
            Ok(streams) => {
                job.streams.borrow_mut().insert(rank, Rc::new(streams));
            }
            // The rank runs without its streams: it ends at the first use of one.
            Err(error) => tracing::error!(job = %key, %rank, %error, "no streams for a rank"),
        }
        Ok(())
    }

    /// What an event of the keeper means for the node manager.
    fn translate(&self, event: Event) -> Option<HostEvent> {
        match event {
            Event::Ready { pad } => {
                self.by_pad.borrow_mut().remove(&pad);
                self.pads.ready(pad);
            }
            Event::PadFailed { pad, step, errno } => {
                tracing::error!(%pad, %step, %errno, "a place for jobs was not made");
                self.pads.fill_failed(pad);
            }
            Event::Launched { pad, pl } => {
                let (job, rank) = self.find(pad, pl)?;
                return Some(HostEvent::Launched { job: job.task.key(), rank });
            }
            Event::LaunchFailed { pad, pl, failure } => {
                let (job, rank) = self.find(pad, pl)?;
                let refused = refused(failure, &job.program, &job.task);
                return Some(HostEvent::LaunchFailed { job: job.task.key(), rank, refused });
            }
            Event::Exited { pad, pl, status, usage, .. } => {
                let (job, rank) = self.find(pad, pl)?;
                let exit = rank_exit(rank, status, usage);
                return Some(HostEvent::Exited { job: job.task.key(), exit });
            }
            Event::PlDied { pad, pl, status } => {
                tracing::warn!(%pad, %pl, %status, "a process that waited for a launch died");
                self.pads.refill_if_idle(pad);
            }
            Event::PadClean { pad } => {
                self.by_pad.borrow_mut().remove(&pad);
            }
            Event::PadStuck { pad, processes } => {
                tracing::error!(%pad, ?processes, "processes of a job do not die");
            }
            Event::PadLost { pad } => self.pad_lost(pad),
            Event::Placed { id, result } => {
                if let Some(waiting) = self.places.borrow_mut().remove(&id) {
                    // Who asked may have gone.
                    let _ = waiting.send(result);
                }
            }
            Event::KeeperGone { expected } => {
                self.keeper_gone.set(true);
                self.keeper_left.notify_waiters();
                return (!expected).then_some(HostEvent::Lost);
            }
        }
        None
    }

    fn find(&self, pad: PadId, pl: PlIndex) -> Option<(Rc<LiveJob>, Rank)> {
        let key = self.by_pad.borrow().get(&pad).copied()?;
        let job = self.job(key)?;
        let rank = job.rank_of(pl)?;
        Some((job, rank))
    }

    /// Every process of a pad died with the pad's keeper.
    fn pad_lost(&self, pad: PadId) {
        self.pads.lost(pad);
        let Some(key) = self.by_pad.borrow_mut().remove(&pad) else { return };
        let Some(job) = self.job(key) else { return };
        job.over.set(true);
        let killed = ExitStatus::Signal { signal: SIGKILL, core_dumped: false };
        for rank in job.task.ranks() {
            let exit = rank_exit(rank, killed, Usage::default());
            self.tell(HostEvent::Exited { job: key, exit });
        }
    }

    /// Queues an event of this thread's own making.
    fn tell(&self, event: HostEvent) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            // PMI lines fill the queue: wait behind them.
            let events = self.events.clone();
            tokio::task::spawn_local(async move {
                // The receiver lives as long as the host.
                let _ = events.send(event).await;
            });
        }
    }

    /// Gives the pad back, for the keeper to clean and fill it.
    fn give_back(&self, key: JobKey, destroy: bool) {
        let Some(job) = self.job(key) else { return };
        if job.over.replace(true) {
            return;
        }
        let told =
            if destroy { self.keeper.destroy(job.pad) } else { self.keeper.release(job.pad) };
        if let Err(error) = told {
            tracing::error!(job = %key, %error, "the keeper does not end the job");
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
        }
    }

    fn status(&self) -> NodeStatus {
        node_facts::status()
    }

    async fn content(&self, owner: Owner, file: &FileSpec) -> io::Result<Content<CacheSink>> {
        if self.cache.has(owner, file).await {
            return Ok(Content::Present);
        }
        let sink = self.cache.create(owner, file).await.map_err(CacheError::into_io)?;
        Ok(Content::Missing(sink))
    }

    async fn place(&self, owner: Owner, file: &FileSpec) -> Result<(), LaunchRefused> {
        let Destination::Path(path) = &file.destination else { return Ok(()) };
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

    async fn prepare(&self, task: &Rc<JobTask>) -> Result<(), LaunchRefused> {
        let key = task.key();
        match self.try_prepare(task).await {
            Ok(job) => {
                self.by_pad.borrow_mut().insert(job.pad, key);
                self.jobs.borrow_mut().insert(key, Rc::new(job));
                Ok(())
            }
            Err(refused) => {
                remove_in_background(self.job_directory(key));
                Err(refused)
            }
        }
    }

    fn launch(&self, task: &Rc<JobTask>, stopped: bool) {
        let key = task.key();
        let Some(job) = self.job(key) else { return };
        if stopped {
            self.switch(&[key], &[]);
        }
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
    }

    fn switch(&self, stop: &[JobKey], resume: &[JobKey]) {
        let (stop, resume) = (self.freezers(stop), self.freezers(resume));
        let from: Vec<&Freezer> = stop.iter().map(AsRef::as_ref).collect();
        let to: Vec<&Freezer> = resume.iter().map(AsRef::as_ref).collect();
        if let Err(error) = storm_pl::switch(&from, &to) {
            tracing::warn!(error = crate::reason::explain(&error), "a switch was not complete");
        }
    }

    fn signal(&self, job: JobKey, signal: i32) {
        let Some(live) = self.job(job).filter(|live| !live.over.get()) else { return };
        if let Err(error) = self.keeper.kill(live.pad, signal) {
            tracing::error!(%job, signal, %error, "a signal was not sent");
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
        if self.jobs.borrow_mut().remove(&job).is_some() {
            remove_in_background(self.job_directory(job));
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

    fn close_pmi(&self, job: JobKey, rank: Rank) {
        if let Some(streams) = self.streams(job, rank) {
            streams.close_pmi();
        }
    }

    async fn next_event(&self) -> HostEvent {
        let mut sources = self.sources.lock().await;
        let Sources { keeper, local, keeper_ended } = &mut *sources;
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
                // `self` holds a sender: there is always something to wait for.
                else => std::future::pending().await,
            }
        }
    }

    async fn leave(&self) {
        let gone = self.keeper_left.notified();
        if !self.keeper_gone.get() && self.keeper.shutdown().is_ok() {
            // Past the limit nothing is left to try: the kernel ends them with us.
            let _ = tokio::time::timeout(KEEPER_TIMEOUT, gone).await;
        }
        let (dir, keep_cache, cache) =
            (self.config.dir.clone(), self.config.keep_cache, self.cache.clone());
        if let Err(error) = fs::remove_dir_all(dir.join("jobs")) {
            tracing::warn!(%error, "the directories of jobs are not all removed");
        }
        if !keep_cache && let Err(error) = cache.remove() {
            tracing::warn!(%error, "the file cache is not removed");
        }
        // Not ours alone when something else is in it.
        let _ = fs::remove_dir(&dir);
    }
}

impl LiveHost {
    fn freezers(&self, keys: &[JobKey]) -> Vec<Arc<Freezer>> {
        let jobs = self.jobs.borrow();
        let live = keys.iter().filter_map(|key| jobs.get(key)).filter(|job| !job.over.get());
        live.map(|job| job.freezer.clone()).collect()
    }
}

/// `dir` and `dir/jobs`, through which users pass to their own; what a crashed
/// daemon left of its jobs is removed.
fn prepare_directory(dir: &Path) -> Result<(), AttachError> {
    let jobs = dir.join("jobs");
    let prepare = || {
        fs::create_dir_all(dir)?;
        job_directory::remove(&jobs)?;
        fs::create_dir(&jobs)?;
        for path in [dir, &jobs] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
        }
        Ok(())
    };
    prepare().map_err(|source| AttachError::Directory { path: dir.to_owned(), source })
}

fn remove_in_background(directory: PathBuf) {
    let removal = spawn_blocking(move || {
        if let Err(error) = job_directory::remove(&directory) {
            let path = directory.display();
            tracing::warn!(%path, %error, "the directory of a job is not removed");
        }
    });
    drop(removal);
}

fn rank_exit(rank: Rank, status: ExitStatus, usage: Usage) -> RankExit {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let status = match status {
        ExitStatus::Code(code) => storm_rm::message::ExitStatus::Code(code),
        ExitStatus::Signal { signal, .. } => storm_rm::message::ExitStatus::Signal(signal),
    };
    RankExit {
        rank,
        status,
        user_us: micros(usage.user),
        system_us: micros(usage.system),
        max_rss_kib: usage.max_rss_kib,
    }
}
