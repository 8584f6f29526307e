//! The operations that this node has issued and that have no outcome yet.
//!
//! XFER-AND-SIGNAL never blocks. Requests beyond the root's window wait here with their data, until
//! earlier ones are complete.
//!
//! Most requests get their place in the order as soon as they reach the root: they are *prompt*.
//! The others wait at the root, either until their data is everywhere or for a comparison. Later
//! requests wait behind them.

use crate::wire::{Primitive, Request, RequestId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storm_primitives::{EventId, EventTable, PrimitiveError};
use tokio::sync::oneshot;

/// The destination of an outcome.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// XFER-AND-SIGNAL: to this event.
    Event(Option<EventId>),
    /// COMPARE-AND-WRITE: to its future.
    Answer(oneshot::Sender<Result<bool, PrimitiveError>>),
}

/// A request with its data.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) request: Request,
    pub(crate) data: Bytes,
}

/// The issued requests that are not complete.
#[derive(Debug)]
pub(crate) struct Initiator {
    events: EventTable,
    next: RequestId,
    window: usize,
    inline_limit_bytes: u64,
    /// The requests without an outcome that are not prompt.
    slow: BTreeSet<RequestId>,
    sent: BTreeMap<RequestId, (Waiter, Bytes)>,
    queue: VecDeque<(Issued, Waiter)>,
}

impl Initiator {
    /// At most `window` requests are at the root at a time. Data of more than `inline_limit_bytes`
    /// does not travel with its request.
    pub(crate) fn new(events: EventTable, window: usize, inline_limit_bytes: u64) -> Initiator {
        let (slow, sent, queue) = (BTreeSet::new(), BTreeMap::new(), VecDeque::new());
        Initiator { events, next: RequestId(1), window, inline_limit_bytes, slow, sent, queue }
    }

    /// Queues a request in this node's order.
    pub(crate) fn issue(&mut self, primitive: Primitive, data: Bytes, waiter: Waiter) {
        let is_slow = match &primitive {
            Primitive::Xfer { len, .. } => *len > self.inline_limit_bytes,
            Primitive::Compare(caw) => caw.write.is_some(),
        };
        if is_slow {
            self.slow.insert(self.next);
        }
        let request = Request { id: self.next, primitive };
        self.next = RequestId(self.next.0 + 1);
        self.queue.push_back((Issued { request, data }, waiter));
    }

    /// The next request to send to the root, if the window has room.
    pub(crate) fn next_to_send(&mut self) -> Option<Issued> {
        if self.sent.len() >= self.window {
            return None;
        }
        let (issued, waiter) = self.queue.pop_front()?;
        self.sent.insert(issued.request.id, (waiter, issued.data.clone()));
        Some(issued)
    }

    /// Whether every request without an outcome is prompt and fits the window. If so, all of them
    /// are at the root, or on their way, once the queue has been sent.
    pub(crate) fn is_prompt(&self) -> bool {
        self.slow.is_empty() && self.sent.len() + self.queue.len() <= self.window
    }

    /// The last sent request that no other holds up, if the root may not have placed it yet.
    pub(crate) fn last_prompt(&self) -> Option<RequestId> {
        let end = self.slow.first().copied().unwrap_or(self.next);
        self.sent.range(..end).next_back().map(|(id, _)| *id)
    }

    /// The data of a request that may begin its transfer.
    pub(crate) fn data(&self, request: RequestId) -> Option<Bytes> {
        self.sent.get(&request).map(|(_, data)| data.clone())
    }

    /// A request is complete.
    pub(crate) fn finish(&mut self, request: RequestId, outcome: Result<bool, PrimitiveError>) {
        self.slow.remove(&request);
        if let Some((waiter, _)) = self.sent.remove(&request) {
            self.tell(waiter, outcome);
        }
    }

    /// This node is cut off: every request fails.
    pub(crate) fn fail_all(&mut self) {
        self.slow.clear();
        let sent = std::mem::take(&mut self.sent).into_values().map(|(waiter, _)| waiter);
        let queued = std::mem::take(&mut self.queue).into_iter().map(|(_, waiter)| waiter);
        for waiter in sent.chain(queued).collect::<Vec<_>>() {
            self.tell(waiter, Err(PrimitiveError::Disconnected));
        }
    }

    /// Delivers an outcome.
    pub(crate) fn tell(&self, waiter: Waiter, outcome: Result<bool, PrimitiveError>) {
        match waiter {
            Waiter::Event(None) => {}
            Waiter::Event(Some(event)) => {
                self.events.signal(event, outcome.map(|_| ()));
            }
            // The task that waits for the answer may be gone.
            Waiter::Answer(answer) => drop(answer.send(outcome)),
        }
    }

    /// Bytes of data that wait here.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        let sent = self.sent.values().map(|(_, data)| data.len() as u64);
        let queued = self.queue.iter().map(|(issued, _)| issued.data.len() as u64);
        sent.chain(queued).sum()
    }
}
