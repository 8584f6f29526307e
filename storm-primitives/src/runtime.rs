//! The clock, the timers and the tasks that an algorithm uses.
//!
//! Real and virtual time implement the same trait, so an algorithm cannot detect on which it runs.
//! Everything is single-threaded: futures need not be `Send`, and state is shared with `Rc`.

use crate::Instant;
use std::future::Future;
use std::time::Duration;

/// The clock and the executor of one node.
pub trait Runtime: Clone + 'static {
    /// The time now. Never decreases.
    fn now(&self) -> Instant;

    /// Completes at `deadline`, or at once when it has passed. Precise to tens
    /// of microseconds on a live backend: fit for quanta below a millisecond.
    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + 'static;

    /// Runs `future` concurrently on this node's thread until it completes or
    /// the returned [`Task`] is dropped.
    #[must_use = "dropping the task cancels it; call `detach` to let it run"]
    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Task;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.sleep_until(self.now() + duration)
    }

    /// The result of `future`, or `None` when `limit` passes first.
    fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        let timer = self.sleep(limit);
        async move {
            let future = std::pin::pin!(future);
            let timer = std::pin::pin!(timer);
            match futures_util::future::select(future, timer).await {
                futures_util::future::Either::Left((output, _)) => Some(output),
                futures_util::future::Either::Right(((), _)) => None,
            }
        }
    }
}

/// A running task; dropping it cancels the task.
pub struct Task {
    cancel: Option<Box<dyn FnOnce()>>,
}

impl Task {
    /// A task that `cancel` stops. For implementors of [`Runtime`].
    pub fn new(cancel: impl FnOnce() + 'static) -> Task {
        Task { cancel: Some(Box::new(cancel)) }
    }

    /// Lets the task run to its end without its owner.
    pub fn detach(mut self) {
        self.cancel = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}
