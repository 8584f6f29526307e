//! Remembers every operation of a node with its arguments, status and duration, and informs
//! `tracing` subscribers.
//!
//! Blocking TEST-EVENTs are not recorded: they are the node's waiting, not its doing.

use super::{Layer, Outcome, TraceRecord, TracedOp};
use crate::{CompareAndWrite, EventId, PrimitiveError, Primitives, Runtime, Signal, Xfer};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use tracing::Instrument;

/// The primitives of one node, recorded. Clones share the record.
#[derive(Clone)]
pub struct Tracer<P> {
    inner: P,
    ring: Rc<RefCell<Ring>>,
}

/// The last operations, as many as fit.
struct Ring {
    records: VecDeque<TraceRecord>,
    capacity: usize,
    next_number: u64,
}

impl<P: Primitives> Tracer<P> {
    /// Records the operations of `inner`, the last `capacity` of them.
    pub fn new(inner: P, capacity: usize) -> Tracer<P> {
        let ring = Ring { records: VecDeque::new(), capacity, next_number: 0 };
        Tracer { inner, ring: Rc::new(RefCell::new(ring)) }
    }

    /// The operations remembered, the oldest first.
    pub fn records(&self) -> Vec<TraceRecord> {
        self.ring.borrow().records.iter().cloned().collect()
    }

    fn begin(&self, op: TracedOp) -> u64 {
        let mut ring = self.ring.borrow_mut();
        let (node, at, number) = (self.inner.node(), self.inner.runtime().now(), ring.next_number);
        ring.next_number += 1;
        ring.records.push_back(TraceRecord { node, number, at, op, outcome: None });
        if ring.records.len() > ring.capacity {
            ring.records.pop_front();
        }
        number
    }

    fn end(&self, number: u64, result: impl FnOnce(std::time::Duration) -> Outcome) {
        let now = self.inner.runtime().now();
        let mut ring = self.ring.borrow_mut();
        let first = ring.records.front().map_or(0, |record| record.number);
        // An operation that has left the ring ends unrecorded.
        let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(record) = index.and_then(|index| ring.records.get_mut(index)) {
            let outcome = result(now.saturating_since(record.at));
            tracing::debug!(result = ?outcome.result, took = ?outcome.took, "done");
            record.outcome = Some(outcome);
        }
    }
}

impl<P: Primitives> Layer for Tracer<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        &self.inner
    }

    fn on_precedes(&self) -> bool {
        self.inner.precedes_own_stores()
    }

    fn on_xfer(&self, xfer: Xfer) {
        let op = TracedOp::xfer(&xfer);
        let span = tracing::debug_span!("xfer_and_signal", node = %self.node(), %op);
        let number = self.begin(op);
        let named = xfer.local_event;
        let done = self.events().local();
        span.in_scope(|| self.inner.xfer_and_signal(xfer.signal_local(done.id())));
        let this = self.clone();
        let watch = async move {
            let status = this.inner.await_event(done.id()).await;
            this.end(number, |took| Outcome::of_signal(took, &status));
            if let Some(event) = named {
                this.events().signal(event, status);
            }
        };
        self.runtime().spawn(watch.instrument(span)).detach();
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let this = self.clone();
        let op = TracedOp::Caw(caw.clone());
        let span = tracing::debug_span!("compare_and_write", node = %self.node(), %op);
        let question = async move {
            let number = this.begin(op);
            let result = this.inner.compare_and_write(caw).await;
            this.end(number, |took| Outcome { took, result: result.clone() });
            result
        };
        question.instrument(span)
    }

    fn on_test(&self, event: EventId) -> Option<Signal> {
        let signal = self.inner.test_event(event)?;
        let number = self.begin(TracedOp::Test { event });
        self.end(number, |took| Outcome::of_signal(took, &signal));
        Some(signal)
    }
}

impl<P> std::fmt::Debug for Tracer<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").finish_non_exhaustive()
    }
}
