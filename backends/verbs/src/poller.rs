//! Processes the completions of all lanes of a member. It sleeps on one channel until one of them
//! has a completion, or polls for a while first.
//!
//! The reader that began to wait last polls, in its own task, so its message needs no hand-over and
//! wakes no task. Now and then it also polls for all other lanes, and yields to the tasks that
//! become ready. When it has found a message, it is expected to wait again soon. The driver polls
//! only if no reader polls for a while.
//!
//! The runtime needs two system calls to check sockets and timers, several times the cost of a
//! completion in memory. It therefore checks them less often.

use crate::VerbsError;
use crate::guard::CompletionChannel;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long sockets, timers and other processes may wait for their turn while this member polls
/// without finding anything. The time is short compared with a wake-up, and longer than an answer
/// takes.
const TURN: Duration = Duration::from_micros(50);
/// How long sockets and timers may wait while one completion follows another.
const SOCKETS: Duration = Duration::from_micros(200);
/// How long a reader that found something may stay away before the driver polls in its place. A
/// reader processes a message faster, and no timer is finer.
const ABSENCE: Duration = Duration::from_millis(1);

/// The owner of a completion queue: a lane, or a member's part in the group.
pub(crate) trait Polled: fmt::Debug {
    /// A notification was taken. No other follows until the queue is armed again.
    fn notified(&self);

    /// Processes the completions present. Returns whether a waiting task can continue.
    fn progress(&self) -> bool;

    /// Does the same as `progress`, even if no completion has arrived, because something else has
    /// changed.
    fn revisit(&self) {
        self.progress();
    }

    /// Arms the queue for the completions that its owner needs. Returns whether one had arrived
    /// before.
    fn arm(&self) -> bool;

    /// Whether the oldest request under way is the same as at the last call.
    fn is_stuck(&self) -> bool;

    /// The device is gone, and this object with it.
    fn device_gone(&self);
}

/// The completions of one member.
#[derive(Debug)]
pub(crate) struct Poller {
    shared: Rc<Shared>,
    channel: Arc<CompletionChannel>,
    driver: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    spin: Duration,
    polled: RefCell<Vec<(usize, Weak<dyn Polled>)>>,
    last_name: Cell<usize>,
    looking: Rc<Cell<bool>>,
    /// The poller: the driver, a reader, or a reader that is expected back.
    looker: Cell<u64>,
    last_looker: Cell<u64>,
    /// A reader polled for `spin` and found nothing.
    quiet: Cell<bool>,
    /// When sockets and timers have their next turn.
    sockets_at: Cell<Instant>,
    /// The driver is to poll again.
    given_back: Notify,
}

/// The longest `spin`. Longer settings are reduced to it.
const MAX_SPIN: Duration = Duration::from_secs(3600);
/// The value of `looker` for the driver.
const DRIVER: u64 = 0;
/// The value of `looker` when a reader has found something and will be back.
const AWAY: u64 = u64::MAX;
/// Polls of the reader's own lane between two polls of all lanes and readings of the clock.
const LOOKS: u32 = 32;
/// The polls before other tasks have their first turn. An answer that arrives meanwhile need not
/// wait for them. On an adapter they take the microsecond or two that an answer takes.
const FIRST_LOOKS: u32 = 160;

/// How polling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// The awaited message is here.
    Found,
    /// No completion arrived for `spin`.
    Quiet,
    /// Another task polls.
    Taken,
}

/// The progress of a reader that polls.
#[derive(Debug)]
pub(crate) struct Looking {
    /// The reader's name while it polls.
    own: Cell<Option<u64>>,
    vain: Cell<Vain>,
    /// How many times the reader may begin to poll without reading the clock.
    begins_per_clock: u32,
    begins: Cell<u32>,
}

/// `quiet_at`: when to stop if nothing is found. `turn_at`: when other tasks get their turn. `None`
/// counts from the next reading of the clock.
#[derive(Clone, Copy, Debug, Default)]
struct Vain {
    /// Whether tasks that became ready by the last read had a turn.
    gave_way: bool,
    quiet_at: Option<Instant>,
    turn_at: Option<Instant>,
}

impl Looking {
    /// For a reader that may begin to poll up to `begins_per_clock` times without reading the
    /// clock, because its work in between is short.
    pub(crate) fn new(begins_per_clock: u32) -> Looking {
        let (own, vain, begins) = Default::default();
        Looking { own, vain, begins_per_clock, begins }
    }

    /// Whether the reader polls.
    pub(crate) fn is_under_way(&self) -> bool {
        self.own.get().is_some()
    }
}

impl Poller {
    /// A poller for the queues of `channel`. Must be called within a `LocalSet`.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub(crate) fn start(
        channel: Arc<CompletionChannel>,
        spin: Duration,
    ) -> Result<Poller, VerbsError> {
        let shared = Rc::new(Shared {
            spin: spin.min(MAX_SPIN),
            polled: RefCell::default(),
            last_name: Cell::new(0),
            looking: Rc::default(),
            looker: Cell::new(DRIVER),
            last_looker: Cell::new(DRIVER),
            quiet: Cell::new(false),
            sockets_at: Cell::new(Instant::now()),
            given_back: Notify::new(),
        });
        let readable = crate::watch::channel(&channel)?;
        let driver = tokio::task::spawn_local(drive(shared.clone(), readable)).abort_handle();
        Ok(Poller { shared, channel, driver })
    }

    /// The channel by which queues notify.
    pub(crate) fn channel(&self) -> &Arc<CompletionChannel> {
        &self.channel
    }

    /// A new name for a queue, never used before.
    pub(crate) fn new_name(&self) -> usize {
        self.shared.last_name.set(self.shared.last_name.get() + 1);
        self.shared.last_name.get()
    }

    /// Adds the owner of the queue `name`. Its completions are processed until it is dropped.
    pub(crate) fn add(&self, name: usize, one: &Rc<dyn Polled>) {
        let mut polled = self.shared.polled.borrow_mut();
        polled.retain(|(_, one)| one.strong_count() > 0);
        polled.push((name, Rc::downgrade(one)));
    }

    /// Makes all owners check for work.
    pub(crate) fn progress_all(&self) {
        self.shared.each(|one| {
            one.revisit();
            false
        });
    }

    /// Whether this member polls now: queues need no arming until it begins to sleep.
    pub(crate) fn is_looking(&self) -> bool {
        self.shared.looking.get()
    }

    /// [`is_looking`](Self::is_looking) as a shared cell, for frequent use.
    pub(crate) fn looking(&self) -> Rc<Cell<bool>> {
        self.shared.looking.clone()
    }

    /// Polls in place of the driver, in the task of a reader, so the reader's message needs no
    /// hand-over and wakes no task. Returns whether it `has_come`. If false, another reader may
    /// poll, and this reader must wait to be woken.
    pub(crate) fn poll_look(
        &self,
        looking: &Looking,
        context: &mut Context<'_>,
        has_come: impl Fn() -> bool,
    ) -> Poll<bool> {
        let shared = &*self.shared;
        let own = match looking.own.get() {
            Some(own) => own,
            None => {
                // From here on, only this reader polls.
                let own = shared.last_looker.get() + 1;
                shared.last_looker.set(own);
                shared.looker.set(own);
                looking.own.set(Some(own));
                let begins = looking.begins.get() + 1;
                looking.begins.set(begins % looking.begins_per_clock);
                let gives_way = begins == looking.begins_per_clock;
                looking.vain.set(Vain { gave_way: gives_way, ..Vain::default() });
                if gives_way {
                    shared.give_turn(true, context);
                    return Poll::Pending;
                }
                own
            }
        };
        let look = ready!(shared.poll_look(own, &looking.vain, context, &has_come));
        looking.own.set(None);
        shared.quiet.set(look == Look::Quiet);
        match look {
            Look::Found => shared.looker.set(AWAY),
            Look::Quiet => shared.give_back(),
            Look::Taken => {}
        }
        Poll::Ready(look == Look::Found)
    }

    /// The reader stops polling.
    pub(crate) fn stop_looking(&self, looking: &Looking) {
        if looking.own.take().is_some_and(|own| self.shared.looker.get() == own) {
            self.shared.give_back();
        }
    }

    /// Records that a task waits for something other than a read. No reader is expected back.
    pub(crate) fn expect_nobody(&self) {
        if self.shared.looker.get() == AWAY {
            self.shared.give_back();
        }
    }

    /// Whether the oldest request of any lane is the same as at the last call.
    pub(crate) fn is_any_stuck(&self) -> bool {
        self.shared.each(|one| one.is_stuck())
    }

    /// The device is gone. Ends all lanes.
    pub(crate) fn device_gone(&self) {
        self.shared.device_gone();
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn drive(shared: Rc<Shared>, channel: AsyncFd<Arc<CompletionChannel>>) {
    loop {
        let Ok(mut guard) = channel.readable().await else { return };
        match shared.take_notifications(channel.get_ref()) {
            Ok(()) => guard.clear_ready(),
            Err(error) => {
                tracing::warn!(%error, "the completion channel cannot be read");
                return shared.device_gone();
            }
        }
        drop(guard);
        if !shared.spin.is_zero() {
            shared.looking.set(true);
            // Let the notified tasks run first. Their messages are answered while this task polls.
            tokio::task::yield_now().await;
            shared.drive_looking().await;
            shared.looking.set(false);
        }
        shared.each(|one| one.arm());
    }
}

impl Shared {
    /// Processes all pending notifications.
    fn take_notifications(&self, channel: &CompletionChannel) -> io::Result<()> {
        loop {
            match channel.take_notification() {
                Ok(name) => {
                    if let Some(one) = self.find(name) {
                        one.notified();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn find(&self, name: usize) -> Option<Rc<dyn Polled>> {
        let polled = self.polled.borrow();
        polled.iter().find(|(other, _)| *other == name)?.1.upgrade()
    }

    /// Polls, or lets readers poll, until no completion arrived for `spin`.
    async fn drive_looking(&self) {
        loop {
            let vain = Cell::new(Vain { gave_way: true, ..Vain::default() });
            let look = poll_fn(|context| self.poll_look(DRIVER, &vain, context, &|| false));
            if look.await == Look::Quiet {
                return;
            }
            let mut seen = self.last_looker.get();
            while self.looker.get() != DRIVER {
                let told = tokio::time::timeout(ABSENCE, self.given_back.notified()).await;
                let last = self.last_looker.get();
                if told.is_err() && self.looker.get() == AWAY && last == seen {
                    self.looker.set(DRIVER);
                }
                seen = last;
            }
            if self.quiet.take() {
                return;
            }
        }
    }

    /// Returns polling to the driver, which may stop polling.
    fn give_back(&self) {
        self.looker.set(DRIVER);
        self.given_back.notify_one();
    }

    /// Polls for completions until another reader or the driver takes over. `has_come` checks for
    /// the caller's own message. Returns `Pending` to yield to other tasks, and continues after
    /// their turn.
    fn poll_look(
        &self,
        own: u64,
        vain: &Cell<Vain>,
        context: &mut Context<'_>,
        has_come: &impl Fn() -> bool,
    ) -> Poll<Look> {
        loop {
            if self.looker.get() != own {
                return Poll::Ready(Look::Taken);
            }
            // A single call site of `has_come`, so that it is inlined.
            let mut any = false;
            let mut looks = if vain.get().gave_way { LOOKS } else { FIRST_LOOKS };
            loop {
                if has_come() {
                    return Poll::Ready(Look::Found);
                }
                looks -= 1;
                match looks {
                    // The caller's own message comes before the turn of others.
                    1 => any = self.each(|one| one.progress()),
                    0 => break,
                    _ => {}
                }
            }
            let mut until = vain.get();
            if !until.gave_way {
                // Yield only now: an answer that has already arrived would otherwise wait for the
                // other tasks.
                vain.set(Vain { gave_way: true, ..until });
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let now = Instant::now();
            let quiet_at = *until.quiet_at.get_or_insert_with(|| now + self.spin);
            let turn_at = *until.turn_at.get_or_insert_with(|| now + TURN);
            if !any && now >= quiet_at {
                return Poll::Ready(Look::Quiet);
            }
            if any || now >= turn_at {
                until.quiet_at = until.quiet_at.filter(|_| !any);
                vain.set(Vain { turn_at: None, ..until });
                self.give_turn(any, context);
                return Poll::Pending;
            }
            vain.set(until);
        }
    }

    /// Yields to the tasks that are ready, if `any` is true, and to sockets and timers when it is
    /// their turn. The caller is woken after them.
    fn give_turn(&self, any: bool, context: &mut Context<'_>) {
        let now = Instant::now();
        if any && now < self.sockets_at.get() {
            // Wake only the ready tasks. Tokio's `yield_now` would first check sockets and timers
            // by a system call, and wake itself by another.
            return context.waker().wake_by_ref();
        }
        if !any {
            // Other users of this processor, such as the kernel's work on arrivals, should not wait
            // for the next tick.
            std::thread::yield_now();
        }
        self.sockets_at.set(now + SOCKETS);
        // Registers a wake-up; the future itself is not needed.
        let _ = pin!(tokio::task::yield_now()).poll(context);
    }

    /// Calls `what` on all. Returns whether any returned true.
    fn each(&self, what: impl Fn(&dyn Polled) -> bool) -> bool {
        let mut any = false;
        for (_, one) in self.polled.borrow().iter() {
            any |= one.upgrade().is_some_and(|one| what(&*one));
        }
        any
    }

    fn device_gone(&self) {
        let polled = std::mem::take(&mut *self.polled.borrow_mut());
        polled.iter().filter_map(|(_, one)| one.upgrade()).for_each(|one| one.device_gone());
    }
}
