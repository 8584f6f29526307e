//! The executor: tasks, virtual time, and one seed that decides their order.
//!
//! Time stands still while a task is ready, and jumps to the next timers when none is. The
//! seed decides which of several ready tasks runs next, so that no test passes by the luck
//! of a fixed order. The tasks themselves are in [`super::tasks`], the timers in
//! [`super::timers`].

use crate::Instant;
use crate::sim::group::Group;
use crate::sim::tasks::{ReadyQueue, TaskId, Tasks};
use crate::sim::timers::{Due, TimerKey, Timers};
use crate::sim::{SimRuntime, Trace};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use thiserror::Error;

/// The limit of polls in one simulation. A test that exceeds it is considered to run away.
const MAX_POLLS: u64 = 200_000_000;

/// Why a simulation could not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SimError {
    /// No task is ready, no timer is set, and the main future is not done.
    #[error("deadlock at {at}: no task can ever run again (seed {seed})")]
    Deadlock {
        /// The virtual time it was noticed.
        at: Instant,
        /// The seed that repeats the run.
        seed: u64,
    },
    /// The simulation exceeded the bound on its work.
    #[error("still running at {at} after {MAX_POLLS} polls (seed {seed})")]
    RanAway {
        /// The virtual time it was noticed.
        at: Instant,
        /// The seed that repeats the run.
        seed: u64,
    },
}

/// A deterministic single-threaded world.
#[derive(Clone)]
pub struct Simulation {
    pub(super) core: Rc<Core>,
    _world: Rc<World>,
}

/// The amount of work of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Times that a task was polled.
    pub polls: u64,
    /// Network events: a group of equal messages counts as one event.
    pub calls: u64,
}

pub(super) struct Core {
    seed: u64,
    now: Cell<Instant>,
    rng: RefCell<ChaCha12Rng>,
    tasks: RefCell<Tasks>,
    ready: Arc<ReadyQueue>,
    timers: RefCell<Timers>,
    /// A buffer for the timers of one instant, kept for reuse.
    due: RefCell<Vec<Due>>,
    frozen: RefCell<BTreeSet<Group>>,
    polls: Cell<u64>,
    calls: Cell<u64>,
    trace: Trace,
}

/// Ends the world with the last [`Simulation`]. Tasks hold the network, and the network holds the
/// world, so neither would ever be freed.
struct World {
    core: Rc<Core>,
}

impl Drop for World {
    fn drop(&mut self) {
        // Taken out before they are dropped: their drops may cancel others.
        let tasks = self.core.tasks.take();
        let timers = self.core.timers.take();
        drop((tasks, timers));
    }
}

impl Simulation {
    /// A world at time zero, with everything random drawn from `seed`.
    pub fn new(seed: u64) -> Simulation {
        let core = Rc::new(Core {
            seed,
            now: Cell::new(Instant::ORIGIN),
            rng: RefCell::new(ChaCha12Rng::seed_from_u64(seed)),
            tasks: RefCell::default(),
            ready: Arc::default(),
            timers: RefCell::default(),
            due: RefCell::default(),
            frozen: RefCell::default(),
            polls: Cell::new(0),
            calls: Cell::new(0),
            trace: Trace::default(),
        });
        Simulation { _world: Rc::new(World { core: core.clone() }), core }
    }

    /// The seed of this world.
    pub fn seed(&self) -> u64 {
        self.core.seed
    }

    /// The trace so far.
    pub fn trace(&self) -> &Trace {
        &self.core.trace
    }

    /// The work so far.
    pub fn effort(&self) -> Effort {
        Effort { polls: self.core.polls.get(), calls: self.core.calls.get() }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.core.now()
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
    /// [`SimError`] if `main` can never finish; it names the seed.
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
    ) -> TaskId {
        self.tasks.borrow_mut().add(group, Box::pin(future), &self.ready)
    }

    pub(super) fn cancel(&self, id: TaskId) {
        // The future is dropped outside the borrow: its drop may cancel others.
        let task = self.tasks.borrow_mut().remove(id);
        drop(task);
    }

    /// Drops every task of a node's incarnation.
    pub(super) fn kill_group(&self, group: Group) {
        let dead = self.tasks.borrow_mut().remove_group(group);
        self.frozen.borrow_mut().remove(&group);
        drop(dead);
    }

    /// Stops polling every task of a node's incarnation, or resumes polling.
    pub(super) fn set_frozen(&self, group: Group, frozen: bool) {
        if frozen {
            self.frozen.borrow_mut().insert(group);
            return;
        }
        self.frozen.borrow_mut().remove(&group);
        self.tasks.borrow().wake_group(group);
    }

    /// Wakes a task at `deadline`.
    pub(super) fn wake_at(&self, deadline: Instant, waker: &Waker) -> TimerKey {
        self.timers.borrow_mut().set(deadline, Due::Wake(waker.clone()))
    }

    /// Makes a pending timer wake another task. Returns false if the timer is not pending.
    pub(super) fn rewake(&self, key: TimerKey, waker: &Waker) -> bool {
        self.timers.borrow_mut().rewake(key, waker)
    }

    /// Does something at `deadline`, for no task.
    pub(super) fn call_at(&self, deadline: Instant, call: impl FnOnce() + 'static) {
        self.timers.borrow_mut().set(deadline, Due::Call(Box::new(call)));
    }

    pub(super) fn cancel_timer(&self, key: TimerKey) {
        let due = self.timers.borrow_mut().cancel(key);
        drop(due);
    }

    /// Polls one task or advances the clock; false when neither is possible.
    fn step(&self) -> bool {
        match self.ready.len() {
            0 => return self.advance_clock(),
            1 => self.poll_task(self.ready.take(0)),
            count => self.poll_task(self.ready.take(self.random_below(count as u64) as usize)),
        }
        true
    }

    fn poll_task(&self, id: TaskId) {
        let (mut future, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(id) else { return };
            let waker = task.take_turn();
            let frozen = self.frozen.borrow();
            if !frozen.is_empty() && task.group.is_some_and(|group| frozen.contains(&group)) {
                return;
            }
            let Some(future) = task.future.take() else { return };
            (future, waker)
        };
        self.polls.set(self.polls.get() + 1);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = self.tasks.borrow_mut();
        match (polled, tasks.get_mut(id)) {
            (Poll::Pending, Some(task)) => task.future = Some(future),
            (Poll::Ready(()), Some(_)) => {
                let task = tasks.remove(id);
                drop(tasks);
                drop((task, future));
            }
            // The task was cancelled while it was polled, by itself or by another task.
            (_, None) => {
                drop(tasks);
                drop(future);
            }
        }
    }

    /// Advances to the next instant with due timers and fires all of them.
    fn advance_clock(&self) -> bool {
        let mut due = self.due.take();
        let earliest = self.timers.borrow_mut().take_earliest(&mut due);
        if let Some(deadline) = earliest {
            self.now.set(self.now.get().max(deadline));
        }
        for action in due.drain(..) {
            match action {
                Due::Wake(waker) => waker.wake(),
                Due::Call(call) => {
                    self.calls.set(self.calls.get() + 1);
                    call();
                }
            }
        }
        self.due.replace(due);
        earliest.is_some()
    }
}
