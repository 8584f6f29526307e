//! Events: XFER-AND-SIGNAL signals them and TEST-EVENT tests them.
//!
//! An event counts the signals that have not been tested yet, each with its status (paper,
//! Algorithms 10 and 11: `num_pending_signals`, SUCCESS and FAILURE). A signal is consumed by
//! exactly one successful test.

use crate::{EventId, Layout, PrimitiveError};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The status that one signal carries.
pub type Signal = Result<(), PrimitiveError>;

/// The events of one node. Clones share them.
#[derive(Clone)]
pub struct EventTable {
    inner: Rc<RefCell<Inner>>,
}

struct Inner {
    /// The number of symmetric events.
    symmetric: u32,
    /// The local events, and the symmetric ones that were ever touched. On a large machine a node
    /// uses few of the symmetric events.
    events: HashMap<u32, Event>,
    next_local: u32,
}

/// The pending signals of an event and its waiters. A run of successes is one counter, so a
/// flood of signals costs no memory.
#[derive(Default)]
struct Event {
    pending: VecDeque<Pending>,
    waiters: Vec<Waker>,
}

enum Pending {
    Successes(u64),
    Failure(PrimitiveError),
}

impl EventTable {
    /// The symmetric events of `layout`, none signalled.
    pub fn new(layout: &Layout) -> EventTable {
        let (symmetric, next_local) = (layout.events(), EventId::FIRST_LOCAL);
        let inner = Inner { symmetric, events: HashMap::new(), next_local };
        EventTable { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Makes an event that exists only on this node, for the status of its own operations. Signals
    /// that arrive after it is dropped are discarded.
    pub fn local(&self) -> LocalEvent {
        let mut inner = self.inner.borrow_mut();
        let id = inner.next_local;
        inner.next_local = id.checked_add(1).unwrap_or(EventId::FIRST_LOCAL);
        inner.events.insert(id, Event::default());
        LocalEvent { id: EventId(id), table: self.clone() }
    }

    /// Adds a signal and wakes the waiters. For backends. An event that does not exist, or no
    /// longer does, is ignored.
    pub fn signal(&self, event: EventId, signal: Signal) {
        self.signal_quietly(event, signal).into_iter().for_each(Waker::wake);
    }

    /// Adds a signal and returns the waiters, which the caller must wake.
    pub(crate) fn signal_quietly(&self, event: EventId, signal: Signal) -> Vec<Waker> {
        let mut inner = self.inner.borrow_mut();
        let Some(event) = inner.find(event) else { return Vec::new() };
        event.push(signal);
        std::mem::take(&mut event.waiters)
    }

    /// Takes one signal if there is one (TEST-EVENT, not blocking). An event that does not exist
    /// has none.
    pub fn poll(&self, event: EventId) -> Option<Signal> {
        self.inner.borrow_mut().find(event)?.pop()
    }

    /// Takes one signal, waiting for it (TEST-EVENT, blocking). An event that does not exist gives
    /// [`PrimitiveError::UnknownEvent`].
    pub fn wait(&self, event: EventId) -> AwaitEvent {
        AwaitEvent { table: self.clone(), event }
    }
}

impl Inner {
    fn find(&mut self, event: EventId) -> Option<&mut Event> {
        if event.0 < self.symmetric {
            return Some(self.events.entry(event.0).or_default());
        }
        self.events.get_mut(&event.0)
    }
}

impl Event {
    fn push(&mut self, signal: Signal) {
        match (signal, self.pending.back_mut()) {
            (Ok(()), Some(Pending::Successes(count))) => *count += 1,
            (Ok(()), _) => self.pending.push_back(Pending::Successes(1)),
            (Err(error), _) => self.pending.push_back(Pending::Failure(error)),
        }
    }

    fn pop(&mut self) -> Option<Signal> {
        match self.pending.front_mut()? {
            Pending::Successes(count) if *count > 1 => {
                *count -= 1;
                Some(Ok(()))
            }
            Pending::Successes(_) => {
                self.pending.pop_front();
                Some(Ok(()))
            }
            Pending::Failure(_) => match self.pending.pop_front() {
                Some(Pending::Failure(error)) => Some(Err(error)),
                Some(Pending::Successes(_)) | None => None,
            },
        }
    }
}

/// The future of a blocking TEST-EVENT.
#[must_use = "futures do nothing unless awaited"]
pub struct AwaitEvent {
    table: EventTable,
    event: EventId,
}

impl Future for AwaitEvent {
    type Output = Signal;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Signal> {
        let mut inner = self.table.inner.borrow_mut();
        let Some(event) = inner.find(self.event) else {
            return Poll::Ready(Err(PrimitiveError::UnknownEvent { event: self.event }));
        };
        if let Some(signal) = event.pop() {
            // Several tasks may wait for one event. The next waiter takes the remaining signals.
            return Poll::Ready(signal);
        }
        if !event.waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
            event.waiters.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// An event of this node alone. Dropping it removes the event and wakes no task that waits for it.
#[derive(Debug)]
pub struct LocalEvent {
    id: EventId,
    table: EventTable,
}

impl LocalEvent {
    /// The id to name in an operation.
    pub fn id(&self) -> EventId {
        self.id
    }
}

impl Drop for LocalEvent {
    fn drop(&mut self) {
        self.table.inner.borrow_mut().events.remove(&self.id.0);
    }
}

impl std::fmt::Debug for EventTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventTable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeSet;

    fn table() -> (EventTable, EventId) {
        let mut builder = Layout::builder();
        let event = builder.event("e");
        (EventTable::new(&builder.build()), event)
    }

    #[test]
    fn each_signal_is_taken_once_and_in_order() {
        let (table, event) = table();
        let failure = PrimitiveError::NodesDead { nodes: NodeSet::compute(2) };
        for signal in [Ok(()), Ok(()), Err(failure.clone()), Ok(())] {
            table.signal(event, signal);
        }
        let taken: Vec<_> = std::iter::from_fn(|| table.poll(event)).collect();
        assert_eq!(taken, [Ok(()), Ok(()), Err(failure), Ok(())]);
    }

    #[test]
    fn a_signal_to_a_dropped_event_reaches_no_other() {
        let (table, _) = table();
        let first = table.local();
        let old = first.id();
        drop(first);
        let second = table.local();
        table.signal(old, Ok(()));
        assert_eq!(table.poll(second.id()), None);
        assert_eq!(table.poll(old), None);
    }
}
