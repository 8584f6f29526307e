//! A process's share of a processor, and how it waits there for messages. The policies without
//! strobes differ in these waits (A6 of the policy reference).

use super::processor::{Processor, Tenant};
use super::{Activity, Model};
use crate::JobKey;
use crate::classes::LibraryReport;
use futures_util::future::{FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Runtime};
use storm_rm::{Coscheduling, Rank, RowSet};

/// Longer than any simulation.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Longest imbalance for which it pays to poll longer for all ranks, in times to wake up; and the
/// reciprocal weight of a new measurement. Both values are those of storm-mpi.
const IMBALANCE_MAX_WAKES: u32 = 10;
const IMBALANCE_WEIGHT: u32 = 8;
/// Number of vain polls after which most waits skip polling, as in storm-mpi
/// (`docs/decisions/0081`).
const VAIN_MAX: u32 = 2;
const SKIPPED_MAX: u32 = 1024;

/// A process on a processor that it shares.
#[derive(Debug)]
pub(super) struct Share {
    processor: Rc<Processor>,
    tenant: Tenant,
    waits: Waits,
    /// Number of waits begun.
    operations: Cell<u64>,
    /// Total length of the waits that are over.
    waited: Cell<Duration>,
    waits_since: Cell<Option<Instant>>,
}

/// How long the process polls before it sleeps.
#[derive(Debug)]
enum Waits {
    /// Never sleeps.
    Looks,
    /// By the rules of implicit coscheduling.
    TwoPhase(TwoPhase),
    /// By its class: it never sleeps, or sleeps after twice `W`.
    ByClass {
        /// `W`.
        wake: Duration,
        /// Whether it sleeps.
        sleeps: Cell<bool>,
    },
}

/// The use that a process under flexible coscheduling may make of its processor now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Has its slot to itself.
    Alone,
    /// Precedes others, and yields the processor while it waits.
    First,
    /// Uses the time that others leave.
    Rest,
    /// Does not run.
    Stopped,
}

/// Two-phase waiting with the conditional rule (Arpaci-Dusseau, ACM TOCS 19(3), 2001), as in the
/// library of live applications.
#[derive(Debug)]
struct TwoPhase {
    /// `2 L + 4 O`.
    answer: Duration,
    /// `W`.
    wake: Duration,
    /// `V`: how much longer than an answer the other ranks take to reach a barrier.
    imbalance: Cell<Duration>,
    last_news: Cell<Option<Instant>>,
    /// Number of successive polls that ended in sleep.
    vain: Cell<u32>,
    /// Number of coming waits that skip polling.
    skipped: Cell<u32>,
}

impl TwoPhase {
    fn base(&self) -> Duration {
        self.answer + self.wake
    }

    /// How long a wait that begins now polls; zero if several polls were in vain.
    fn patience(&self, now: Instant, all: bool) -> Duration {
        if self.skipped.get() > 0 {
            self.skipped.set(self.skipped.get() - 1);
            return Duration::ZERO;
        }
        let imbalance = self.imbalance.get();
        let pays = all && imbalance <= IMBALANCE_MAX_WAKES * self.wake;
        let first = self.base() + if pays { imbalance } else { Duration::ZERO };
        let pair = self.base() + 4 * self.wake;
        let since = self.last_news.get().map(|news| now - news);
        first.max(since.map_or(Duration::ZERO, |since| pair.saturating_sub(since)))
    }

    /// A poll has found a message, or not.
    fn looked(&self, found: bool) {
        self.vain.set(if found { 0 } else { self.vain.get().saturating_add(1) });
        if self.vain.get() >= VAIN_MAX {
            let waits = 1_u32.checked_shl(self.vain.get());
            self.skipped.set(waits.map_or(SKIPPED_MAX, |waits| waits.min(SKIPPED_MAX)));
        }
    }

    /// A wait that began then is over.
    fn ended(&self, began: Instant, now: Instant, all: bool) {
        self.last_news.set(Some(now));
        if all {
            let longer = (now - began).saturating_sub(self.base());
            let kept = self.imbalance.get() * (IMBALANCE_WEIGHT - 1) / IMBALANCE_WEIGHT;
            self.imbalance.set(kept + longer / IMBALANCE_WEIGHT);
        }
    }
}

impl Share {
    pub(super) fn new(
        processor: Rc<Processor>,
        model: &Model,
        who: (JobKey, Rank),
        (coscheduling, rows): (Coscheduling, RowSet),
    ) -> Share {
        let tenant = processor.enter(who, rows, (model.extra)(Activity::Tick));
        let waits = match coscheduling {
            Coscheduling::Implicit => Waits::TwoPhase(TwoPhase {
                answer: model.exchange.answer(),
                wake: model.os.wake,
                imbalance: Cell::default(),
                last_news: Cell::default(),
                vain: Cell::default(),
                skipped: Cell::default(),
            }),
            Coscheduling::Flexible => {
                Waits::ByClass { wake: model.os.wake, sleeps: Cell::default() }
            }
            Coscheduling::Strobed | Coscheduling::Local | Coscheduling::PeriodicBoost => {
                Waits::Looks
            }
        };
        let (operations, waited, waits_since) = Default::default();
        Share { processor, tenant, waits, operations, waited, waits_since }
    }

    /// Uses this much processor time, and returns it.
    pub(super) async fn compute<R: Runtime>(&self, runtime: &R, work: Duration) -> Duration {
        let never = pin!(std::future::pending());
        self.processor.run(runtime, self.tenant, work, never).await.0
    }

    /// Waits for a message, or for `all` others. Returns the processor time used meanwhile.
    pub(super) async fn await_news<R: Runtime>(
        &self,
        runtime: &R,
        mut news: LocalBoxFuture<'static, ()>,
        all: bool,
    ) -> Duration {
        let began = runtime.now();
        self.set_waiting(Some(began));
        self.operations.set(self.operations.get() + 1);
        let (patience, waking) = match &self.waits {
            Waits::TwoPhase(rule) => (rule.patience(began, all), rule.wake),
            Waits::ByClass { wake, sleeps } if sleeps.get() => (2 * *wake, *wake),
            Waits::Looks | Waits::ByClass { .. } => (FOR_EVER, Duration::ZERO),
        };
        let mut used = Duration::ZERO;
        // If the message is there already, a process that skips polling need not sleep either.
        if !patience.is_zero() || news.as_mut().now_or_never().is_none() {
            let looking = self.processor.run(runtime, self.tenant, patience, Pin::new(&mut news));
            let arrived;
            (used, arrived) = looking.await;
            if let Waits::TwoPhase(rule) = &self.waits
                && !patience.is_zero()
            {
                rule.looked(arrived);
            }
            if !arrived {
                self.sleep();
                news.await;
                self.wake();
                used += self.compute(runtime, waking).await;
            }
        }
        let now = runtime.now();
        if let Waits::TwoPhase(rule) = &self.waits {
            rule.ended(began, now, all);
        }
        self.set_waiting(None);
        self.waited.set(self.waited.get() + (now - began));
        used
    }

    fn set_waiting(&self, since: Option<Instant>) {
        self.waits_since.set(since);
        self.processor.set_waiting(self.tenant, since);
    }

    /// The report of its library on its waits up to now.
    pub(super) fn library_report(&self, now: Instant) -> LibraryReport {
        let present = self.waits_since.get().map_or(Duration::ZERO, |since| now - since);
        LibraryReport { operations: self.operations.get(), waited: self.waited.get() + present }
    }

    /// Processor time that it has used up to now.
    pub(super) fn used(&self, now: Instant) -> Duration {
        self.processor.used(self.tenant, now)
    }

    /// Sets what it may do from now on.
    pub(super) fn set_turn(&self, turn: Turn) {
        if let Waits::ByClass { sleeps, .. } = &self.waits {
            sleeps.set(matches!(turn, Turn::First | Turn::Rest));
        }
        self.processor.hold(self.tenant, turn == Turn::Stopped);
        self.processor.put_first(self.tenant, matches!(turn, Turn::Alone | Turn::First));
    }

    /// The process waits for an event without polling.
    pub(super) fn sleep(&self) {
        self.processor.sleep(self.tenant);
    }

    /// The event that it waited for has happened.
    pub(super) fn wake(&self) {
        self.processor.wake(self.tenant);
    }

    /// Its job is stopped, or continues.
    pub(super) fn hold(&self, held: bool) {
        self.processor.hold(self.tenant, held);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.processor.leave(self.tenant);
    }
}
