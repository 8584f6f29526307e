//! Flexible coscheduling on a real node (A5 of the policy reference). The policy decides which
//! ranks have their slot to themselves, which run first in it, and which run when no other process
//! does ([decision 0103](../../../docs/decisions/0103-classes-of-flexible-coscheduling.md)).
//!
//! A job whose ranks here all need coscheduling (CS) is stopped out of its slot, as under gang
//! scheduling. In other jobs, ranks that run first (CS, and F in their slot) are ordinary
//! processes. The other ranks are behind all ordinary processes (SCHED_IDLE) and run while those
//! sleep.
//!
//! At the edges of slots, a thread checks what each rank has done, and then changes the ranks
//! accordingly. No other thread waits for this thread. The thread that ends a slot only stops and
//! resumes jobs. A job therefore runs out of its slot only once its ranks are behind others.

mod chores;
#[cfg(test)]
mod races;
#[cfg(test)]
mod tests;
mod watcher;

use super::live_job::LiveJob;
use crate::classes::ClassRules;
use crate::environment::{NodeNames, ranks_on_host};
use crate::job_classes::JobClasses;
use crate::{HostEvent, JobKey};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storm_mpi::page::{RankPage, Way, monotonic_now};
use storm_pl::Freezer;
use storm_pl::boost::{self, Process};
use storm_rm::{ProcessClass, Rank, RankClass, RowSet};
use tokio::sync::mpsc;

/// Keeps slots, from the first job that requests it.
#[derive(Debug)]
pub(super) struct Flexible {
    shared: Arc<Shared>,
    /// The number of cores: up to so many ranks have a processor each.
    cores: usize,
    /// The rules by which ranks are judged.
    rules: ClassRules,
    /// The priority of the watching thread, if it is to be a real-time thread.
    priority: Option<u8>,
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
    /// Jobs that are no longer watched and still have ranks behind others.
    former: Vec<Former>,
    /// How many jobs were watched.
    watched: u64,
    /// Switches that were ordered and may not be done. Until these switches are done, no other
    /// thread stops or resumes jobs.
    switching: u32,
    over: bool,
}

/// A job that is no longer watched.
#[derive(Debug)]
struct Former {
    job: Job,
    /// Whether the job continues. If so, the job's ranks are then ordered to wait in their own way.
    goes_on: bool,
}

/// An edge of a slot that the thread has not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    at: Duration,
    kind: EdgeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeKind {
    Begins,
    Ends,
    /// A part of a long slot ends, and the next part begins.
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
    /// A number that changes whenever the job is watched anew.
    number: u64,
    page: Option<Arc<RankPage>>,
    freezer: Arc<Freezer>,
    first: Rank,
    ranks: BTreeMap<Rank, Arc<Process>>,
    classes: JobClasses,
    edge: Option<Edge>,
    in_slot: bool,
    /// Whether the job must not run in any slot.
    suspended: bool,
    /// Whether ranks with a slot to themselves may poll for messages all the time.
    may_spin: bool,
    /// Whether ranks may run behind others. If not, all count as CS.
    may_yield: bool,
    /// Whether no other job could run while its ranks do not. The job's ranks then stay ordinary
    /// processes: to put them behind the rest of the host would help no job.
    alone: bool,
    /// How often its ranks were checked.
    looks: u32,
    frozen: bool,
    /// Ranks that are behind all ordinary processes.
    behind: BTreeSet<Rank>,
    /// The way of waiting that each rank was ordered to use.
    ways: BTreeMap<Rank, Way>,
    /// Ranks that were put behind others or got a way of waiting, or are about to.
    touched: BTreeSet<Rank>,
}

/// The result of a switch. The switch counts as done when this value is dropped.
pub(super) struct Turned<'a> {
    /// Jobs to stop.
    pub(super) stop: Cow<'a, [JobKey]>,
    /// Jobs to resume.
    pub(super) resume: Cow<'a, [JobKey]>,
    _switching: Option<Switching>,
}

/// A switch is under way.
struct Switching(Arc<Shared>);

impl Drop for Switching {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.switching = state.switching.saturating_sub(1);
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Flexible {
    pub(super) fn new(cores: usize, events: mpsc::Sender<HostEvent>) -> Flexible {
        let (state, changed) = Default::default();
        Flexible {
            shared: Arc::new(Shared { state, changed, events }),
            cores,
            rules: ClassRules::default(),
            priority: None,
            started: Cell::new(false),
            permitted: OnceCell::new(),
        }
    }

    /// Sets the rules by which ranks are judged.
    pub(super) fn judging_by(mut self, rules: ClassRules) -> Flexible {
        self.rules = rules;
        self
    }

    /// Makes the thread a real-time thread behind those of this priority, if there is any.
    pub(super) fn after(mut self, priority: Option<u8>) -> Flexible {
        self.priority = priority.map(|priority| priority.saturating_sub(1).max(1));
        self
    }

    fn permitted(&self) -> bool {
        *self.permitted.get_or_init(|| {
            let permitted = boost::background_permitted();
            if let Err(refused) = &permitted {
                let why = crate::reason::explain(refused);
                tracing::warn!(why, "fcs is gang here: ranks cannot be put behind others and back");
            }
            permitted.is_ok()
        })
    }

    /// Watches the ranks of a job, and keeps its slots for the ranks that need them.
    pub(super) fn watch(&self, job: &LiveJob, names: &NodeNames) {
        let task = &job.task;
        // A job that is over here has no freezer.
        let Some(freezer) = job.freezer.clone() else { return };
        let classes = JobClasses::new(self.rules, task.ranks(), now());
        let ranks = job.open_processes();
        let mut watched = Job {
            number: 0,
            page: job.page.clone(),
            freezer,
            first: task.first,
            ranks,
            classes,
            edge: Some(Edge::of(now(), !job.stopped.get())),
            in_slot: !job.stopped.get(),
            suspended: false,
            may_spin: ranks_on_host(task, names) as usize <= self.cores,
            may_yield: self.permitted(),
            alone: false,
            looks: 0,
            frozen: job.stopped.get(),
            behind: BTreeSet::new(),
            ways: BTreeMap::new(),
            touched: BTreeSet::new(),
        };
        let mut state = self.shared.settled();
        state.watched += 1;
        watched.number = state.watched;
        state.insert(task.key(), watched);
        drop(state);
        if !self.started.get() {
            let (shared, priority) = (self.shared.clone(), self.priority);
            let named = std::thread::Builder::new().name("storm-fcs".to_owned());
            match named.spawn(move || watcher::watch(&shared, priority)) {
                Ok(_) => self.started.set(true),
                // The next job starts the thread again.
                Err(error) => tracing::error!(%error, "all ranks are taken for CS on this node"),
            }
        }
        self.shared.changed.notify_all();
    }

    /// Whether the job is watched.
    pub(super) fn watches(&self, job: JobKey) -> bool {
        self.shared.lock().jobs.contains_key(&job)
    }

    /// Notes that a rank of the job has started.
    pub(super) fn started(&self, job: JobKey, rank: Rank, process: Arc<Process>) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.insert(rank, process);
        }
    }

    /// Notes that a rank of the job has ended.
    pub(super) fn ended(&self, job: JobKey, rank: Rank) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.remove(&rank);
            watched.behind.remove(&rank);
            watched.classes.ended(rank);
        }
    }

    /// Forgets a job that is over or about to be ended. The job's ranks become ordinary processes
    /// soon, since they would take long to end behind others.
    pub(super) fn forget(&self, job: JobKey) {
        let mut state = self.shared.lock();
        if let Some(former) = state.remove(job) {
            state.leave(former, false);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Forgets all jobs, which are about to be ended.
    pub(super) fn forget_all(&self) {
        let mut state = self.shared.lock();
        for former in std::mem::take(&mut state.jobs).into_values() {
            state.leave(former, false);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Stops keeping the job's slots. From now on the job runs only in its slot, and its ranks
    /// become ordinary processes soon.
    pub(super) fn unwatch(&self, job: JobKey) {
        let mut state = self.shared.settled();
        let Some(mut former) = state.remove(job) else { return };
        if former.frozen == former.in_slot {
            former.freeze(!former.in_slot);
        }
        state.leave(former, true);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Notes the rows that the job runs in from now on.
    pub(super) fn set_rows(&self, job: JobKey, rows: RowSet) {
        let mut state = self.shared.settled();
        if let Some(watched) = state.jobs.get_mut(&job) {
            watched.suspended = rows == RowSet::NONE;
            watched.apply();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// The handle that begins slots.
    pub(super) fn turns(&self) -> Turns {
        Turns(self.shared.clone())
    }

    /// The classes of the job's ranks.
    pub(super) fn classes(&self, job: JobKey) -> Vec<RankClass> {
        let state = self.shared.lock();
        state.jobs.get(&job).map(|job| job.classes.report(now())).unwrap_or_default()
    }
}

/// Begins slots, for any thread.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Shared>);

impl Turns {
    /// Ends the slots of the jobs in `stop` and begins those of the jobs in `resume`. Returns the
    /// jobs that must be stopped and resumed for it. After the switch, the watching thread puts
    /// ranks behind others or back.
    pub(super) fn turn<'a>(&self, stop: &'a [JobKey], resume: &'a [JobKey]) -> Turned<'a> {
        let mut state = self.0.lock();
        if state.jobs.is_empty() {
            let (stop, resume) = (Cow::Borrowed(stop), Cow::Borrowed(resume));
            return Turned { stop, resume, _switching: None };
        }
        let (at, all) = (now(), stop.len() + resume.len());
        let (mut to_stop, mut to_resume) = (Vec::with_capacity(all), Vec::with_capacity(all));
        for (keys, begins) in [(stop, false), (resume, true)] {
            for key in keys {
                let stops = match state.jobs.get_mut(key) {
                    None => Some(!begins),
                    Some(job) => job.turn(at, begins),
                };
                match stops {
                    Some(true) => to_stop.push(*key),
                    Some(false) => to_resume.push(*key),
                    None => {}
                }
            }
        }
        state.switching += 1;
        drop(state);
        let (stop, resume) = (Cow::Owned(to_stop), Cow::Owned(to_resume));
        Turned { stop, resume, _switching: Some(Switching(self.0.clone())) }
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
        // Each change is about one job, so the other jobs are whole even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this time, or until the end.
    fn rest(&self, time: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), time, |state| !state.over));
    }

    /// Locks the state once no switch is under way. A switch could stop a job that is resumed here,
    /// or resume a job that is stopped here.
    fn settled(&self) -> MutexGuard<'_, State> {
        let settled = self.changed.wait_while(self.lock(), |state| state.switching > 0);
        settled.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Watches another job. A job that was alone and runs out of its slot is stopped. The job may
    /// run there again once it is behind others. No switch may be under way.
    fn insert(&mut self, key: JobKey, job: Job) {
        self.jobs.insert(key, job);
        self.see_who_is_alone();
        self.jobs.values_mut().for_each(Job::apply);
    }

    fn remove(&mut self, job: JobKey) -> Option<Job> {
        let removed = self.jobs.remove(&job);
        self.see_who_is_alone();
        removed
    }

    fn see_who_is_alone(&mut self) {
        let alone = self.jobs.len() == 1;
        self.jobs.values_mut().for_each(|job| job.alone = alone);
    }

    fn leave(&mut self, job: Job, goes_on: bool) {
        if !job.touched.is_empty() {
            self.former.push(Former { job, goes_on });
        }
    }
}

impl Job {
    /// Begins or ends the job's slot. Returns whether the job must be stopped (true) or resumed
    /// (false), if either. Every job to stop is stopped before any is resumed.
    ///
    /// The end of a slot may resume a job, since late slices count as one and a slot may end twice.
    /// The job was stopped at the first end, because one rank was not behind others. If this rank
    /// has ended since, the job runs.
    fn turn(&mut self, at: Duration, begins: bool) -> Option<bool> {
        self.in_slot = begins;
        if self.edge.replace(Edge::of(at, begins)).is_some() {
            self.classes.slot_lost();
        }
        let frozen = self.is_to_be_frozen();
        (std::mem::replace(&mut self.frozen, frozen) != frozen).then_some(frozen)
    }

    /// Stops or resumes the job in the middle of a slot, if it must be. No switch may be under way.
    fn apply(&mut self) {
        let frozen = self.is_to_be_frozen();
        if frozen != self.frozen {
            self.freeze(frozen);
        }
    }

    /// Whether the job must be stopped. In its slot it runs, unless it is suspended. Out of its
    /// slot, it is stopped if all its ranks need coscheduling, or if its ranks may not run behind
    /// others. Any other job runs there if it is alone, or once all its ranks are behind all
    /// ordinary processes.
    fn is_to_be_frozen(&self) -> bool {
        let are_behind = || self.ranks.keys().all(|rank| self.behind.contains(rank));
        let yields = || self.may_yield && !self.classes.all_need() && (self.alone || are_behind());
        self.suspended || !(self.in_slot || yields())
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

    /// Whether the rank must be behind others, and how it must wait.
    fn wanted(&self, rank: Rank) -> (bool, Way) {
        if !self.may_yield {
            return (false, Way::Own);
        }
        let class = self.classes.class(rank);
        let needs = class == ProcessClass::NeedsCoscheduling;
        let behind = match class {
            ProcessClass::NeedsCoscheduling => !self.in_slot && !self.classes.all_need(),
            ProcessClass::Frustrated => !self.in_slot,
            ProcessClass::DontCare => true,
        };
        let behind = behind && !self.alone;
        let way = match (needs && !behind, self.may_spin) {
            (true, true) => Way::Spin,
            (true, false) => Way::Own,
            (false, _) => Way::SpinBlock,
        };
        (behind, way)
    }

    /// The place of a rank in the page.
    fn place(&self, rank: Rank) -> usize {
        rank.0.saturating_sub(self.first.0) as usize
    }
}

/// The clock by which ranks report their waits.
fn now() -> Duration {
    monotonic_now().unwrap_or_default()
}
