//! Periodic boost (Nagar et al., SPAA 1999; A6 of the policy reference). Each period, processes
//! that wait for a message which has arrived run before the others of their processor, in turn
//! (`boost_turns`).
//!
//! A separate thread makes these processes run first, in real time where the system permits it. The
//! ranks of our own message-passing library report in a page what they do. Only a process that this
//! node has started is ever boosted, and its descriptors are only inspected. A rank that lies gains
//! no more than a turn, as the others have theirs.

mod turns;

use crate::JobKey;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storm_mpi::page::RankPage;
use storm_pl::boost::{self, Process};

/// Boosts ranks, from the first job that requests it.
#[derive(Debug)]
pub(super) struct Booster {
    shared: Arc<Shared>,
    period: Duration,
    /// How many ranks are boosted at once: one for each core.
    at_once: usize,
    started: Cell<bool>,
    /// Whether the kernel lets this node boost, once that was checked.
    permitted: OnceCell<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobKey, Watched>,
    over: bool,
}

/// A job and its ranks.
#[derive(Clone, Debug)]
struct Watched {
    page: Arc<RankPage>,
    boosts: bool,
    ranks: BTreeMap<usize, Arc<Process>>,
}

impl Booster {
    pub(super) fn new(period: Duration, at_once: usize) -> Booster {
        Booster {
            shared: Arc::default(),
            period,
            at_once: at_once.max(1),
            started: Cell::new(false),
            permitted: OnceCell::new(),
        }
    }

    /// Whether this node can boost ranks.
    pub(super) fn permitted(&self) -> bool {
        *self.permitted.get_or_init(|| boost::permitted().is_ok())
    }

    /// Watches the page in which the ranks of a job report what they do.
    pub(super) fn watch(&self, job: JobKey, page: Arc<RankPage>, boosts: bool) {
        let watched = Watched { page, boosts, ranks: BTreeMap::new() };
        self.shared.lock().jobs.insert(job, watched);
        self.wake(boosts);
    }

    /// Notes that a rank of the job has started, as this process.
    pub(super) fn started(&self, job: JobKey, place: usize, process: Arc<Process>) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.insert(place, process);
        }
    }

    /// Notes that a rank of the job has ended, so that no other process is taken for it.
    pub(super) fn ended(&self, job: JobKey, place: usize) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.remove(&place);
        }
    }

    /// Sets whether the job's ranks are boosted from now on.
    pub(super) fn set_boosts(&self, job: JobKey, boosts: bool) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.boosts = boosts;
        }
        self.wake(boosts);
    }

    /// The job is over.
    pub(super) fn forget(&self, job: JobKey) {
        self.shared.lock().jobs.remove(&job);
    }

    fn wake(&self, boosts: bool) {
        if boosts && !self.started.replace(true) {
            let (shared, period, at_once) = (self.shared.clone(), self.period, self.at_once);
            let named = std::thread::Builder::new().name("storm-boost".to_owned());
            if let Err(error) = named.spawn(move || turns::boost(&shared, period, at_once)) {
                tracing::error!(%error, "nothing is boosted on this node");
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Booster {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion or removal, so the state is whole even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs whose ranks are boosted now; `None` at the end.
    fn boosted_jobs(&self) -> Option<BTreeMap<JobKey, Watched>> {
        let state = self.lock();
        let boosted = state.jobs.iter().filter(|(_, watched)| watched.boosts);
        (!state.over).then(|| boosted.map(|(job, watched)| (*job, watched.clone())).collect())
    }

    /// Waits until the ranks of a job are to be boosted, or until the end.
    fn wait_for_jobs(&self) {
        let idle = |state: &mut State| !state.over && !state.jobs.values().any(|job| job.boosts);
        drop(self.changed.wait_while(self.lock(), idle));
    }

    /// Waits for a period, or until the end. A poisoned lock does not matter.
    fn pause(&self, period: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), period, |state| !state.over));
    }
}
