//! Wakes tasks of the same thread that wait for a change of shared state. The bell uses no
//! executor, so that the node manager runs on any.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Lets any number of tasks wait.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waiters: RefCell<Vec<Waker>>,
}

impl Bell {
    /// Wakes all waiting tasks.
    pub(crate) fn ring(&self) {
        self.waiters.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until `ready` returns a value. Asks again after every ring.
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| {
            if let Some(value) = ready() {
                return Poll::Ready(value);
            }
            let mut waiters = self.waiters.borrow_mut();
            if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}
