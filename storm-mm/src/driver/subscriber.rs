//! A client attached to a job: its events in order, its output under flow
//! control.

use super::bell::Bell;
use crate::api::{Reply, ReplySink, TrySendError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Output held for one client before the job is asked to hold its output back.
const HIGH_BYTES: usize = 4 << 20;
/// Output left when the job may go on.
const LOW_BYTES: usize = 1 << 20;

/// One attached client.
pub(super) struct Subscriber {
    sink: ReplySink,
    queue: RefCell<VecDeque<Reply>>,
    queued_bytes: Cell<usize>,
    bell: Bell,
}

/// What the job should do about its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Hold,
    GoOn,
    Unchanged,
}

impl Subscriber {
    pub(super) fn new(sink: ReplySink) -> Subscriber {
        Subscriber {
            sink,
            queue: RefCell::default(),
            queued_bytes: Cell::new(0),
            bell: Bell::default(),
        }
    }

    /// Queues an event or output.
    pub(super) fn push(&self, reply: Reply) -> Flow {
        let before = self.queued_bytes.get();
        let after = before + bytes_of(&reply);
        self.queued_bytes.set(after);
        self.queue.borrow_mut().push_back(reply);
        self.bell.ring();
        if before < HIGH_BYTES && after >= HIGH_BYTES { Flow::Hold } else { Flow::Unchanged }
    }

    /// Passes on what is queued until the last event or the end of the client;
    /// tells `flow` when the job may go on. True when the last event was passed.
    pub(super) async fn pass_on(&self, flow: impl Fn(Flow)) -> bool {
        loop {
            let Some(reply) = self.queue.borrow_mut().pop_front() else {
                if self.sink.is_closed() {
                    return false;
                }
                let heard = std::pin::pin!(self.bell.heard());
                let closed = std::pin::pin!(self.sink.closed());
                futures_util::future::select(heard, closed).await;
                continue;
            };
            let bytes = bytes_of(&reply);
            let last = matches!(reply, Reply::Ended { .. });
            if self.deliver(reply).await.is_err() {
                return false;
            }
            let before = self.queued_bytes.get();
            self.queued_bytes.set(before - bytes);
            if before >= LOW_BYTES && before - bytes < LOW_BYTES {
                flow(Flow::GoOn);
            }
            if last {
                return true;
            }
        }
    }

    async fn deliver(&self, reply: Reply) -> Result<(), crate::api::Gone> {
        if !matches!(reply, Reply::Output { .. }) {
            return self.sink.send(reply);
        }
        let mut reply = reply;
        loop {
            match self.sink.try_send(reply) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Gone(_)) => return Err(crate::api::Gone),
                Err(TrySendError::Full(back)) => {
                    reply = back;
                    self.sink.room().await?;
                }
            }
        }
    }
}

fn bytes_of(reply: &Reply) -> usize {
    match reply {
        Reply::Output { data, .. } => data.len(),
        _ => 0,
    }
}
