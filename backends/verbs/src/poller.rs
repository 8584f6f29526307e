//! Takes the completions of all lanes of a member: asleep on one channel until one of
//! them has something, or looking for more for a while first.
//!
//! Who looks is the reader that was the last to begin to wait, in its own task: what comes for
//! it is handed to nobody, and no task is woken. Now and then it looks for all the others, and
//! gives way to whom that makes ready. When it has found something it is expected back: the
//! driver looks only where no reader does for a while. The runtime's own look at sockets and
//! timers takes two system calls, several times what a completion in memory costs, and has its
//! turn less often.

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

/// How long sockets, timers and other processes may wait for their turn while this member looks
/// in vain: little beside what a wake-up takes, and longer than an answer does.
const TURN: Duration = Duration::from_micros(50);
/// How long sockets and timers may wait while one completion follows another.
const SOCKETS: Duration = Duration::from_micros(200);
/// How long a reader who has found something may stay away before the driver looks in its
/// place: to work off a message takes less, and no timer is finer.
const ABSENCE: Duration = Duration::from_millis(1);

/// What has a completion queue: a lane, or a member's part in the group.
pub(crate) trait Polled: fmt::Debug {
    /// A notification was taken: there will be none until it is armed again.
    fn notified(&self);

    /// Works off the completions that are here; whether somebody who waited can go on.
    fn progress(&self) -> bool;

    /// The same though nothing may have come: something else is not as it was.
    fn revisit(&self) {
        self.progress();
    }

    /// Sees to it that a notification comes for what is waited for; whether there was
    /// something already.
    fn arm(&self) -> bool;

    /// Whether the first request under way is the same as when this was last asked.
    fn is_stuck(&self) -> bool;

    /// The device is gone, and so is what goes through it.
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
    /// Who looks: the driver, a reader, or the one who is expected back.
    looker: Cell<u64>,
    last_looker: Cell<u64>,
    /// A reader has looked for as long as is set, and there was nothing.
    quiet: Cell<bool>,
    /// When sockets and timers have their turn again.
    sockets_at: Cell<Instant>,
    /// Nobody but the driver looks any more.
    given_back: Notify,
}

/// Nobody means to look in vain for longer.
const MAX_SPIN: Duration = Duration::from_secs(3600);
/// The driver as one who looks.
const DRIVER: u64 = 0;
/// A reader has found something and will be back.
const AWAY: u64 = u64::MAX;
/// Looks in vain at what is waited for between two looks at everything and at the clock.
const LOOKS: u32 = 32;
/// The same before who can go on has a turn for the first time: an answer that comes meanwhile
/// waits for nobody. On an adapter that is the microsecond or two that one takes.
const FIRST_LOOKS: u32 = 160;

/// How looking has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// What was looked for is here.
    Found,
    /// There was nothing for as long as is set.
    Quiet,
    /// Somebody else looks.
    Taken,
}

/// How far a reader has come in looking.
#[derive(Debug)]
pub(crate) struct Looking {
    /// Its name while it looks.
    own: Cell<Option<u64>>,
    vain: Cell<Vain>,
    /// How often it may begin to look before the clock is read, and did.
    begins_per_clock: u32,
    begins: Cell<u32>,
}

/// Until when it is looked in vain, and until when nobody else has a turn: so long after the
/// clock is read for the next time where nothing is said.
#[derive(Clone, Copy, Debug, Default)]
struct Vain {
    /// Who can go on by what was read last had a turn.
    gave_way: bool,
    quiet_at: Option<Instant>,
    turn_at: Option<Instant>,
}

impl Looking {
    /// Of a reader who begins to look up to so many times without a look at the clock: what
    /// it works off in between is so short.
    pub(crate) fn new(begins_per_clock: u32) -> Looking {
        let (own, vain, begins) = Default::default();
        Looking { own, vain, begins_per_clock, begins }
    }

    /// Whether it is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.own.get().is_some()
    }
}

impl Poller {
    /// For the queues of `channel`. Must be called within a `LocalSet`.
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

    /// Where queues tell that they have something.
    pub(crate) fn channel(&self) -> &Arc<CompletionChannel> {
        &self.channel
    }

    /// A name for a queue that no other ever had.
    pub(crate) fn new_name(&self) -> usize {
        self.shared.last_name.set(self.shared.last_name.get() + 1);
        self.shared.last_name.get()
    }

    /// Takes the completions of what has the queue of this name, as long as it lives.
    pub(crate) fn add(&self, name: usize, one: &Rc<dyn Polled>) {
        let mut polled = self.shared.polled.borrow_mut();
        polled.retain(|(_, one)| one.strong_count() > 0);
        polled.push((name, Rc::downgrade(one)));
    }

    /// Has all look whether there is something to do.
    pub(crate) fn progress_all(&self) {
        self.shared.each(|one| {
            one.revisit();
            false
        });
    }

    /// Whether it looks for completions now: nothing has to be armed until it goes to
    /// sleep.
    pub(crate) fn is_looking(&self) -> bool {
        self.shared.looking.get()
    }

    /// The same, for who asks more often.
    pub(crate) fn looking(&self) -> Rc<Cell<bool>> {
        self.shared.looking.clone()
    }

    /// Looks in the place of the driver, in the task of a reader: what it waits for is then
    /// handed to nobody, and no task is woken. Whether it `has_come`. If not it will be told
    /// as it is to everybody; somebody else may be looking for it.
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
                // From here on nobody else looks.
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

    /// A reader does not look any longer, whatever comes.
    pub(crate) fn stop_looking(&self, looking: &Looking) {
        if looking.own.take().is_some_and(|own| self.shared.looker.get() == own) {
            self.shared.give_back();
        }
    }

    /// Somebody waits for something else than to read: no reader may be expected back.
    pub(crate) fn expect_nobody(&self) {
        if self.shared.looker.get() == AWAY {
            self.shared.give_back();
        }
    }

    /// Whether the first request of any lane is the same as when this was last asked.
    pub(crate) fn is_any_stuck(&self) -> bool {
        self.shared.each(|one| one.is_stuck())
    }

    /// The device is gone, and so are all lanes.
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
            // Who was notified goes first: what it sends is answered while this looks.
            tokio::task::yield_now().await;
            shared.drive_looking().await;
            shared.looking.set(false);
        }
        shared.each(|one| one.arm());
    }
}

impl Shared {
    /// Works off what the notifications are about, to the last of them.
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

    /// Looks, or lets readers look, until there was nothing for as long as is set.
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

    /// The driver is to look, or to see whether it has to go on.
    fn give_back(&self) {
        self.looker.set(DRIVER);
        self.given_back.notify_one();
    }

    /// Looks for completions as long as nobody else wants to: `has_come` looks at what is waited
    /// for here. Pending is who gives way to others, and goes on when they had their turn.
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
            // What is waited for here is looked at in one place, so that it is done without a call.
            let mut any = false;
            let mut looks = if vain.get().gave_way { LOOKS } else { FIRST_LOOKS };
            loop {
                if has_come() {
                    return Poll::Ready(Look::Found);
                }
                looks -= 1;
                match looks {
                    // What has come for this one comes before the turn of others.
                    1 => any = self.each(|one| one.progress()),
                    0 => break,
                    _ => {}
                }
            }
            let mut until = vain.get();
            if !until.gave_way {
                // Not sooner: an answer that is here already would come after their turn.
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

    /// Gives way to the tasks that can go on, as one can, or is said to; and to sockets and
    /// timers, when it is their turn. Who calls is woken when they had theirs.
    fn give_turn(&self, any: bool, context: &mut Context<'_>) {
        let now = Instant::now();
        if any && now < self.sockets_at.get() {
            // Only the tasks that can go on: tokio's own way has its runtime look at sockets
            // and timers first, by a system call, and wake itself by another one.
            return context.waker().wake_by_ref();
        }
        if !any {
            // Whoever else waits for this processor, such as the kernel's own work on what
            // arrives, is not to wait for the next tick.
            std::thread::yield_now();
        }
        self.sockets_at.set(now + SOCKETS);
        // Has it woken, and is not needed for more.
        let _ = pin!(tokio::task::yield_now()).poll(context);
    }

    /// Does `what` to all; whether it was so for any.
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
