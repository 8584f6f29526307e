//! The queue of one node's operations before the network. Each operation has a time before which it
//! may not leave, and none overtakes another. The node's order is thus kept.

use crate::answer_slot::{Answer, AnswerSlot};
use crate::{CompareAndWrite, Instant, Primitives, Runtime, Xfer};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Operations that wait at most; beyond it the first leaves before its time, for
/// XFER-AND-SIGNAL may not block.
const MAX_WAITING: usize = 4096;

type Question = Pin<Box<dyn Future<Output = Answer>>>;

/// Operations of one node that have not left yet. Clones share the lane.
pub(super) struct Lane<P> {
    inner: P,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Instant, Waiting)>,
    /// A task empties the lane.
    is_served: bool,
}

enum Waiting {
    Put(Xfer),
    Ask(CompareAndWrite, AnswerSlot),
}

impl<P: Primitives> Lane<P> {
    /// An empty lane to `inner`.
    pub(super) fn new(inner: P) -> Lane<P> {
        Lane { inner, state: Rc::default() }
    }

    /// The primitives at the end of the lane.
    pub(super) fn inner(&self) -> &P {
        &self.inner
    }

    /// Sends an XFER-AND-SIGNAL after `delay`, and after all before it.
    pub(super) fn put(&self, xfer: Xfer, delay: Duration) {
        self.enter(Waiting::Put(xfer), delay);
    }

    /// Sends a COMPARE-AND-WRITE in the same way. Returns its answer.
    pub(super) async fn ask(self, caw: CompareAndWrite, delay: Duration) -> Answer {
        let slot = AnswerSlot::default();
        self.enter(Waiting::Ask(caw, slot.clone()), delay);
        slot.take().await
    }

    fn enter(&self, operation: Waiting, delay: Duration) {
        let (serve, overdue) = {
            let state = &mut *self.state.borrow_mut();
            if state.waiting.is_empty() && delay.is_zero() {
                (false, Some(operation))
            } else {
                let earliest = self.inner.runtime().now() + delay;
                let due = state.waiting.back().map_or(earliest, |(last, _)| earliest.max(*last));
                state.waiting.push_back((due, operation));
                let full = state.waiting.len() > MAX_WAITING;
                let first = if full { state.waiting.pop_front() } else { None };
                let serve = !std::mem::replace(&mut state.is_served, true);
                (serve, first.map(|(_, operation)| operation))
            }
        };
        if let Some(operation) = overdue {
            self.leave(operation);
        }
        if serve {
            let this = self.clone();
            self.inner.runtime().spawn(async move { this.serve().await }).detach();
        }
    }

    /// Empties the lane.
    async fn serve(self) {
        loop {
            let due = {
                let mut state = self.state.borrow_mut();
                let Some((due, _)) = state.waiting.front() else {
                    state.is_served = false;
                    return;
                };
                *due
            };
            self.inner.runtime().sleep_until(due).await;
            // The first may have left early meanwhile, for lack of room.
            let next = {
                let mut state = self.state.borrow_mut();
                let is_due = state.waiting.front().is_some_and(|(first, _)| *first <= due);
                if is_due { state.waiting.pop_front() } else { None }
            };
            if let Some((_, operation)) = next {
                self.leave(operation);
            }
        }
    }

    fn leave(&self, operation: Waiting) {
        match operation {
            Waiting::Put(xfer) => self.inner.xfer_and_signal(xfer),
            Waiting::Ask(caw, slot) => {
                let mut question: Question = Box::pin(self.inner.compare_and_write(caw));
                // The first poll gives the operation its place in the order. Poll now, before the
                // task below gets its turn.
                match question.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(answer) => slot.put(answer),
                    Poll::Pending => {
                        let task = async move { slot.put(question.await) };
                        self.inner.runtime().spawn(task).detach();
                    }
                }
            }
        }
    }
}

impl<P: Clone> Clone for Lane<P> {
    fn clone(&self) -> Lane<P> {
        Lane { inner: self.inner.clone(), state: self.state.clone() }
    }
}
