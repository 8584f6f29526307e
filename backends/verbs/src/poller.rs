//! Takes the completions of all lanes of a member: asleep on one channel until one of
//! them has something, or looking for more for a while first.
//!
//! Who looks is the reader that was the last to begin to wait, in its own task: what comes for
//! it is handed to nobody, and no task is woken. Now and then it looks for all the others, and
//! gives way to whom that makes ready. Without such a reader the driver looks. The runtime's
//! own look at sockets and timers takes two system calls, several times what a completion
//! in memory costs, and has its turn less often.

use crate::VerbsError;
use crate::guard::CompletionChannel;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long sockets, timers and other processes may wait for their turn while this member looks
/// in vain: little beside what a wake-up takes, and longer than an answer does.
const TURN: Duration = Duration::from_micros(50);
/// How long sockets and timers may wait while one completion follows another.
const SOCKETS: Duration = Duration::from_micros(200);

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
    looking: Cell<bool>,
    /// Who looks: the driver, or the reader who was the last to begin to wait.
    looker: Cell<u64>,
    last_looker: Cell<u64>,
    /// A reader has looked for as long as is set, and there was nothing.
    quiet: Cell<bool>,
    /// When sockets and timers last had their turn.
    sockets_since: Cell<Instant>,
    /// Nobody but the driver looks any more.
    given_back: Notify,
    /// The driver was told and did not run yet.
    is_driver_awake: Cell<bool>,
}

/// The driver as one who looks.
const DRIVER: u64 = 0;
/// Looks in vain at what is waited for between two looks at everything and at the clock.
const LOOKS: u32 = 16;

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

/// A reader looks, as long as this lives and nobody takes over.
struct Looker<'a> {
    shared: &'a Shared,
    own: u64,
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
            spin,
            polled: RefCell::default(),
            last_name: Cell::new(0),
            looking: Cell::new(false),
            looker: Cell::new(DRIVER),
            last_looker: Cell::new(DRIVER),
            quiet: Cell::new(false),
            sockets_since: Cell::new(Instant::now()),
            given_back: Notify::new(),
            is_driver_awake: Cell::new(false),
        });
        let readable = channel.clone().watch()?;
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

    /// Looks in the place of the driver, in the task of a reader: what it waits for is then
    /// handed to nobody, and no task is woken. Whether it `has_come`. If not it will be told
    /// as it is to everybody; somebody else may be looking for it.
    pub(crate) async fn look_until(&self, has_come: impl Fn() -> bool) -> bool {
        let looker = Looker::new(&self.shared);
        // Who can go on by what was read last goes first.
        self.shared.give_turn(true).await;
        let look = self.shared.look(looker.own, &has_come).await;
        drop(looker);
        self.shared.quiet.set(look == Look::Quiet);
        look == Look::Found
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
            if self.look(DRIVER, &|| false).await == Look::Quiet {
                return;
            }
            while self.looker.get() != DRIVER {
                self.given_back.notified().await;
                self.is_driver_awake.set(false);
            }
            if self.quiet.take() {
                return;
            }
        }
    }

    /// The driver is to see whether it has to go on, when it has its turn.
    fn wake_driver(&self) {
        if !self.is_driver_awake.replace(true) {
            self.given_back.notify_one();
        }
    }

    /// Looks for completions as long as nobody else wants to: `has_come` looks at what is waited
    /// for here.
    async fn look(&self, own: u64, has_come: &impl Fn() -> bool) -> Look {
        let mut quiet_since = Instant::now();
        let mut turn_since = quiet_since;
        loop {
            if self.looker.get() != own {
                return Look::Taken;
            }
            if own != DRIVER {
                // Before something comes and not then: who goes on with that has no time.
                self.wake_driver();
            }
            for _ in 0..LOOKS {
                if has_come() {
                    return Look::Found;
                }
            }
            let any = self.each(|one| one.progress());
            if has_come() {
                return Look::Found;
            }
            let now = Instant::now();
            if !any && now - quiet_since >= self.spin {
                return Look::Quiet;
            }
            if !any && now - turn_since < TURN {
                continue;
            }
            self.give_turn(any).await;
            turn_since = Instant::now();
            if any {
                quiet_since = turn_since;
            }
        }
    }

    /// Gives way to the tasks that can go on, as one can, or is said to; and to sockets and
    /// timers, when it is their turn.
    async fn give_turn(&self, any: bool) {
        if any && self.sockets_since.get().elapsed() < SOCKETS {
            return give_way().await;
        }
        if !any {
            // Whoever else waits for this processor, such as the kernel's own work on what
            // arrives, is not to wait for the next tick.
            std::thread::yield_now();
        }
        tokio::task::yield_now().await;
        self.sockets_since.set(Instant::now());
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

impl<'a> Looker<'a> {
    /// From here on nobody else looks.
    fn new(shared: &'a Shared) -> Looker<'a> {
        let own = shared.last_looker.get() + 1;
        shared.last_looker.set(own);
        shared.looker.set(own);
        Looker { shared, own }
    }
}

impl Drop for Looker<'_> {
    fn drop(&mut self) {
        if self.shared.looker.get() == self.own {
            self.shared.looker.set(DRIVER);
            self.shared.wake_driver();
        }
    }
}

/// Lets the tasks go on that can, and no more: tokio's own way has its runtime look at sockets
/// and timers first, by a system call, and wake itself by another one.
async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
