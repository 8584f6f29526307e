//! The pads that are ready for a job, and the bound on their number.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_pl::{KeeperHandle, PadId};
use thiserror::Error;
use tokio::sync::Notify;

/// How long a job waits for a pad: far longer than making one takes.
const PAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to fill one pad before it is given up. Each waits four times as long as the attempt
/// before, a second in all.
const FILL_ATTEMPTS_MAX: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// How long after a job its pad's processes are made again. A process on this host that waits for
/// the job's end runs first. Without this delay, with 64 nodes on two processors, it waited 57 ms
/// for the new processes.
const AFTER_A_JOB: Duration = Duration::from_millis(10);
/// Pads that may be lost while a job waits before the job is refused.
const LOSSES_MAX: u32 = 2;

#[derive(Debug, Error)]
pub(super) enum PadError {
    #[error("the node has no room for another job: {0} are on it")]
    TooMany(u16),
    #[error("no processes could be made ready for the job in time")]
    TimedOut,
    #[error("no processes can be made ready for a job on this node: {0}")]
    Unmade(String),
    #[error("the keeper of this node cannot be reached")]
    Keeper(#[source] io::Error),
}

pub(super) struct PadPool {
    keeper: KeeperHandle,
    /// The ready pads, with the number of processes that wait in each.
    ready: RefCell<VecDeque<(PadId, u16)>>,
    /// The pads that are being filled, with the number of processes that each will have.
    filling: RefCell<BTreeMap<PadId, u16>>,
    /// The pads that are clean, or will be soon, and are not being filled.
    vacant: RefCell<Vec<PadId>>,
    made: Cell<u16>,
    /// How many pads are made at the start and always filled again.
    first: u16,
    max: u16,
    waiting: Cell<u16>,
    attempts: RefCell<BTreeMap<PadId, u32>>,
    /// Pads that were lost so far, and why the last pad was.
    losses: Cell<u32>,
    why_lost: RefCell<String>,
    arrived: Notify,
    closed: Cell<bool>,
}

impl PadPool {
    pub(super) fn new(keeper: KeeperHandle, first: u16, max: u16) -> io::Result<PadPool> {
        keeper.make_pads(first)?;
        Ok(PadPool {
            keeper,
            ready: RefCell::default(),
            filling: RefCell::default(),
            vacant: RefCell::default(),
            made: Cell::new(first),
            first,
            max: max.max(first),
            waiting: Cell::new(0),
            attempts: RefCell::default(),
            losses: Cell::new(0),
            why_lost: RefCell::default(),
            arrived: Notify::new(),
            closed: Cell::new(false),
        })
    }

    /// Takes a pad in which `pls` processes wait for a launch.
    pub(super) async fn take(&self, pls: u16) -> Result<PadId, PadError> {
        let pls = pls.min(self.keeper.capacity());
        if let Some(pad) = self.pop(pls) {
            return Ok(pad);
        }
        // A pad that is lost from here on is made again, even if it is being filled for this job.
        let before = self.losses.get();
        if let Some(pad) = self.pop_vacant(pls).or_else(|| self.pop_any()) {
            self.refill_with(pad, pls);
        } else if self.made.get() < self.max {
            self.make_another(pls)?;
        } else if self.waiting.get() >= self.max {
            return Err(PadError::TooMany(self.max));
        }
        self.waiting.set(self.waiting.get() + 1);
        let taken = tokio::time::timeout(PAD_TIMEOUT, self.wait(pls, before)).await;
        self.waiting.set(self.waiting.get() - 1);
        taken.map_err(|_| PadError::TimedOut)?
    }

    /// Waits for a pad with `pls` processes. If a pad is lost meanwhile (`before` were lost so
    /// far), makes another.
    async fn wait(&self, pls: u16, before: u32) -> Result<PadId, PadError> {
        let mut seen = before;
        loop {
            let arrived = self.arrived.notified();
            if let Some(pad) = self.pop(pls) {
                return Ok(pad);
            }
            // A smaller job took the pad made for this job; fill up its pad.
            if let Some(pad) = self.pop_any() {
                self.refill_with(pad, pls);
            }
            let losses = self.losses.get();
            if losses.wrapping_sub(before) >= LOSSES_MAX {
                return Err(PadError::Unmade(self.why_lost.borrow().clone()));
            }
            if losses != seen {
                seen = losses;
                // Another waiting job may have made a pad for the lost one.
                if self.made.get() < self.max {
                    self.make_another(pls)?;
                }
            }
            arrived.await;
        }
    }

    /// Counts the pad of a former node manager; its job gives it back like any other.
    pub(super) fn took_over(&self) {
        self.made.set(self.made.get().saturating_add(1));
    }

    /// Makes a pad for a job of `pls` processes. Except for the pads of the start, a pad has as
    /// many processes as the largest job that took it. Small jobs therefore make small pads.
    fn make_another(&self, pls: u16) -> Result<(), PadError> {
        self.keeper.make_pad(pls).map_err(PadError::Keeper)?;
        self.made.set(self.made.get() + 1);
        Ok(())
    }

    /// Cleans the pad of a job that is over here. The job may continue elsewhere, and its other
    /// nodes may still launch it. The pad's processes are therefore made only when the job is over
    /// everywhere ([`PadPool::fill_soon`]) or another job needs them.
    pub(super) fn vacate(&self, pad: PadId) -> io::Result<()> {
        if self.waiting.get() > 0 {
            return self.keeper.release(pad);
        }
        self.keeper.clean(pad)?;
        self.vacant.borrow_mut().push(pad);
        Ok(())
    }

    /// Fills a vacated pad after a short wait. If a job needs the pad earlier, it is filled at
    /// once.
    pub(super) fn fill_soon(self: &Rc<Self>, pad: PadId) {
        let this = self.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(AFTER_A_JOB).await;
            this.fill(pad);
        });
    }

    /// Fills a vacated pad that has not been filled since. If descriptors are few, only the first
    /// pads are filled: processes that wait in others would take the descriptors that a running job
    /// needs.
    fn fill(&self, pad: PadId) {
        let (count, coming) = {
            let filling = self.filling.borrow();
            (
                self.ready.borrow().len() + filling.len(),
                filling.values().copied().map(u32::from).sum(),
            )
        };
        let more = u32::from(self.keeper.size(pad)).saturating_add(coming);
        if count >= usize::from(self.first) && !self.keeper.has_plenty_beside(more) {
            return;
        }
        let vacant = {
            let mut vacant = self.vacant.borrow_mut();
            let place = vacant.iter().position(|other| *other == pad);
            place.map(|place| vacant.swap_remove(place))
        };
        if let Some(pad) = vacant {
            self.refill(pad);
        }
    }

    /// Notes that the pad is ready. If the pad was given back again since, the keeper will report
    /// the pad once more, and the present report is ignored.
    pub(super) fn ready(&self, pad: PadId) {
        if self.keeper.is_draining(pad) {
            return;
        }
        self.attempts.borrow_mut().remove(&pad);
        self.filling.borrow_mut().remove(&pad);
        self.vacant.borrow_mut().retain(|other| *other != pad);
        let pls = u16::try_from(self.keeper.waiting(pad).len()).unwrap_or(u16::MAX);
        self.ready.borrow_mut().push_back((pad, pls));
        self.arrived.notify_waiters();
    }

    /// Tries to fill the pad again, a few times with growing waits.
    pub(super) fn fill_failed(&self, pad: PadId, why: &str) {
        let attempt = {
            let mut attempts = self.attempts.borrow_mut();
            let attempt = attempts.entry(pad).or_default();
            *attempt += 1;
            *attempt
        };
        if attempt >= FILL_ATTEMPTS_MAX || self.is_closed() {
            // Discard the pad with the processes that were made: nothing else ends them.
            if let Err(error) = self.keeper.discard(pad) {
                tracing::warn!(%pad, %error, "processes of a place that is given up stay");
            }
            return self.lost_because(pad, why);
        }
        let keeper = self.keeper.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(FIRST_WAIT * 4u32.pow(attempt - 1)).await;
            // A failure means that the keeper is gone, which its own event reports.
            let _ = keeper.release(pad);
        });
    }

    /// Whether the node has no place for any job, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.made.get() == 0
    }

    /// The node is being left: fills no pad from now on.
    pub(super) fn close(&self) {
        self.closed.set(true);
    }

    /// Whether the node is being left.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Fills a pad again in which a waiting process died, if no job has the pad.
    pub(super) fn refill_if_idle(&self, pad: PadId) {
        let idle = {
            let mut ready = self.ready.borrow_mut();
            let before = ready.len();
            ready.retain(|(other, _)| *other != pad);
            ready.len() < before
        };
        if idle {
            self.refill(pad);
        }
    }

    /// Notes that the pad is gone for good. A job that waits for a pad gets `why` if no other pad
    /// becomes free.
    pub(super) fn lost_because(&self, pad: PadId, why: &str) {
        why.clone_into(&mut self.why_lost.borrow_mut());
        self.lost(pad);
    }

    /// Notes that the pad is gone for good; another may take its place.
    pub(super) fn lost(&self, pad: PadId) {
        self.ready.borrow_mut().retain(|(other, _)| *other != pad);
        self.vacant.borrow_mut().retain(|other| *other != pad);
        self.attempts.borrow_mut().remove(&pad);
        self.filling.borrow_mut().remove(&pad);
        self.made.set(self.made.get().saturating_sub(1));
        self.losses.set(self.losses.get().wrapping_add(1));
        self.arrived.notify_waiters();
    }

    /// Fills a pad until it has `pls` processes, or as many as it had if those were more.
    fn refill_with(&self, pad: PadId, pls: u16) {
        // A failure means that the pad is gone, which `refill` finds as well.
        let _ = self.keeper.enlarge(pad, pls);
        self.refill(pad);
    }

    fn refill(&self, pad: PadId) {
        if self.is_closed() {
            return self.lost(pad);
        }
        self.filling.borrow_mut().insert(pad, self.keeper.size(pad));
        if let Err(error) = self.keeper.release(pad) {
            tracing::error!(%pad, %error, "a place for jobs is lost");
            // The waiting processes end. If the keeper cannot get the order, they end with the
            // keeper.
            let _ = self.keeper.discard(pad);
            self.lost_because(pad, &error.to_string());
        }
    }

    /// Among the pads that will have `pls` processes, takes the smallest. If there is none, takes
    /// the pad that lacks the fewest.
    fn pop_vacant(&self, pls: u16) -> Option<PadId> {
        let mut vacant = self.vacant.borrow_mut();
        let fits = |pad: &PadId| match self.keeper.size(*pad) {
            size if size >= pls => (false, size - pls),
            size => (true, pls - size),
        };
        let place = (0..vacant.len()).min_by_key(|place| fits(&vacant[*place]))?;
        Some(vacant.swap_remove(place))
    }

    /// Among the ready pads with `pls` processes, takes the smallest.
    fn pop(&self, pls: u16) -> Option<PadId> {
        let mut ready = self.ready.borrow_mut();
        let enough = ready.iter().enumerate().filter(|(_, (_, waiting))| *waiting >= pls);
        let (place, _) = enough.min_by_key(|(_, (_, waiting))| *waiting)?;
        ready.remove(place).map(|(pad, _)| pad)
    }

    fn pop_any(&self) -> Option<PadId> {
        self.ready.borrow_mut().pop_front().map(|(pad, _)| pad)
    }
}
