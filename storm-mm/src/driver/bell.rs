//! A bell wakes the task that waits for it. A ring while no task waits is kept for the next wait.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};

/// For one listener within one thread.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Cell<bool>,
    listener: RefCell<Option<Waker>>,
}

impl Bell {
    /// Wakes the listener.
    pub(super) fn ring(&self) {
        self.rung.set(true);
        if let Some(waker) = self.listener.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for a ring; returns at once if there was one since the last return.
    pub(super) async fn heard(&self) {
        std::future::poll_fn(|cx| {
            if self.rung.take() {
                return Poll::Ready(());
            }
            *self.listener.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
