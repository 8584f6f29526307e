//! Real time and tokio tasks behind the [`Runtime`] trait.
//!
//! Timers do not use `tokio::time`, because its wheel turns only once a millisecond. All sleepers
//! share one timerfd, armed for the earliest of them.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use storm_primitives::{Instant, Runtime, Task};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The clock (CLOCK_MONOTONIC) and executor of a thread that runs a
/// `tokio::task::LocalSet` on a current-thread runtime. Clones share both.
#[derive(Clone)]
pub struct TcpRuntime {
    timers: Rc<RefCell<Timers>>,
    _driver: Rc<Task>,
}

/// The timerfd, as tokio wants it.
struct Timer(TimerFd);

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

struct Timers {
    fd: Rc<AsyncFd<Timer>>,
    sleepers: BTreeMap<(Instant, u64), Waker>,
    next_id: u64,
    armed: Option<Instant>,
}

impl TcpRuntime {
    /// Must be called within a `LocalSet`. The timers work until the set is dropped.
    ///
    /// # Errors
    /// The system has no timer left.
    pub fn new() -> io::Result<TcpRuntime> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let fd = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // SAFETY: `Timer` reports the descriptor that it owns. The descriptor stays the same and
        // open until `Timer` is dropped.
        let fd = unsafe { AsyncFd::register_with_interest(Timer(fd), Interest::READABLE)? };
        let fd = Rc::new(fd);
        let sleepers = BTreeMap::new();
        let timers = Timers { fd: fd.clone(), sleepers, next_id: 0, armed: None };
        let timers = Rc::new(RefCell::new(timers));
        let driver = spawn(drive(fd, Rc::downgrade(&timers)));
        Ok(TcpRuntime { timers, _driver: Rc::new(driver) })
    }

    /// The time now.
    pub(crate) fn clock() -> Instant {
        now()
    }
}

impl Runtime for TcpRuntime {
    fn now(&self) -> Instant {
        now()
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + 'static {
        Sleep { timers: self.timers.clone(), deadline, key: None }
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Task {
        spawn(future)
    }
}

impl std::fmt::Debug for TcpRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpRuntime").finish_non_exhaustive()
    }
}

fn spawn(future: impl Future<Output = ()> + 'static) -> Task {
    let handle = tokio::task::spawn_local(future);
    Task::new(move || handle.abort())
}

fn now() -> Instant {
    // CLOCK_MONOTONIC exists on every Linux, so the default is never used.
    let since = clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map(Duration::from);
    Instant::ORIGIN + since.unwrap_or_default()
}

/// Wakes the sleepers that are due, each time the timer fires.
async fn drive(fd: Rc<AsyncFd<Timer>>, timers: Weak<RefCell<Timers>>) {
    loop {
        let Ok(mut guard) = fd.readable().await else { return };
        // Reading the number of expirations disarms the notification; the number itself is not
        // needed.
        let _ = guard.get_inner().0.wait();
        guard.clear_ready();
        let Some(timers) = timers.upgrade() else { return };
        let due = timers.borrow_mut().take_due(now());
        due.into_iter().for_each(Waker::wake);
    }
}

impl Timers {
    fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let later = self.sleepers.split_off(&(now + Duration::from_nanos(1), 0));
        let due = std::mem::replace(&mut self.sleepers, later);
        self.armed = None;
        self.arm();
        due.into_values().collect()
    }

    /// Arms the timer for the earliest sleeper, unless it is armed already.
    fn arm(&mut self) {
        let Some(((first, _), _)) = self.sleepers.first_key_value() else { return };
        if self.armed.is_some_and(|armed| armed <= *first) {
            // At worst the timer fires early, and is armed again.
            return;
        }
        let at = TimeSpec::from_duration(first.since_origin());
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        match self.fd.get_ref().0.set(Expiration::OneShot(at), flags) {
            Ok(()) => self.armed = Some(*first),
            Err(error) => tracing::error!(%error, "the timer cannot be set"),
        }
    }
}

/// The future of one sleeper.
struct Sleep {
    timers: Rc<RefCell<Timers>>,
    deadline: Instant,
    key: Option<(Instant, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if now() >= self.deadline {
            return Poll::Ready(());
        }
        let timers = self.timers.clone();
        let mut timers = timers.borrow_mut();
        let key = match self.key {
            Some(key) => key,
            None => {
                timers.next_id += 1;
                (self.deadline, timers.next_id)
            }
        };
        self.key = Some(key);
        timers.sleepers.insert(key, cx.waker().clone());
        timers.arm();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.timers.borrow_mut().sleepers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sleeper_wakes_and_none_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let clock = TcpRuntime::new().expect("a timer");
            // The test does not check the order of the sleepers: it depends on how often this
            // thread runs.
            let sleep = async |ms: u64| {
                let begun = clock.now();
                clock.sleep(Duration::from_millis(ms)).await;
                assert!(clock.now() - begun >= Duration::from_millis(ms), "{ms} ms");
            };
            futures_util::join!(sleep(6), sleep(2), sleep(4), sleep(0));
        });
    }
}
