//! A real node: its keeper, its pads, its cache, its jobs.

mod events;
mod host;
mod inheriting;
mod start_rank;

use super::booster::Booster;
use super::cache::{Cache, CacheError};
use super::cores::Cores;
use super::descriptors::places_ahead;
use super::flexible::Flexible;
use super::launch_plan::{PmixStart, job_contents, launch_spec, program_path};
use super::live_job::LiveJob;
use super::pad_pool::PadPool;
use super::rank_streams::RankStreams;
use super::shared_files::SharedFiles;
use super::shared_memory::SharedMemory;
use super::switcher::Switcher;
use super::{LiveConfig, LiveKeeper, job_directory};
use crate::environment::{NodeNames, boosted_waiting, implicit_waiting};
use crate::leases::Leases;
use crate::{Host, HostEvent, Inherited, JobKey, JobTask, LaunchRefused};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use storm_mpi::Thresholds;
use storm_mpi::page::{self, RankPage};
use storm_pl::{
    DescriptorLimit, Freezer, KeeperEvents, KeeperHandle, MemoryUnlimited, PadId, PlaceFailure,
    PlaceId,
};
use storm_primitives::NodeId;
use storm_rm::{Binding, Coscheduling, Owner, Rank};
use thiserror::Error;
use tokio::sync::{Mutex, Notify, OnceCell, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Interval, MissedTickBehavior};

/// PMI lines and refusals that wait for the node manager; ranks wait behind them.
const EVENTS_MAX: usize = 256;
/// How long the keeper is given to end everything that it keeps.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(5);
/// How many pings in a row the keeper may leave unanswered. A single unanswered ping proves
/// nothing: its answer may have arrived and not been read yet.
const PINGS_UNANSWERED_MAX: u32 = 4;
const SIGKILL: i32 = 9;
/// The page in which ranks report what they do, in the job's directory.
const PAGE_FILE: &str = ".storm-ranks";

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
    /// The kernel does not report where this process may run.
    #[error("the cores of this node are not known")]
    Cores(#[source] io::Error),
}

/// A real node.
pub struct LiveHost {
    config: LiveConfig,
    capabilities: Vec<String>,
    /// Whether jobs can be held to the memory that they request.
    memory: Result<(), MemoryUnlimited>,
    /// Whether the missing limit was reported, which happens once.
    told_of_memory: Cell<bool>,
    /// This node's number in the network.
    node: Cell<NodeId>,
    keeper: KeeperHandle,
    sources: Mutex<Sources>,
    /// Leads to [`Sources::local`].
    events: mpsc::Sender<HostEvent>,
    pads: Rc<PadPool>,
    cache: Cache,
    cores: Cores,
    jobs: Rc<RefCell<BTreeMap<JobKey, Rc<LiveJob>>>>,
    leases: RefCell<Leases>,
    by_pad: RefCell<BTreeMap<PadId, JobKey>>,
    places: RefCell<BTreeMap<PlaceId, oneshot::Sender<Result<(), PlaceFailure>>>>,
    read_buffer: RefCell<Vec<u8>>,
    shared_memory: SharedMemory,
    /// The jobs of a former node manager, until the present node manager inherits them.
    inherited: Cell<Vec<Inherited>>,
    /// Whether users of this host reach the manager by the node's relay.
    relays: Cell<bool>,
    /// Whether the keeper continues without this node manager.
    survives: bool,
    /// Launches that were done and are not reported yet, as the keepers lack ranks of their jobs.
    untold: RefCell<Vec<(PadId, HostEvent)>>,
    /// Jobs that were launched and whose ledgers do not record the launch yet, as keepers lack
    /// ranks.
    unnoted: RefCell<Vec<JobKey>>,
    keeper_gone: Cell<bool>,
    keeper_left: Notify,
    /// Begins the slices that were ordered ahead.
    switcher: Switcher,
    /// Boosts ranks under policies that do so.
    booster: Booster,
    /// Keeps slots under flexible coscheduling.
    flexible: Flexible,
    /// How long messages take here, once it was measured.
    thresholds: OnceCell<Thresholds>,
}

/// The sources of events.
struct Sources {
    keeper: KeeperEvents,
    local: mpsc::Receiver<HostEvent>,
    keeper_ended: bool,
    /// When the keeper is pinged.
    pings: Interval,
}

impl LiveHost {
    /// Attaches a keeper to the tokio runtime that the caller runs in, opens the cache and requests
    /// the first pads.
    ///
    /// # Errors
    /// [`AttachError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub fn attach(keeper: LiveKeeper, config: LiveConfig) -> Result<LiveHost, AttachError> {
        let LiveKeeper { keeper, jobs: left } = keeper;
        let survives = keeper.survives();
        let memory = keeper.limits_memory();
        let limits = match &memory {
            Ok(()) => "jobs are held to the memory that they ask for".to_owned(),
            Err(why) => why.to_string(),
        };
        let capabilities = vec![keeper.capabilities().to_string(), limits];
        let (left, unusable) = inheriting::open(left);
        let kept: BTreeSet<JobKey> = left.iter().map(|(job, _)| job.key()).collect();
        prepare_directory(&config.dir, &kept)?;
        let at = |path: PathBuf| move |source| AttachError::Directory { path, source };
        let shared_memory = SharedMemory::of(&config.dir);
        shared_memory.remove_all_but(&kept);
        let cache_path = config.dir.join("cache");
        let cache = Cache::open(cache_path.clone(), config.cache_bytes)
            .map_err(CacheError::into_io)
            .map_err(at(cache_path))?;
        tracing::info!(bytes = cache.capacity_bytes(), "the file cache has room");
        let (keeper, keeper_events) = keeper.into_async().map_err(AttachError::Keeper)?;
        let ahead = places_ahead(DescriptorLimit::of_this_process(), config.pes, config.pads);
        let pads = PadPool::new(keeper.clone(), ahead, config.pads_max);
        let (events, local) = mpsc::channel(EVENTS_MAX);
        let pings = pings(config.keeper_timeout);
        let cores = Cores::of_this_process().map_err(|error| AttachError::Cores(error.into()))?;
        let flexible = Flexible::new(cores.count(), events.clone())
            .judging_by(config.class_rules)
            .after(config.realtime_priority);
        let host = LiveHost {
            capabilities,
            memory,
            told_of_memory: Cell::new(false),
            node: Cell::new(NodeId::MM),
            pads: Rc::new(pads.map_err(AttachError::Keeper)?),
            keeper,
            sources: Mutex::new(Sources {
                keeper: keeper_events,
                local,
                keeper_ended: false,
                pings,
            }),
            events,
            cache,
            switcher: Switcher::new(config.realtime_priority, flexible.turns()),
            flexible,
            // No more ranks of a job run here at once than there are elements.
            booster: Booster::new(config.boost_period, cores.count().min(config.pes.into())),
            cores,
            jobs: Rc::default(),
            leases: RefCell::default(),
            by_pad: RefCell::default(),
            places: RefCell::default(),
            read_buffer: RefCell::default(),
            shared_memory,
            inherited: Cell::default(),
            relays: Cell::new(false),
            survives,
            untold: RefCell::default(),
            unnoted: RefCell::default(),
            keeper_gone: Cell::new(false),
            keeper_left: Notify::new(),
            thresholds: OnceCell::new(),
            config,
        };
        host.take_over(left, unusable);
        Ok(host)
    }

    /// Notes this node's number in the network, which its ranks receive.
    pub fn joined_as(&self, node: NodeId) {
        self.node.set(node);
    }

    /// Returns a check of whether there are jobs on this node.
    pub(super) fn has_jobs(&self) -> impl Fn() -> bool + use<> {
        let jobs = self.jobs.clone();
        move || !jobs.borrow().is_empty()
    }

    fn job(&self, key: JobKey) -> Option<Rc<LiveJob>> {
        self.jobs.borrow().get(&key).cloned()
    }

    fn streams(&self, key: JobKey, rank: Rank) -> Option<Rc<RankStreams>> {
        self.job(key)?.streams_of(rank)
    }

    fn job_directory(&self, key: JobKey) -> PathBuf {
        self.config.dir.join("jobs").join(key.file_name())
    }

    async fn try_prepare(&self, task: &Rc<JobTask>) -> Result<LiveJob, LaunchRefused> {
        let (owner, directory) = (task.spec().owner, self.job_directory(task.key()));
        let laid_out = self.lay_out(task, directory.clone()).await;
        job_contents(task.spec()).for_each(|file| self.cache.linked(owner, file.hash));
        let credentials = laid_out?;
        let mut waiting = self.waiting(task).await;
        // Each change is one assignment, so the list is whole even after a panic.
        let of_network = self.config.network_variables.lock();
        waiting.extend(of_network.unwrap_or_else(PoisonError::into_inner).iter().cloned());
        let page = self.watch(task, &directory);
        let told = directory.join(PAGE_FILE).to_str().map(str::to_owned);
        waiting.extend(page.as_ref().and(told).map(|path| (page::VARIABLE, path)));
        let program =
            program_path(task, &directory).map_err(|error| LaunchRefused::because(&error))?;
        let shared = self.shared_memory.path(task.key());
        let starter = self.config.pmix.as_ref().map(|starter| PmixStart {
            starter,
            shared_memory: &shared,
            cpus: self.cores.processors(),
        });
        let relay = self.config.relay.as_ref().filter(|_| self.relays.get());
        let relay = relay.map(|relay| relay.socket.as_path());
        let names = self.names();
        let spec =
            launch_spec(task, (program.clone(), &directory), &names, (credentials, relay), starter);
        let user = (&spec.credentials, &*spec.limits);
        let shared_files = SharedFiles::make(task, &names, user)
            .map_err(|error| LaunchRefused::because(&error))?;
        let spec = spec.encode().map_err(|error| LaunchRefused::because(&error))?;
        let ranks = u16::try_from(task.count).unwrap_or(u16::MAX);
        let pad = self.pads.take(ranks).await.map_err(|error| LaunchRefused::because(&error))?;
        let Some(freezer) = self.keeper.freezer(pad) else {
            self.pads.lost(pad);
            let reason = "the place for the job is gone".to_owned();
            return Err(LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE });
        };
        let memory_limit_bytes = match self.limit_memory(task, pad) {
            Ok(limit) => limit,
            Err(error) => {
                self.pads.ready(pad);
                let reason = format!("its memory cannot be limited: {error}");
                return Err(LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE });
            }
        };
        Ok(LiveJob {
            memory_limit_bytes,
            memory_kills_before: memory_limit_bytes.map_or(0, |_| self.keeper.memory_kills(pad)),
            task: task.clone(),
            pad,
            freezer: Some(freezer),
            spec: Some(spec),
            shared_files,
            ledger: self.make_ledger(task, &program, (memory_limit_bytes, pad), page.is_some()),
            program,
            directory,
            streams: RefCell::default(),
            ranks: RefCell::default(),
            cpus: self.binding(task),
            waiting,
            page,
            processes: RefCell::default(),
            stopped: Cell::new(false),
            over: Cell::new(false),
        })
    }

    /// Makes the page in which the job's ranks report what they do. Only jobs that share processors
    /// get a page.
    fn watch(&self, task: &JobTask, directory: &Path) -> Option<Arc<RankPage>> {
        let coscheduling = task.launch.coscheduling;
        if coscheduling == Coscheduling::Strobed {
            return None;
        }
        let path = directory.join(PAGE_FILE);
        let made = RankPage::create(&path, task.count as usize).and_then(|page| {
            give_page(&page, task.spec().owner)?;
            Ok(Arc::new(page))
        });
        let boosts = coscheduling == Coscheduling::PeriodicBoost;
        match made {
            Ok(page) => {
                self.booster.watch(task.key(), page.clone(), boosts);
                Some(page)
            }
            Err(error) => {
                tracing::warn!(job = %task.key(), %error, "what its ranks do is not known here");
                None
            }
        }
    }

    fn names(&self) -> NodeNames {
        NodeNames {
            node: self.node.get(),
            name: self.config.name.clone(),
            address: self.config.address.clone(),
            pes: self.config.pes.into(),
            has_commands: self.config.script_commands.is_some(),
        }
    }

    /// The way in which the ranks of a job are ordered to wait. The first job that needs it has the
    /// messages measured.
    async fn waiting(&self, task: &JobTask) -> Vec<(&'static str, String)> {
        match task.launch.coscheduling {
            Coscheduling::PeriodicBoost if self.booster.permitted() => return boosted_waiting(),
            // A rank that polls all the time without a boost only takes time from others. Under
            // flexible coscheduling, the page holds each rank's way of waiting.
            Coscheduling::Strobed
            | Coscheduling::Local
            | Coscheduling::PeriodicBoost
            | Coscheduling::Flexible => {
                return Vec::new();
            }
            Coscheduling::Implicit => {}
        }
        let measured = self.thresholds.get_or_init(|| async {
            let measured = spawn_blocking(Thresholds::measure).await;
            let measured = measured.map_err(io::Error::from).and_then(|measured| measured);
            measured.unwrap_or_else(|error| {
                tracing::warn!(%error, "how long messages take here cannot be measured");
                Thresholds::default()
            })
        });
        implicit_waiting(measured.await)
    }

    /// Holds a job to the memory that it requested, if this node can.
    fn limit_memory(&self, task: &JobTask, pad: PadId) -> io::Result<Option<u64>> {
        let asked = task.spec().resources.memory_limit_bytes(task.room());
        match &self.memory {
            Ok(()) => self.keeper.limit_memory(pad, asked).map(|()| asked),
            Err(why) => {
                if asked.is_some() && !self.told_of_memory.replace(true) {
                    tracing::warn!(%why, "jobs are not held to the memory that they asked for");
                }
                Ok(None)
            }
        }
    }

    /// The processors that each rank of the job is bound to.
    fn binding(&self, task: &JobTask) -> Vec<Vec<u16>> {
        match task.spec().step.bind {
            Binding::None => Vec::new(),
            Binding::Core => {
                let nodes_before = self.node.get().0.saturating_sub(1) as usize;
                let start = nodes_before * usize::from(self.config.pes);
                let room = task.room().saturating_mul(task.spec().resources.cpus_per_task);
                let each = room / task.count;
                self.cores.bind(task.key(), task.launch.rows, (task.count, each), start)
            }
        }
    }

    /// Queues an event that this thread makes itself.
    fn tell(&self, event: HostEvent) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            // PMI lines fill the queue: wait behind them.
            let events = self.events.clone();
            tokio::task::spawn_local(async move {
                // The receiver exists as long as the host.
                let _ = events.send(event).await;
            });
        }
    }

    /// Waits until the keeper is gone, or until the time limit.
    async fn await_keeper(&self) {
        let gone = self.keeper_left.notified();
        // The keeper's events must be read. If no other task reads the events, this task does.
        let events = async {
            loop {
                self.next_event().await;
            }
        };
        let wait = async {
            tokio::select! {
                () = gone => {}
                () = events => {}
            }
        };
        // After the limit the caller sees that the keeper is still there.
        let _ = tokio::time::timeout(KEEPER_TIMEOUT, wait).await;
    }

    fn freezers(&self, keys: &[JobKey]) -> Vec<Arc<Freezer>> {
        let jobs = self.jobs.borrow();
        let live = keys.iter().filter_map(|key| jobs.get(key)).filter(|job| !job.over.get());
        live.filter_map(|job| job.freezer.clone()).collect()
    }

    /// Notes whether a job is stopped, even if the switch fails.
    fn note_stopped(&self, key: JobKey, stopped: bool) {
        if let Some(job) = self.jobs.borrow().get(&key) {
            job.stopped.set(stopped);
        }
    }

    /// Gives the pad back, for the keeper to clean.
    fn give_back(&self, key: JobKey, destroy: bool) {
        let Some(job) = self.job(key) else { return };
        if job.over.replace(true) {
            return;
        }
        self.leases.borrow_mut().forget(key);
        self.booster.forget(key);
        self.flexible.forget(key);
        job.ranks_ended();
        let told = if destroy { self.keeper.destroy(job.pad) } else { self.pads.vacate(job.pad) };
        if let Err(error) = told {
            tracing::error!(job = %key, %error, "the keeper does not end the job");
        }
    }
}

/// Pings the keeper so often that the unanswered pings take the timeout together.
fn pings(keeper_timeout: Duration) -> Interval {
    let period = (keeper_timeout / PINGS_UNANSWERED_MAX).max(Duration::from_millis(1));
    let mut pings = tokio::time::interval(period);
    // A host that stood still must not send all missed pings at once.
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// Makes `dir` and `dir/jobs`, through which users pass to their jobs' directories. Removes the
/// directories that a crashed daemon left, except those of jobs that continue.
fn prepare_directory(dir: &Path, kept: &BTreeSet<JobKey>) -> Result<(), AttachError> {
    let jobs = dir.join("jobs");
    let prepare = || {
        fs::create_dir_all(dir)?;
        if kept.is_empty() {
            job_directory::remove(&jobs)?;
            fs::create_dir(&jobs)?;
        }
        let kept: BTreeSet<String> = kept.iter().map(ToString::to_string).collect();
        for entry in fs::read_dir(&jobs)? {
            let entry = entry?;
            if !kept.contains(&*entry.file_name().to_string_lossy()) {
                job_directory::remove(&entry.path())?;
            }
        }
        for path in [dir, &jobs] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
        }
        Ok(())
    };
    prepare().map_err(|source| AttachError::Directory { path: dir.to_owned(), source })
}

/// Gives the page of a job's ranks to their user. Never uses the page's name, which may be another
/// file's by now: the page lies in the user's directory.
fn give_page(page: &RankPage, owner: Owner) -> io::Result<()> {
    if nix::unistd::geteuid().is_root() {
        page.give_to(owner.uid, owner.gid)?;
    }
    Ok(())
}

fn remove_in_background(directory: PathBuf, shared_memory: SharedMemory, job: JobKey) {
    let removal = spawn_blocking(move || {
        shared_memory.remove(job);
        if let Err(error) = job_directory::remove(&directory) {
            let path = directory.display();
            tracing::warn!(%path, %error, "the directory of a job is not removed");
        }
    });
    drop(removal);
}
