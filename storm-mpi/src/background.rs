//! Background work of a process: futures that advance whenever the process moves bytes.
//!
//! The module is not a general executor. A future here waits only for messages of its own process,
//! and all futures are polled when some messages have moved. No thread moves bytes meanwhile, which
//! the standard allows (weak progress, MPI-4.1, section 2.9).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Futures that are not done.
#[derive(Default)]
pub(crate) struct Background {
    /// Futures in the order in which they began.
    running: RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>,
    count: Cell<usize>,
    /// Number of messages so far that a future had waited for.
    steps: Cell<u64>,
}

/// The result of a future that runs in the background.
pub struct Outstanding<T> {
    outcome: Rc<RefCell<Option<T>>>,
}

impl Background {
    /// Whether no future is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Polls a future, and keeps it until it is done.
    pub(crate) fn begin<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> Outstanding<T> {
        let outcome = Rc::new(RefCell::new(None));
        let place = Rc::clone(&outcome);
        let mut future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            let done = future.await;
            place.replace(Some(done));
        });
        if future.as_mut().poll(&mut context()).is_pending() {
            self.running.borrow_mut().push(future);
            self.count.set(self.count.get() + 1);
        }
        Outstanding { outcome }
    }

    /// Records that a future has received a message that it waited for.
    pub(crate) fn stepped(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    /// Polls all futures until none advances. Returns whether any did.
    pub(crate) fn poll(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        let before = self.steps.get();
        loop {
            let round = self.steps.get();
            // The list is taken out, so a reduction operation of the program that calls the library
            // finds it empty.
            let mut running = std::mem::take(&mut *self.running.borrow_mut());
            running.retain_mut(|future| future.as_mut().poll(&mut context()).is_pending());
            let mut kept = self.running.borrow_mut();
            running.append(&mut kept);
            *kept = running;
            self.count.set(kept.len());
            if kept.is_empty() || self.steps.get() == round {
                return self.steps.get() != before;
            }
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<T> Outstanding<T> {
    /// Whether the future is done. Moves no bytes.
    pub fn is_done(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// Takes the result. `None` before the future is done, and after the result was taken once.
    pub fn take(&self) -> Option<T> {
        self.outcome.borrow_mut().take()
    }
}

impl<T> fmt::Debug for Outstanding<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outstanding").field("done", &self.is_done()).finish()
    }
}

/// No task must be woken: futures are polled when bytes have moved.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    #[test]
    fn a_future_that_another_waits_for_lets_it_go_on_in_the_same_call() {
        let background = Rc::new(Background::default());
        let news = Rc::new(Cell::new(0));
        let waiting = |for_news: u32, makes: u32| {
            let (news, of) = (Rc::clone(&news), Rc::clone(&background));
            poll_fn(move |_| {
                if news.get() < for_news {
                    return Poll::Pending;
                }
                of.stepped();
                news.set(makes);
                Poll::Ready(makes)
            })
        };
        let second = background.begin(waiting(2, 3));
        let first = background.begin(waiting(1, 2));
        assert!(!background.poll() && !background.is_empty(), "there was no news");
        news.set(1);
        assert!(background.poll() && background.is_empty());
        assert_eq!((first.take(), second.take(), second.take()), (Some(2), Some(3), None));
    }

    #[test]
    fn operations_without_dependencies_are_done_at_once() {
        let background = Background::default();
        let done = background.begin(async { 7 });
        assert!(background.is_empty() && done.is_done());
        assert_eq!(done.take(), Some(7));
    }
}
