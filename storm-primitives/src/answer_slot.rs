//! The slot through which a COMPARE-AND-WRITE passes its answer to the waiting future.

use crate::PrimitiveError;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The answer of a COMPARE-AND-WRITE.
pub(crate) type Answer = Result<bool, PrimitiveError>;

/// Both ends of the slot: the network puts the answer, the future takes it.
#[derive(Clone, Default)]
pub(crate) struct AnswerSlot {
    shared: Rc<RefCell<(Option<Answer>, Option<Waker>)>>,
}

impl AnswerSlot {
    pub(crate) fn put(&self, answer: Answer) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            shared.0 = Some(answer);
            shared.1.take()
        };
        // The borrow has ended here, so the woken future may read the slot at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) async fn take(self) -> Answer {
        std::future::poll_fn(move |cx| {
            let mut shared = self.shared.borrow_mut();
            match shared.0.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    shared.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
