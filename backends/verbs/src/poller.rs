//! Takes the completions of all lanes of a member: asleep on one channel until one of
//! them has something, or looking for more for a while first.
//!
//! While it looks, it gives way after each completion, so that what has come is worked
//! off at once, and else every [`TURN`]: the runtime's own look at sockets and timers
//! takes two system calls, several times what a completion in memory costs.

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
use tokio::task::AbortHandle;

/// How long others may wait for their turn while this member looks for completions: no
/// longer than a wake-up takes.
const TURN: Duration = Duration::from_micros(20);
/// How long sockets and timers may wait while one completion follows another.
const SOCKETS: Duration = Duration::from_micros(200);

/// What has a completion queue: a lane, or a member's part in the group.
pub(crate) trait Polled: fmt::Debug {
    /// A notification was taken: there will be none until it is armed again.
    fn notified(&self);

    /// Works off the completions that are here; whether somebody who waited can go on.
    fn progress(&self) -> bool;

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
        let (polled, last_name, looking) = (RefCell::default(), Cell::new(0), Cell::new(false));
        let shared = Rc::new(Shared { spin, polled, last_name, looking });
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
        self.shared.each(|one| one.progress());
    }

    /// Whether it looks for completions now: nothing has to be armed until it goes to
    /// sleep.
    pub(crate) fn is_looking(&self) -> bool {
        self.shared.looking.get()
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
        shared.looking.set(true);
        shared.look().await;
        shared.looking.set(false);
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

    /// Looks for completions until there were none for as long as is set.
    async fn look(&self) {
        if self.spin.is_zero() {
            return;
        }
        // Who was notified goes first: what it sends is answered while this looks.
        tokio::task::yield_now().await;
        let mut quiet_since = Instant::now();
        let mut turn_since = quiet_since;
        let mut sockets_since = quiet_since;
        loop {
            let any = self.each(|one| one.progress());
            let now = Instant::now();
            if !any && now - quiet_since >= self.spin {
                return;
            }
            if !any && now - turn_since < TURN {
                continue;
            }
            if any && now - sockets_since < SOCKETS {
                give_way().await;
            } else {
                if !any {
                    // Whoever else waits for this processor, such as the kernel's own work
                    // on what arrives, is not to wait for the next tick.
                    std::thread::yield_now();
                }
                tokio::task::yield_now().await;
                sockets_since = Instant::now();
            }
            turn_since = Instant::now();
            if any {
                quiet_since = turn_since;
            }
        }
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
