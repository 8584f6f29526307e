//! A modelled processor that processes of several jobs share at once, as a fair operating system
//! shares it out: who has had least of it is next, for a slice; who has slept may go before who
//! runs, but is not paid for all of its sleep (Linux's completely fair scheduler, sched(7), is the
//! model).
//!
//! Processes that are never stopped for each other, as under `local`, run on these; under strobes
//! each has a processor to itself for its slice.

use crate::JobKey;
use crate::bell::Bell;
use crate::boost_turns::{BoostTurns, Doing};
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;
use storm_primitives::{Instant, Runtime};
use storm_rm::{Rank, RowSet};

/// A process on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tenant(u64);

/// What is known of one of them.
#[derive(Clone, Copy, Debug)]
struct Tenancy {
    /// Which process of which job, the same on all nodes.
    who: (JobKey, Rank),
    /// The processor time that it has had, or is held to have had.
    had: Duration,
    /// It wants the processor.
    runnable: bool,
    /// The same, of what it has used in truth.
    used: Duration,
    /// Since when it has been running, if it does, beyond that.
    began: Option<Instant>,
    /// The rows of its job.
    rows: RowSet,
    /// It goes before all that are not.
    boosted: bool,
    /// Since when it has been waiting for a message.
    waits_since: Option<Instant>,
    /// It goes before all that do not, but for those.
    first: bool,
    /// It waits for a message, and one has come.
    unread: bool,
    /// Its job is stopped.
    held: bool,
}

impl Tenancy {
    /// Whether it would run if nobody else did.
    fn competes(&self) -> bool {
        self.runnable && !self.held
    }
}

/// One processor.
#[derive(Debug)]
pub(super) struct Processor {
    /// How long a turn is while others want the processor.
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

    /// How many processes live on it.
    pub(super) fn tenants(&self) -> usize {
        self.tenants.borrow().len()
    }

    /// How many of them are of one of these rows.
    pub(super) fn tenants_of(&self, rows: RowSet) -> usize {
        self.tenants.borrow().values().filter(|tenancy| tenancy.rows.meets(rows)).count()
    }

    /// A process of these rows comes to live on it, and wants it; `tick` from the end of somebody's
    /// turn.
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

    /// It is gone for ever.
    pub(super) fn leave(&self, tenant: Tenant) {
        self.tenants.borrow_mut().remove(&tenant);
        self.give_up(tenant);
    }

    /// It wants the processor no more, until it [wakes](Processor::wake).
    pub(super) fn sleep(&self, tenant: Tenant) {
        self.change(tenant, |tenancy| tenancy.runnable = false);
        self.give_up(tenant);
    }

    /// It wants the processor again, and gets it at once from who has had much more.
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
        // As little as a switch is worth.
        let gains = runs.zip(had(tenant)).is_some_and(|(runs, own)| own + credit / 2 < runs);
        let preempts = equals && gains;
        if preempts {
            self.running.set(None);
        }
        self.dispatch();
    }

    /// Its job is stopped, or goes on.
    pub(super) fn hold(&self, tenant: Tenant, held: bool) {
        let was = self.tenants.borrow().get(&tenant).is_some_and(|tenancy| tenancy.held);
        if was == held {
            return;
        }
        // Nobody is paid for when he was stopped.
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

    /// From now on it goes before those that do not, or no longer; among equals it is one that comes
    /// anew.
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

    /// It waits for a message since then, or for none.
    pub(super) fn set_waiting(&self, tenant: Tenant, since: Option<Instant>) {
        self.change(tenant, |tenancy| tenancy.waits_since = since);
    }

    /// Whose turn it is goes before the others from now on; nobody else does any longer.
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

    /// Runs until `work` of processor time is used, or `done` is; whichever is first. How much
    /// was used.
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
            // What has come is known only to who runs.
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

    /// Whether who runs has lost the processor, or has to share it since his stint began.
    fn is_disturbed(&self, tenant: Tenant, stint: Duration, left: Duration) -> Option<()> {
        let shares_now = stint == left && self.stint(tenant).is_some_and(|stint| stint < left);
        (!self.has(tenant) || shares_now).then_some(())
    }

    /// How long who runs may go on while others want the processor; `None` when nobody does.
    fn stint(&self, tenant: Tenant) -> Option<Duration> {
        let tenants = self.tenants.borrow();
        let own = tenants.get(&tenant).filter(|own| !own.boosted)?;
        let competes = |other: &Tenancy| other.competes() && other.first == own.first;
        let others = tenants.iter().filter(|(id, other)| **id != tenant && competes(other));
        let least = others.map(|(_, other)| other.had).min()?;
        // From half a slice behind the others to half a slice before them; who has had less than
        // that runs no longer for it.
        Some((least + self.slice / 2).saturating_sub(own.had).min(self.slice))
    }

    /// The least that those have had who want the processor, but one, among those that go first or
    /// among the others.
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

    /// Somebody runs if anybody wants to, and nobody in place of one that goes first.
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
