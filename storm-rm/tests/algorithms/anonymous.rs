//! Middleware for a network that cannot name dead nodes: questions that meet a dead node time
//! out. Counts the questions.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use storm_primitives::middleware::Layer;
use storm_primitives::sim::SimPrimitives;
use storm_primitives::{CompareAndWrite, PrimitiveError, Primitives};

#[derive(Clone)]
pub(crate) struct Anonymous {
    inner: SimPrimitives,
    /// Questions put.
    pub(crate) asked: Rc<Cell<u32>>,
    /// The questions among them that timed out.
    pub(crate) timed_out: Rc<Cell<u32>>,
}

impl Anonymous {
    pub(crate) fn new(inner: SimPrimitives) -> Anonymous {
        Anonymous { inner, asked: Rc::default(), timed_out: Rc::default() }
    }
}

impl Layer for Anonymous {
    type Inner = SimPrimitives;

    fn inner(&self) -> &SimPrimitives {
        &self.inner
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        self.asked.set(self.asked.get() + 1);
        let (set, timed_out) = (caw.set.clone(), self.timed_out.clone());
        let answer = self.inner.compare_and_write(caw);
        async move {
            match answer.await {
                Err(PrimitiveError::NodesDead { .. }) => {
                    timed_out.set(timed_out.get() + 1);
                    Err(PrimitiveError::TimedOut { nodes: set })
                }
                answer => answer,
            }
        }
    }
}
