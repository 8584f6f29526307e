//! Wakes tasks of the same thread that wait for a change of shared state.
//!
//! `tokio::sync::Notify` keeps the wakers. It needs no runtime of tokio, so a bell rings in virtual
//! time too. [Decision 0144](../../docs/decisions/0144-rooms-of-the-driver.md) gives the reason why
//! daemons do not use `Notify` by itself.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::sync::Notify;

/// Lets tasks wait for a ring.
///
/// A bell has either any number of waiters that use [`until`](Self::until), or one waiter that uses
/// [`heard`](Self::heard).
#[derive(Debug, Default)]
pub struct Bell {
    notify: Notify,
    /// Whether there was a ring since the last return of `heard`.
    rung: Cell<bool>,
}

impl Bell {
    /// Wakes all waiting tasks, in the order in which they began to wait. A task that waits later
    /// does not miss the ring: `heard` remembers it, and `until` calls `ready` before it waits.
    pub fn ring(&self) {
        self.rung.set(true);
        self.notify.notify_waiters();
    }

    /// Waits for a ring; returns at once if there was one since the last return. Several rings
    /// before a return count as a single ring, even if the bell rings again after the task was
    /// woken.
    pub async fn heard(&self) {
        self.until(|| self.rung.take().then_some(())).await;
    }

    /// Waits until `ready` returns a value. Calls `ready` whenever the task runs, and thus at least
    /// after each ring.
    pub async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut ring = pin!(self.notify.notified());
        poll_fn(|cx| {
            loop {
                if let Some(value) = ready() {
                    return Poll::Ready(value);
                }
                if ring.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                ring.set(self.notify.notified());
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_ring_before_the_wait_is_heard_once() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        assert!(bell.heard().now_or_never().is_some());
        assert!(bell.heard().now_or_never().is_none());
    }

    /// With `Notify` alone the second ring is kept, and the manager polled all nodes twice.
    #[test]
    fn rings_while_a_task_is_woken_are_one() {
        let bell = Bell::default();
        let mut first = Box::pin(bell.heard());
        assert!(first.as_mut().now_or_never().is_none());
        bell.ring();
        bell.ring();
        assert!(first.as_mut().now_or_never().is_some());
        assert!(bell.heard().now_or_never().is_none());
    }

    #[test]
    fn a_wait_that_is_given_up_after_a_ring_loses_nothing() {
        let bell = Bell::default();
        let mut given_up = Box::pin(bell.heard());
        assert!(given_up.as_mut().now_or_never().is_none());
        bell.ring();
        drop(given_up);
        assert!(bell.heard().now_or_never().is_some());
    }

    #[test]
    fn all_tasks_that_wait_are_woken_and_each_asks_for_itself() {
        let (bell, value) = (Bell::default(), &Cell::new(0));
        let above = |least: u32| bell.until(move || Some(value.get()).filter(|now| *now > least));
        let (mut small, mut large) = (Box::pin(above(0)), Box::pin(above(1)));
        assert!(small.as_mut().now_or_never().is_none());
        assert!(large.as_mut().now_or_never().is_none());
        value.set(1);
        bell.ring();
        assert_eq!(small.as_mut().now_or_never(), Some(1));
        assert!(large.as_mut().now_or_never().is_none());
        value.set(2);
        bell.ring();
        assert_eq!(large.as_mut().now_or_never(), Some(2));
    }
}
