//! Takes the completions of all lanes of a member: asleep on one channel until one of
//! them has something, or looking for more for a while first.
//!
//! While it looks, it gives way after each completion, so that what has come is worked
//! off at once, and else every [`TURN`]: the runtime's own look at sockets and timers
//! takes two system calls, several times what a completion in memory costs.

use crate::VerbsError;
use crate::guard::CompletionChannel;
use crate::lane::Lane;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

/// How long others may wait for their turn while this member looks for completions: no
/// longer than a wake-up takes.
const TURN: Duration = Duration::from_micros(20);

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
    lanes: RefCell<Vec<(usize, Weak<Lane>)>>,
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
        let (lanes, last_name, looking) = (RefCell::default(), Cell::new(0), Cell::new(false));
        let shared = Rc::new(Shared { spin, lanes, last_name, looking });
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

    /// Takes the completions of `lane`, whose queue has this name, as long as it lives.
    pub(crate) fn add(&self, name: usize, lane: &Rc<Lane>) {
        let mut lanes = self.shared.lanes.borrow_mut();
        lanes.retain(|(_, lane)| lane.strong_count() > 0);
        lanes.push((name, Rc::downgrade(lane)));
    }

    /// Whether it looks for completions now: nothing has to be armed until it goes to
    /// sleep.
    pub(crate) fn is_looking(&self) -> bool {
        self.shared.looking.get()
    }

    /// Whether the first request of any lane is the same as when this was last asked.
    pub(crate) fn is_any_stuck(&self) -> bool {
        self.shared.each(Lane::is_stuck)
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
        shared.each(Lane::arm);
    }
}

impl Shared {
    /// Works off what the notifications are about, to the last of them.
    fn take_notifications(&self, channel: &CompletionChannel) -> io::Result<()> {
        loop {
            match channel.take_notification() {
                Ok(name) => {
                    if let Some(lane) = self.find(name) {
                        lane.notified();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn find(&self, name: usize) -> Option<Rc<Lane>> {
        let lanes = self.lanes.borrow();
        lanes.iter().find(|(other, _)| *other == name)?.1.upgrade()
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
        loop {
            let any = self.each(Lane::progress);
            let now = Instant::now();
            if !any && now - quiet_since >= self.spin {
                return;
            }
            if !any && now - turn_since < TURN {
                continue;
            }
            if !any {
                // Whoever else waits for this processor, such as the kernel's own work on
                // what arrives, is not to wait for the next tick.
                std::thread::yield_now();
            }
            tokio::task::yield_now().await;
            turn_since = Instant::now();
            if any {
                quiet_since = turn_since;
            }
        }
    }

    /// Does `what` to all lanes; whether it was so for any.
    fn each(&self, what: impl Fn(&Lane) -> bool) -> bool {
        let mut any = false;
        for (_, lane) in self.lanes.borrow().iter() {
            any |= lane.upgrade().is_some_and(|lane| what(&lane));
        }
        any
    }

    fn device_gone(&self) {
        let lanes = std::mem::take(&mut *self.lanes.borrow_mut());
        lanes.iter().filter_map(|(_, lane)| lane.upgrade()).for_each(|lane| lane.device_gone());
    }
}
