//! The executor: tasks, virtual time, and one seed that decides their order.
//!
//! Time stands still while any task is ready and jumps to the next timer when
//! none is. Which of several ready tasks runs next is drawn from the seed, so
//! that no test passes by the luck of a fixed order.

use crate::sim::{SimRuntime, Trace};
use crate::{Instant, NodeId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use thiserror::Error;

/// Polls in one simulation after which a test is considered to have run away.
const MAX_POLLS: u64 = 200_000_000;

/// Why a simulation could not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SimError {
    /// Nothing is ready, no timer is set, and the main future is not done.
    #[error("deadlock at {at}: no task can ever run again (seed {seed})")]
    Deadlock {
        /// The virtual time it was noticed.
        at: Instant,
        /// The seed that repeats it.
        seed: u64,
    },
    /// The simulation exceeded the bound on its work.
    #[error("still running at {at} after {MAX_POLLS} polls (seed {seed})")]
    RanAway {
        /// The virtual time it was noticed.
        at: Instant,
        /// The seed that repeats it.
        seed: u64,
    },
}

/// A deterministic single-threaded world.
#[derive(Clone)]
pub struct Simulation {
    pub(super) core: Rc<Core>,
}

/// Tasks of one group die and freeze together: a group is one life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) node: NodeId,
    pub(super) life: u64,
}

pub(super) struct Core {
    seed: u64,
    now: Cell<Instant>,
    rng: RefCell<StdRng>,
    tasks: RefCell<BTreeMap<u64, TaskSlot>>,
    next_task: Cell<u64>,
    ready: Arc<ReadyQueue>,
    timers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    next_timer: Cell<u64>,
    frozen: RefCell<BTreeSet<Group>>,
    trace: Trace,
}

struct TaskSlot {
    group: Option<Group>,
    /// Taken out while it is being polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Waker,
}

#[derive(Default)]
struct ReadyQueue {
    tasks: Mutex<ReadyTasks>,
}

/// The ready tasks, each once. The set is only asked for membership, so its
/// order never shows.
#[derive(Default)]
struct ReadyTasks {
    ids: Vec<u64>,
    queued: HashSet<u64>,
}

struct TaskWaker {
    id: u64,
    ready: Arc<ReadyQueue>,
}

impl ReadyQueue {
    fn lock(&self) -> MutexGuard<'_, ReadyTasks> {
        // A waker that panicked while holding the lock leaves a whole value.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, id: u64) {
        let mut tasks = self.lock();
        if tasks.queued.insert(id) {
            tasks.ids.push(id);
        }
    }

    fn len(&self) -> usize {
        self.lock().ids.len()
    }

    fn take(&self, index: usize) -> u64 {
        let mut tasks = self.lock();
        let id = tasks.ids.swap_remove(index);
        tasks.queued.remove(&id);
        id
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.id);
    }
}

impl Simulation {
    /// A world at time zero, with everything random drawn from `seed`.
    pub fn new(seed: u64) -> Simulation {
        let core = Core {
            seed,
            now: Cell::new(Instant::ORIGIN),
            rng: RefCell::new(StdRng::seed_from_u64(seed)),
            tasks: RefCell::default(),
            next_task: Cell::new(0),
            ready: Arc::default(),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            frozen: RefCell::default(),
            trace: Trace::default(),
        };
        Simulation { core: Rc::new(core) }
    }

    /// The seed of this world.
    pub fn seed(&self) -> u64 {
        self.core.seed
    }

    /// What happened so far.
    pub fn trace(&self) -> &Trace {
        &self.core.trace
    }

    /// A clock and executor that belongs to no node: it is never killed.
    pub fn runtime(&self) -> SimRuntime {
        SimRuntime::new(self.core.clone(), None)
    }

    /// A random number below `bound`, from the world's seed; 0 when `bound` is 0.
    pub fn random_below(&self, bound: u64) -> u64 {
        self.core.random_below(bound)
    }

    /// Runs the world until `main` is done.
    ///
    /// # Errors
    /// [`SimError`] when `main` can never finish; it names the seed.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, SimError> {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        let id = self.core.spawn(None, async move {
            let value = main.await;
            *slot.borrow_mut() = Some(value);
        });
        for _ in 0..MAX_POLLS {
            if let Some(value) = result.borrow_mut().take() {
                return Ok(value);
            }
            if !self.core.step() {
                self.core.cancel(id);
                return Err(SimError::Deadlock { at: self.core.now(), seed: self.core.seed });
            }
        }
        self.core.cancel(id);
        Err(SimError::RanAway { at: self.core.now(), seed: self.core.seed })
    }
}

impl Core {
    pub(super) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(super) fn random_below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.rng.borrow_mut().random_range(0..bound) }
    }

    pub(super) fn spawn(
        &self,
        group: Option<Group>,
        future: impl Future<Output = ()> + 'static,
    ) -> u64 {
        let id = self.next_task.get();
        self.next_task.set(id + 1);
        let waker = Waker::from(Arc::new(TaskWaker { id, ready: self.ready.clone() }));
        let slot = TaskSlot { group, future: Some(Box::pin(future)), waker };
        self.tasks.borrow_mut().insert(id, slot);
        self.ready.push(id);
        id
    }

    pub(super) fn cancel(&self, id: u64) {
        // The future is dropped outside the borrow: its drop may cancel others.
        let slot = self.tasks.borrow_mut().remove(&id);
        drop(slot);
    }

    /// Drops every task of a node's life.
    pub(super) fn kill_group(&self, group: Group) {
        let mut dead = Vec::new();
        self.tasks.borrow_mut().retain(|_, slot| {
            let keep = slot.group != Some(group);
            if !keep {
                dead.push(slot.future.take());
            }
            keep
        });
        self.frozen.borrow_mut().remove(&group);
        drop(dead);
    }

    /// Stops polling every task of a node's life, or goes on.
    pub(super) fn set_frozen(&self, group: Group, frozen: bool) {
        if frozen {
            self.frozen.borrow_mut().insert(group);
            return;
        }
        self.frozen.borrow_mut().remove(&group);
        for (id, slot) in self.tasks.borrow().iter() {
            if slot.group == Some(group) {
                self.ready.push(*id);
            }
        }
    }

    pub(super) fn add_timer(&self, deadline: Instant, waker: Waker) -> (Instant, u64) {
        let key = (deadline, self.next_timer.get());
        self.next_timer.set(key.1 + 1);
        self.timers.borrow_mut().insert(key, waker);
        key
    }

    pub(super) fn remove_timer(&self, key: (Instant, u64)) {
        self.timers.borrow_mut().remove(&key);
    }

    /// Polls one task or advances the clock; false when neither is possible.
    fn step(&self) -> bool {
        match self.ready.len() {
            0 => self.advance_clock(),
            count => {
                let pick = self.random_below(count as u64) as usize;
                self.poll_task(self.ready.take(pick));
                true
            }
        }
    }

    fn poll_task(&self, id: u64) {
        let (mut future, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(slot) = tasks.get_mut(&id) else { return };
            if slot.group.is_some_and(|group| self.frozen.borrow().contains(&group)) {
                return;
            }
            let Some(future) = slot.future.take() else { return };
            (future, slot.waker.clone())
        };
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = self.tasks.borrow_mut();
        match (polled, tasks.get_mut(&id)) {
            (Poll::Pending, Some(slot)) => slot.future = Some(future),
            (Poll::Ready(()), Some(_)) => {
                tasks.remove(&id);
            }
            // Cancelled by itself or by another task while it was polled.
            (_, None) => {
                drop(tasks);
                drop(future);
            }
        }
    }

    fn advance_clock(&self) -> bool {
        let Some(((deadline, _), waker)) = self.timers.borrow_mut().pop_first() else {
            return false;
        };
        self.now.set(self.now.get().max(deadline));
        waker.wake();
        true
    }
}
