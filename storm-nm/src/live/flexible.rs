//! Flexible coscheduling on a real node (A5 of the policy reference): which ranks have their slot to
//! themselves, which go first in it, and which run where nobody does
//! ([decision 0103](../../../docs/decisions/0103-classes-of-flexible-coscheduling.md)).
//!
//! A job of which all ranks here need coscheduling (CS) is stopped out of its slot, as under gang
//! scheduling. Of others those that go first (F in their slot, CS) are ordinary processes, and the
//! rest are behind all ordinary ones (SCHED_IDLE): they run where those sleep. A thread looks at the
//! edges of slots at what each rank has done, and does to ranks what that asks for; nobody waits for
//! it. Who ends a slot only stops jobs and resumes them: out of its slot a job runs only from when
//! its ranks are behind others.

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

/// What keeps slots, from the first job that asks for it.
#[derive(Debug)]
pub(super) struct Flexible {
    shared: Arc<Shared>,
    /// Ranks up to which each has a processor of this host.
    cores: usize,
    /// By what ranks are judged.
    rules: ClassRules,
    /// Of the thread that watches, if it is to be a real-time one.
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
    /// Jobs that are watched no more, of which ranks are still behind others.
    former: Vec<Former>,
    /// How many jobs were watched.
    watched: u64,
    /// Switches that were asked for and may not have been done: nobody else stops or resumes.
    switching: u32,
    over: bool,
}

/// A job that is watched no more.
#[derive(Debug)]
struct Former {
    job: Job,
    /// It goes on, and is told to wait as it would by itself.
    goes_on: bool,
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
    /// Another number whenever it is watched anew.
    number: u64,
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
    /// There is no other job that could run where they do not: nobody is put behind the rest of the host for nothing.
    alone: bool,
    /// How often its ranks were looked at.
    looks: u32,
    frozen: bool,
    /// Ranks that are behind all ordinary processes.
    behind: BTreeSet<Rank>,
    /// What each was told of how to wait.
    ways: BTreeMap<Rank, Way>,
    /// Ranks to which either was done, or is being done.
    touched: BTreeSet<Rank>,
}

/// What a switch comes to. It is taken to be done when this is dropped.
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

    /// Ranks are judged by these rules.
    pub(super) fn judging_by(mut self, rules: ClassRules) -> Flexible {
        self.rules = rules;
        self
    }

    /// Its thread is a real-time thread behind those of this priority, if one is given.
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

    /// The ranks of a job are watched, and its slots are kept for those that need them.
    pub(super) fn watch(&self, job: &LiveJob, names: &NodeNames) {
        let task = &job.task;
        // One that is over here has none.
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
                // The next job tries again.
                Err(error) => tracing::error!(%error, "all ranks are taken for CS on this node"),
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

    /// The job is over, or about to be ended: none of it is behind others for long, where it would
    /// take its time to end.
    pub(super) fn forget(&self, job: JobKey) {
        let mut state = self.shared.lock();
        if let Some(former) = state.remove(job) {
            state.leave(former, false);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// All jobs are about to be ended.
    pub(super) fn forget_all(&self) {
        let mut state = self.shared.lock();
        for former in std::mem::take(&mut state.jobs).into_values() {
            state.leave(former, false);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Its slots are kept no more: its ranks are ordinary processes soon, which are stopped as before
    /// or not at all.
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

    /// It runs in these rows from now on.
    pub(super) fn set_rows(&self, job: JobKey, rows: RowSet) {
        let mut state = self.shared.settled();
        if let Some(watched) = state.jobs.get_mut(&job) {
            watched.suspended = rows == RowSet::NONE;
            watched.apply();
        }
        drop(state);
        self.shared.changed.notify_all();
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
    /// Slots end and begin: which jobs are to be stopped and resumed for that. What ranks are to be
    /// before others or behind them is seen to after the switch.
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
        // Each change is of one job at a time: the others are whole whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until the end.
    fn rest(&self, time: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), time, |state| !state.over));
    }

    /// While no switch is under way, which might stop who is resumed here, or resume who is stopped.
    fn settled(&self) -> MutexGuard<'_, State> {
        let settled = self.changed.wait_while(self.lock(), |state| state.switching > 0);
        settled.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Watches another job. One that was alone is stopped where it runs in nobody's slot: it may run there again once
    /// it is behind others. No switch is under way.
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
    /// Its slot begins or ends; whether it is to be stopped (true) or resumed for that, if either. The end of a slot
    /// may resume it: one that was stopped before, as slices that are late are one, and of which a rank has ended
    /// that alone kept the others from running behind everybody. Who is stopped is so before anybody is resumed.
    fn turn(&mut self, at: Duration, begins: bool) -> Option<bool> {
        self.in_slot = begins;
        if self.edge.replace(Edge::of(at, begins)).is_some() {
            self.classes.slot_lost();
        }
        let frozen = self.is_to_be_frozen();
        (std::mem::replace(&mut self.frozen, frozen) != frozen).then_some(frozen)
    }

    /// Stops or resumes it, if that is asked for in the midst of a slot. No switch is under way.
    fn apply(&mut self) {
        let frozen = self.is_to_be_frozen();
        if frozen != self.frozen {
            self.freeze(frozen);
        }
    }

    /// Out of its slot nobody of it may run who needs the others; one that does among others that do
    /// not runs with them, behind all ordinary processes, from when all are there.
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

    /// Whether a rank is to be behind others, and how it is to wait.
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

    /// Where the page of its ranks has a rank.
    fn place(&self, rank: Rank) -> usize {
        rank.0.saturating_sub(self.first.0) as usize
    }
}

/// The clock that ranks tell their waits by.
fn now() -> Duration {
    monotonic_now().unwrap_or_default()
}
