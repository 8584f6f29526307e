//! A modelled processor that processes of several jobs share, as a fair operating system shares it.
//! The process with the least time so far runs next, for a slice. A process that wakes up may
//! preempt the running one, but is not credited for all of its sleep. The model is Linux's
//! completely fair scheduler (sched(7)).
//!
//! The model is for processes that are never stopped for each other, as under `local`. Under
//! strobes each process has a processor to itself for its slice.

use crate::JobKey;
use crate::boost_turns::{BoostTurns, Doing};
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;
use storm_primitives::{Bell, Instant, Runtime};
use storm_rm::{Rank, RowSet};

/// A process on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tenant(u64);

/// The state of a process on the processor.
#[derive(Clone, Copy, Debug)]
struct Tenancy {
    /// The process and its job, the same on all nodes.
    who: (JobKey, Rank),
    /// The processor time that it has had, with adjustments for sleep and arrival.
    had: Duration,
    /// Whether it wants the processor.
    runnable: bool,
    /// The processor time that it has really used.
    used: Duration,
    /// Start of its present run, which is not yet in `used`; `None` if it does not run.
    began: Option<Instant>,
    /// The rows of its job.
    rows: RowSet,
    /// Whether it precedes all processes that are not boosted.
    boosted: bool,
    /// Since when it has been waiting for a message.
    waits_since: Option<Instant>,
    /// Whether it precedes all others, except boosted processes.
    first: bool,
    /// Whether it waits for a message that has arrived.
    unread: bool,
    /// Whether its job is stopped.
    held: bool,
}

impl Tenancy {
    /// Whether it would run if no other process did.
    fn competes(&self) -> bool {
        self.runnable && !self.held
    }
}

/// One processor.
#[derive(Debug)]
pub(super) struct Processor {
    /// Length of a turn while others want the processor.
    slice: Duration,
    tenants: RefCell<BTreeMap<Tenant, Tenancy>>,
    running: Cell<Option<Tenant>>,
    next: Cell<u64>,
    changed: Bell,
    turns: RefCell<BoostTurns<(JobKey, Rank)>>,
}

impl Processor {
    pub(super) fn new(slice: Duration) -> Processor {
        Processor {
            slice,
            tenants: RefCell::default(),
            running: Cell::default(),
            next: Cell::default(),
            changed: Bell::default(),
            turns: RefCell::default(),
        }
    }

    /// Number of processes on the processor.
    pub(super) fn tenants(&self) -> usize {
        self.tenants.borrow().len()
    }

    /// Number of processes with one of these rows.
    pub(super) fn tenants_of(&self, rows: RowSet) -> usize {
        self.tenants.borrow().values().filter(|tenancy| tenancy.rows.meets(rows)).count()
    }

    /// Adds a process with these rows, which wants the processor. `tick` is its delay until the end
    /// of a turn.
    pub(super) fn enter(&self, who: (JobKey, Rank), rows: RowSet, tick: Duration) -> Tenant {
        let tenant = Tenant(self.next.get());
        self.next.set(tenant.0 + 1);
        let had = self.least_had(tenant, false).unwrap_or_default() + tick;
        let tenancy = Tenancy {
            who,
            had,
            runnable: true,
            used: Duration::ZERO,
            began: None,
            rows,
            boosted: false,
            waits_since: None,
            first: false,
            unread: false,
            held: false,
        };
        self.tenants.borrow_mut().insert(tenant, tenancy);
        self.dispatch();
        tenant
    }

    /// Removes the process.
    pub(super) fn leave(&self, tenant: Tenant) {
        self.tenants.borrow_mut().remove(&tenant);
        self.give_up(tenant);
    }

    /// The process does not want the processor until it [wakes](Processor::wake).
    pub(super) fn sleep(&self, tenant: Tenant) {
        self.change(tenant, |tenancy| tenancy.runnable = false);
        self.give_up(tenant);
    }

    /// The process wants the processor again. Preempts the running one if that has had much more
    /// time.
    pub(super) fn wake(&self, tenant: Tenant) {
        let least = self.least_had(tenant, self.is_first(tenant));
        let credit = self.slice / 2;
        self.change(tenant, |tenancy| {
            tenancy.runnable = true;
            let floor = least.map_or(tenancy.had, |least| least.saturating_sub(credit));
            tenancy.had = tenancy.had.max(floor);
        });
        let had = |of: Tenant| self.tenants.borrow().get(&of).map(|tenancy| tenancy.had);
        let runs = self.running.get().and_then(had);
        let equals =
            self.running.get().is_some_and(|runs| self.is_first(runs) == self.is_first(tenant));
        // Preempts only for a gain that is worth a switch.
        let gains = runs.zip(had(tenant)).is_some_and(|(runs, own)| own + credit / 2 < runs);
        let preempts = equals && gains;
        if preempts {
            self.running.set(None);
        }
        self.dispatch();
    }

    /// Its job is stopped, or continues.
    pub(super) fn hold(&self, tenant: Tenant, held: bool) {
        let was = self.tenants.borrow().get(&tenant).is_some_and(|tenancy| tenancy.held);
        if was == held {
            return;
        }
        // A process is not credited for the time when it was stopped.
        let least = self.least_had(tenant, self.is_first(tenant)).unwrap_or_default();
        self.change(tenant, |tenancy| {
            tenancy.held = held;
            tenancy.had = tenancy.had.max(least);
        });
        if held {
            self.give_up(tenant);
        } else {
            self.dispatch();
        }
    }

    /// Makes the process precede others from now on, or no longer. Among its new equals it counts
    /// as just arrived.
    pub(super) fn put_first(&self, tenant: Tenant, first: bool) {
        if self.is_first(tenant) == first {
            return;
        }
        let least = self.least_had(tenant, first);
        self.change(tenant, |tenancy| {
            tenancy.first = first;
            tenancy.had = least.unwrap_or(tenancy.had);
        });
        if self.has(tenant) {
            self.running.set(None);
        }
        self.dispatch();
    }

    /// Processor time that it has used up to now.
    pub(super) fn used(&self, tenant: Tenant, now: Instant) -> Duration {
        let tenants = self.tenants.borrow();
        let used = tenants.get(&tenant).map(|tenancy| {
            tenancy.used + tenancy.began.map_or(Duration::ZERO, |began| now - began)
        });
        used.unwrap_or_default()
    }

    fn is_first(&self, tenant: Tenant) -> bool {
        self.tenants.borrow().get(&tenant).is_some_and(|tenancy| tenancy.first)
    }

    /// The process waits for a message since then, or does not wait.
    pub(super) fn set_waiting(&self, tenant: Tenant, since: Option<Instant>) {
        self.change(tenant, |tenancy| tenancy.waits_since = since);
    }

    /// Boosts the process whose turn it is, and no other.
    pub(super) fn boost(&self, now: Instant) {
        let doing = |tenancy: &Tenancy| match tenancy.waits_since {
            None => Doing::Computes,
            Some(_) if tenancy.unread => Doing::HasNews,
            Some(since) => Doing::Waits(now - since),
        };
        let next = {
            let mut tenants = self.tenants.borrow_mut();
            let willing = tenants.values().filter(|tenancy| tenancy.competes());
            let doing = willing.map(|tenancy| (tenancy.who, doing(tenancy))).collect();
            let next = self.turns.borrow_mut().next(&doing, 1);
            for tenancy in tenants.values_mut() {
                tenancy.boosted = next.contains(&tenancy.who);
            }
            tenants.iter().find(|(_, tenancy)| tenancy.boosted).map(|(id, _)| *id)
        };
        if next.is_some() && self.running.get() != next {
            self.running.set(None);
        }
        self.dispatch();
    }

    /// Runs until `work` of processor time is used, or `done` completes. Returns the time that was
    /// used, and whether `done` has completed.
    pub(super) async fn run<R: Runtime>(
        &self,
        runtime: &R,
        tenant: Tenant,
        work: Duration,
        mut done: Pin<&mut impl Future<Output = ()>>,
    ) -> (Duration, bool) {
        let mut used = Duration::ZERO;
        let mut arrived = false;
        loop {
            // Only a running process notices a message that has arrived.
            while self.running.get() != Some(tenant) {
                let turn = pin!(self.changed.until(|| self.has(tenant).then_some(())));
                if arrived {
                    turn.await;
                } else if let Either::Right(_) = select(turn, done.as_mut()).await {
                    arrived = true;
                    self.change(tenant, |tenancy| tenancy.unread = true);
                }
            }
            if arrived || used >= work {
                self.change(tenant, |tenancy| tenancy.unread = false);
                return (used, arrived);
            }
            let left = work - used;
            let stint = self.stint(tenant).map_or(left, |stint| stint.min(left));
            let begun = runtime.now();
            self.change(tenant, |tenancy| tenancy.began = Some(begun));
            let news = {
                let disturbed = pin!(self.changed.until(|| self.is_disturbed(tenant, stint, left)));
                let either = select(done.as_mut(), disturbed);
                matches!(runtime.timeout(stint, either).await, Some(Either::Left(_)))
            };
            arrived |= news;
            let ran = (runtime.now() - begun).min(stint);
            used += ran;
            self.change(tenant, |tenancy| {
                tenancy.had += ran;
                tenancy.used += ran;
                tenancy.began = None;
            });
            if !arrived && self.stint(tenant).is_some_and(|stint| stint.is_zero()) {
                self.give_up(tenant);
            }
        }
    }

    fn has(&self, tenant: Tenant) -> bool {
        self.running.get() == Some(tenant)
    }

    /// Whether the running process has lost the processor, or must share it since its stint began.
    fn is_disturbed(&self, tenant: Tenant, stint: Duration, left: Duration) -> Option<()> {
        let shares_now = stint == left && self.stint(tenant).is_some_and(|stint| stint < left);
        (!self.has(tenant) || shares_now).then_some(())
    }

    /// How long the running process may continue while others want the processor; `None` if none
    /// does.
    fn stint(&self, tenant: Tenant) -> Option<Duration> {
        let tenants = self.tenants.borrow();
        let own = tenants.get(&tenant).filter(|own| !own.boosted)?;
        let competes = |other: &Tenancy| other.competes() && other.first == own.first;
        let others = tenants.iter().filter(|(id, other)| **id != tenant && competes(other));
        let least = others.map(|(_, other)| other.had).min()?;
        // A turn extends from half a slice behind the others to half a slice ahead of them. A
        // process that is further behind runs no longer than a slice.
        Some((least + self.slice / 2).saturating_sub(own.had).min(self.slice))
    }

    /// The least time of all processes, except one, that want the processor, among those that go
    /// `first`, or among the others.
    fn least_had(&self, but: Tenant, first: bool) -> Option<Duration> {
        let tenants = self.tenants.borrow();
        let competes = |other: &Tenancy| other.competes() && other.first == first;
        let others = tenants.iter().filter(|(id, other)| **id != but && competes(other));
        others.map(|(_, other)| other.had).min()
    }

    fn change(&self, tenant: Tenant, change: impl FnOnce(&mut Tenancy)) {
        if let Some(tenancy) = self.tenants.borrow_mut().get_mut(&tenant) {
            change(tenancy);
        }
    }

    fn give_up(&self, tenant: Tenant) {
        if self.has(tenant) {
            self.running.set(None);
        }
        self.dispatch();
    }

    /// Selects a process if any wants to run, and makes the running process yield to a process that
    /// runs first.
    fn dispatch(&self) {
        let tenants = self.tenants.borrow();
        let runs = self.running.get().and_then(|runs| tenants.get(&runs));
        let yields = runs.is_some_and(|runs| !runs.first && !runs.boosted);
        if yields && tenants.values().any(|tenancy| tenancy.first && tenancy.competes()) {
            self.running.set(None);
        }
        if self.running.get().is_none() {
            let willing = tenants.iter().filter(|(_, tenancy)| tenancy.competes());
            let next = willing
                .min_by_key(|(id, tenancy)| (!tenancy.boosted, !tenancy.first, tenancy.had, **id));
            self.running.set(next.map(|(id, _)| *id));
        }
        drop(tenants);
        self.changed.ring();
    }
}
