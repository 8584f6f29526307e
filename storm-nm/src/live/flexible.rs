//! Flexible coscheduling on a real node (A5 of the policy reference): which ranks have their slot to
//! themselves, which go first in it, and which run where nobody does
//! ([decision 0103](../../../docs/decisions/0103-classes-of-flexible-coscheduling.md)).
//!
//! A job of which all ranks here need coscheduling (CS) is stopped out of its slot, as under gang
//! scheduling. Of others those that go first (F in their slot, CS) are ordinary processes, and the
//! rest are behind all ordinary ones (SCHED_IDLE): they run where those sleep. A thread looks at the
//! edges of slots at what each rank has done, and nobody waits for it.

mod watcher;

use super::live_job::LiveJob;
use crate::classes::ClassRules;
use crate::environment::{NodeNames, ranks_on_host};
use crate::job_classes::JobClasses;
use crate::{HostEvent, JobKey};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storm_mpi::page::{RankPage, Way, monotonic_now};
use storm_pl::Freezer;
use storm_pl::boost::{self, Process};
use storm_rm::{ProcessClass, Rank, RankClass, RowSet};
use tokio::sync::mpsc;

/// What keeps slots, from the first job that asks for it.
#[derive(Debug)]
pub(super) struct Flexible {
    shared: Arc<Shared>,
    /// Ranks up to which each has a processor of this host.
    cores: usize,
    started: Cell<bool>,
    permitted: OnceCell<bool>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    events: mpsc::Sender<HostEvent>,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobKey, Job>,
    over: bool,
}

/// An edge of a slot that nobody has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    at: Duration,
    kind: EdgeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeKind {
    Begins,
    Ends,
    /// A part of a long slot ends, and the next one begins.
    Part,
}

impl Edge {
    fn of(at: Duration, in_slot: bool) -> Edge {
        Edge { at, kind: if in_slot { EdgeKind::Begins } else { EdgeKind::Ends } }
    }
}

/// A job under flexible coscheduling.
#[derive(Debug)]
struct Job {
    page: Option<Arc<RankPage>>,
    freezer: Arc<Freezer>,
    first: Rank,
    ranks: BTreeMap<Rank, Arc<Process>>,
    classes: JobClasses,
    edge: Option<Edge>,
    in_slot: bool,
    /// It is to run in nobody's slot.
    suspended: bool,
    /// Ranks with a slot to themselves may look for messages all the time.
    may_spin: bool,
    /// Ranks may run behind others; otherwise all are treated as CS.
    may_yield: bool,
    frozen: bool,
    /// Ranks that are behind all ordinary processes.
    behind: BTreeSet<Rank>,
    /// What each was told of how to wait.
    ways: BTreeMap<Rank, Way>,
}

/// What a switch comes to.
pub(super) struct Turned {
    /// Jobs to stop.
    pub(super) stop: Vec<JobKey>,
    /// Jobs to resume.
    pub(super) resume: Vec<JobKey>,
}

impl Flexible {
    pub(super) fn new(cores: usize, events: mpsc::Sender<HostEvent>) -> Flexible {
        let (state, changed) = Default::default();
        Flexible {
            shared: Arc::new(Shared { state, changed, events }),
            cores,
            started: Cell::new(false),
            permitted: OnceCell::new(),
        }
    }

    fn permitted(&self) -> bool {
        *self.permitted.get_or_init(|| {
            let permitted = boost::permitted();
            if let Err(why) = &permitted {
                tracing::warn!(%why, "fcs is gang here: ranks cannot be put behind others and back");
            }
            permitted.is_ok()
        })
    }

    /// The ranks of a job are watched, and its slots are kept for those that need them.
    pub(super) fn watch(&self, job: &LiveJob, names: &NodeNames) {
        let task = &job.task;
        let classes = JobClasses::new(ClassRules::default(), task.ranks(), now());
        let ranks = job.processes.borrow().clone();
        let watched = Job {
            page: job.page.clone(),
            freezer: job.freezer.clone(),
            first: task.first,
            ranks,
            classes,
            edge: Some(Edge::of(now(), !job.stopped.get())),
            in_slot: !job.stopped.get(),
            suspended: false,
            may_spin: ranks_on_host(task, names) as usize <= self.cores,
            may_yield: self.permitted(),
            frozen: job.stopped.get(),
            behind: BTreeSet::new(),
            ways: BTreeMap::new(),
        };
        self.shared.lock().jobs.insert(task.key(), watched);
        if !self.started.replace(true) {
            let shared = self.shared.clone();
            let named = std::thread::Builder::new().name("storm-fcs".to_owned());
            if let Err(error) = named.spawn(move || watcher::watch(&shared)) {
                tracing::error!(%error, "all ranks are taken for CS on this node");
            }
        }
        self.shared.changed.notify_all();
    }

    /// Whether they are.
    pub(super) fn watches(&self, job: JobKey) -> bool {
        self.shared.lock().jobs.contains_key(&job)
    }

    /// A rank of it has started.
    pub(super) fn started(&self, job: JobKey, rank: Rank, process: Arc<Process>) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.insert(rank, process);
        }
    }

    /// A rank of it has ended.
    pub(super) fn ended(&self, job: JobKey, rank: Rank) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.remove(&rank);
            watched.behind.remove(&rank);
            watched.classes.ended(rank);
        }
    }

    /// The job is over.
    pub(super) fn forget(&self, job: JobKey) {
        self.shared.lock().jobs.remove(&job);
    }

    /// Its slots are kept no more: its ranks are ordinary processes, which are stopped as before or not
    /// at all.
    pub(super) fn unwatch(&self, job: JobKey) {
        let Some(mut former) = self.shared.lock().jobs.remove(&job) else { return };
        for rank in std::mem::take(&mut former.behind) {
            former.put(rank, false);
        }
        for rank in former.ways.keys().copied().collect::<Vec<_>>() {
            former.tell(rank, Way::Own);
        }
        if former.frozen == former.in_slot {
            former.freeze(!former.in_slot);
        }
    }

    /// It runs in these rows from now on.
    pub(super) fn set_rows(&self, job: JobKey, rows: RowSet) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.suspended = rows == RowSet::NONE;
            watched.apply();
        }
    }

    /// What begins slots.
    pub(super) fn turns(&self) -> Turns {
        Turns(self.shared.clone())
    }

    /// What the ranks of a job are taken for.
    pub(super) fn classes(&self, job: JobKey) -> Vec<RankClass> {
        let state = self.shared.lock();
        state.jobs.get(&job).map(|job| job.classes.report(now())).unwrap_or_default()
    }
}

/// What begins slots, for whichever thread does.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Shared>);

impl Turns {
    /// Slots end and begin: puts ranks before others and behind them, and says which jobs are to be
    /// stopped and resumed.
    pub(super) fn turn(&self, stop: &[JobKey], resume: &[JobKey]) -> Turned {
        let mut state = self.0.lock();
        let mut turned = Turned { stop: stop.to_vec(), resume: resume.to_vec() };
        if state.jobs.is_empty() {
            return turned;
        }
        let at = now();
        for (keys, begins) in [(&mut turned.stop, false), (&mut turned.resume, true)] {
            keys.retain(|key| state.jobs.get_mut(key).is_none_or(|job| job.turn(at, begins)));
        }
        drop(state);
        self.0.changed.notify_all();
        turned
    }
}

impl Drop for Flexible {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is of one job at a time: the others are whole whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Its slot begins or ends; whether it is to be stopped or resumed for that. Who is stopped is so
    /// before anybody is resumed.
    fn turn(&mut self, at: Duration, begins: bool) -> bool {
        self.in_slot = begins;
        if self.edge.replace(Edge::of(at, begins)).is_some() {
            self.classes.slot_lost();
        }
        self.rank();
        let frozen = self.is_to_be_frozen();
        std::mem::replace(&mut self.frozen, frozen) != frozen
    }

    /// Does what classes ask for, in the midst of a slot.
    fn apply(&mut self) {
        self.rank();
        let frozen = self.is_to_be_frozen();
        if frozen != self.frozen {
            self.freeze(frozen);
        }
    }

    /// Out of its slot nobody of it may run who needs the others; one that does among others that do
    /// not runs with them, behind all ordinary processes.
    fn is_to_be_frozen(&self) -> bool {
        self.suspended || (!self.in_slot && (self.classes.all_need() || !self.may_yield))
    }

    fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
        let done = if frozen { self.freezer.stop() } else { self.freezer.resume() };
        if let Err(error) = done {
            tracing::warn!(
                error = crate::reason::explain(&error),
                "a job was not stopped or resumed"
            );
        }
    }

    /// Puts each rank before others or behind them, and tells it how to wait.
    fn rank(&mut self) {
        if !self.may_yield {
            return;
        }
        let mixed = !self.classes.all_need();
        for rank in self.ranks.keys().copied().collect::<Vec<_>>() {
            let class = self.classes.class(rank);
            let needs = class == ProcessClass::NeedsCoscheduling;
            let behind = match class {
                ProcessClass::NeedsCoscheduling => mixed && !self.in_slot,
                ProcessClass::Frustrated => !self.in_slot,
                ProcessClass::DontCare => true,
            };
            if self.behind.contains(&rank) != behind {
                self.put(rank, behind);
            }
            let way = match (needs && !behind, self.may_spin) {
                (true, true) => Way::Spin,
                (true, false) => Way::Own,
                (false, _) => Way::SpinBlock,
            };
            if self.ways.get(&rank) != Some(&way) {
                self.tell(rank, way);
            }
        }
    }

    fn put(&mut self, rank: Rank, behind: bool) {
        let Some(process) = self.ranks.get(&rank) else { return };
        match process.set_background(behind) {
            Ok(()) if behind => drop(self.behind.insert(rank)),
            Ok(()) => drop(self.behind.remove(&rank)),
            // It has just ended.
            Err(error) => tracing::debug!(%rank, %error, "a rank is where it was"),
        }
    }

    fn tell(&mut self, rank: Rank, way: Way) {
        let place = rank.0.saturating_sub(self.first.0) as usize;
        if let Some(page) = &self.page
            && page.tell(place, way).is_ok()
        {
            self.ways.insert(rank, way);
        }
    }
}

/// The clock that ranks tell their waits by.
fn now() -> Duration {
    monotonic_now().unwrap_or_default()
}
