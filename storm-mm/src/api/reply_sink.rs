//! The sink for the core's replies to one request.

use super::outgoing::{Answer, Life, Outgoing};
use super::{ApiError, ErrorCode, Reply, ReplyLine, TrySendError};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// The client has disconnected, or was dropped because it does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the client is gone")]
pub struct Gone;

/// The replies to one request. Clones answer the same request. When the last clone is dropped
/// before the final reply was sent, the client receives the error that the manager failed.
#[derive(Clone, Debug)]
pub struct ReplySink {
    shared: Arc<Sink>,
}

#[derive(Debug)]
struct Sink {
    outgoing: Arc<Outgoing>,
    id: u64,
    /// The kind of answer that the client is owed.
    answer: Answer,
    finished: AtomicBool,
}

impl ReplySink {
    /// Sends an answer or an event that must not be held back. Never blocks: a
    /// client that leaves far too much unread is dropped instead.
    ///
    /// # Errors
    /// The client has disconnected.
    pub fn send(&self, reply: Reply) -> Result<(), Gone> {
        self.note(&reply);
        let line = ReplyLine { id: self.shared.id, reply };
        self.shared.outgoing.push(line, self.shared.is_streaming()).map_err(|_| Gone)
    }

    /// Refuses the request.
    ///
    /// # Errors
    /// The client has disconnected.
    pub fn refuse(&self, error: ApiError) -> Result<(), Gone> {
        self.send(Reply::Error { error })
    }

    /// Sends output if the client has read enough of what it was sent.
    ///
    /// # Errors
    /// Gives the reply back when there is no room, or the client has disconnected.
    pub fn try_send(&self, reply: Reply) -> Result<(), TrySendError<Reply>> {
        self.note(&reply);
        let line = ReplyLine { id: self.shared.id, reply };
        self.shared.outgoing.try_push(line, self.shared.is_streaming()).map_err(|error| match error
        {
            TrySendError::Full(line) => TrySendError::Full(line.reply),
            TrySendError::Gone(line) => TrySendError::Gone(line.reply),
        })
    }

    /// Whether [`try_send`](Self::try_send) would take a reply now.
    pub fn has_room(&self) -> bool {
        self.shared.outgoing.has_room(self.shared.is_streaming())
    }

    /// Waits until [`try_send`](Self::try_send) would take a reply.
    ///
    /// # Errors
    /// The client has disconnected.
    pub async fn room(&self) -> Result<(), Gone> {
        let sink = &self.shared;
        let room = poll_fn(|context| sink.outgoing.poll_room(context, sink.is_streaming())).await;
        if room { Ok(()) } else { Err(Gone) }
    }

    /// Whether the client has disconnected.
    pub fn is_closed(&self) -> bool {
        self.shared.outgoing.is_closed(self.shared.is_streaming())
    }

    /// Waits until the client has disconnected.
    pub async fn closed(&self) {
        let sink = &self.shared;
        poll_fn(|context| sink.outgoing.poll_closed(context, sink.is_streaming())).await;
    }

    fn note(&self, reply: &Reply) {
        let last = match reply {
            Reply::Submitted { .. } | Reply::Attached { .. } => !self.shared.is_streaming(),
            Reply::NeedFiles { .. }
            | Reply::Forgotten { .. }
            | Reply::Step { .. }
            | Reply::State { .. }
            | Reply::Output { .. } => false,
            // A client that waits for jobs gets those that have ended so far.
            Reply::Jobs { more, .. } => !more,
            Reply::Ok
            | Reply::Error { .. }
            | Reply::Job { .. }
            | Reply::Script { .. }
            | Reply::Prospect { .. }
            | Reply::Explanation { .. }
            | Reply::Cancelled { .. }
            | Reply::Altered { .. }
            | Reply::Nodes { .. }
            | Reply::Partitions { .. }
            | Reply::Priorities { .. }
            | Reply::Shares { .. }
            | Reply::Reservations { .. }
            | Reply::Status { .. }
            | Reply::Ended { .. } => true,
        };
        if last {
            self.shared.finished.store(true, Ordering::Relaxed);
        }
    }
}

impl Sink {
    fn is_streaming(&self) -> bool {
        self.answer == Answer::Events
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.finished.load(Ordering::Relaxed) {
            let error = ApiError::new(ErrorCode::Internal, "the manager gave no answer")
                .hint("its log says more");
            let line = ReplyLine { id: self.id, reply: Reply::Error { error } };
            // A disconnected client needs no answer.
            let _ = self.outgoing.push(line, self.is_streaming());
        }
        self.outgoing.sink_dropped(self.answer);
    }
}

/// The other end: all replies to one client, in order.
#[derive(Debug)]
pub struct ReplyStream {
    pub(super) outgoing: Arc<Outgoing>,
}

impl ReplyStream {
    /// The replies to request `id`; `streaming` when events follow its answer.
    pub fn sink(&self, id: u64, streaming: bool) -> ReplySink {
        self.sink_of(id, if streaming { Answer::Events } else { Answer::Short })
    }

    /// The same, for this kind of answer.
    pub(super) fn sink_of(&self, id: u64, answer: Answer) -> ReplySink {
        self.outgoing.sink_made(answer);
        let (finished, outgoing) = (AtomicBool::new(false), Arc::clone(&self.outgoing));
        ReplySink { shared: Arc::new(Sink { outgoing, id, answer, finished }) }
    }

    /// The next reply; `None` when there are no further replies.
    pub async fn next(&self) -> Option<ReplyLine> {
        poll_fn(|context| self.outgoing.poll_pop(context)).await
    }

    /// The client makes no further requests: [`next`](Self::next) ends after the last answer.
    pub fn finish(&self) {
        self.outgoing.end(Life::Finishing);
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        self.outgoing.end(Life::Gone);
    }
}

/// A buffer for the replies to one client that holds about `limit_bytes`.
/// [`Server`](super::Server) makes one per connection; a test of the core makes
/// its own.
pub fn reply_channel(limit_bytes: usize) -> ReplyStream {
    ReplyStream { outgoing: Arc::new(Outgoing::new(limit_bytes)) }
}
