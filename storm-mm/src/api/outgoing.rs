//! The replies that wait for one client to read them: bounded in bytes.
//!
//! All requests of a connection share the buffer. The buffer needs no async runtime, so the
//! manager's core can hold its ends in real and in virtual time.

use super::ReplyLine;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Replies other than output may exceed the buffer this many times before the
/// client counts as too slow: they cannot be held back.
const OVERFLOW_FACTOR: usize = 4;
/// Further requests of a client are read only while at most this much of its replies is unread:
/// room for some small answers.
const READ_ON_BYTES: usize = 16 << 10;

/// Why a reply was not accepted. Output can be offered again.
#[derive(Debug, PartialEq)]
pub enum TrySendError<T> {
    /// The client has not read enough; `room` is notified when it has.
    Full(T),
    /// The client has disconnected.
    Gone(T),
}

/// The kind of answer that a client is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A line or a few.
    Short,
    /// One line per node, rank or user.
    Long,
    /// A job's events, as they happen.
    Events,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The client sends requests and reads the replies.
    Open,
    /// The client makes no further requests. It reads the answers, and follows no job.
    Finishing,
    /// No reply is accepted any more; those in the buffer are written if the client takes them at
    /// once.
    TooSlow,
    /// The client has disconnected.
    Gone,
}

/// The buffer.
#[derive(Debug)]
pub(super) struct Outgoing {
    limit_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lines: VecDeque<ReplyLine>,
    queued_bytes: usize,
    /// Bytes that were taken out to be written, and are not written yet.
    writing_bytes: usize,
    life: Life,
    /// The number of answers that are owed and jobs that are followed.
    sinks: usize,
    /// The number of these answers for jobs that are followed or waited for.
    streaming: usize,
    /// The number of owed answers that may be long.
    long: usize,
    /// The last events of a followed job that has ended are not read yet.
    trailing: bool,
    /// Tasks that wait for a change of any kind; at most one waker per waiting task.
    waiting: Vec<Waker>,
}

impl Outgoing {
    pub(super) fn new(limit_bytes: usize) -> Outgoing {
        Outgoing { limit_bytes, state: Mutex::default() }
    }

    /// Accepts the line however little the client has read, within the overflow.
    pub(super) fn push(&self, line: ReplyLine, streaming: bool) -> Result<(), ReplyLine> {
        let mut state = self.lock();
        if !state.accepts(streaming) {
            return Err(line);
        }
        if state.queued_bytes > self.limit_bytes.saturating_mul(OVERFLOW_FACTOR) {
            state.life = Life::TooSlow;
            state.wake();
            return Err(line);
        }
        state.append(line);
        Ok(())
    }

    /// Accepts the line if the buffer is not full. A single line always fits.
    pub(super) fn try_push(
        &self,
        line: ReplyLine,
        streaming: bool,
    ) -> Result<(), TrySendError<ReplyLine>> {
        let mut state = self.lock();
        if !state.accepts(streaming) {
            return Err(TrySendError::Gone(line));
        }
        if state.queued_bytes >= self.limit_bytes {
            return Err(TrySendError::Full(line));
        }
        state.append(line);
        Ok(())
    }

    /// The next line to write; ready with `None` when there are no further lines.
    pub(super) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Option<ReplyLine>> {
        let mut state = self.lock();
        if state.life == Life::Gone {
            return Poll::Ready(None);
        }
        if let Some(line) = state.pop(self.limit_bytes) {
            return Poll::Ready(Some(line));
        }
        match state.life {
            Life::TooSlow | Life::Gone => Poll::Ready(None),
            Life::Finishing if state.sinks == 0 => Poll::Ready(None),
            Life::Finishing | Life::Open => {
                state.watch(context);
                Poll::Pending
            }
        }
    }

    /// The next line if there is one already, to write several lines at once.
    pub(super) fn pop_ready(&self) -> Option<ReplyLine> {
        self.lock().pop(self.limit_bytes)
    }

    /// The client has read all lines that were taken out.
    pub(super) fn written(&self) {
        let mut state = self.lock();
        state.writing_bytes = 0;
        state.trailing &= !state.lines.is_empty();
        state.wake();
    }

    /// Ready when another request may be read: fewer than `most` answers are owed, and the client
    /// has read nearly all that it was sent. A client that follows a job need not have read
    /// anything, since it may send a request to end the job. Ready also when no answer will be
    /// accepted.
    pub(super) fn poll_may_ask(&self, context: &mut Context<'_>, most: usize) -> Poll<()> {
        let mut state = self.lock();
        let held = state.queued_bytes + state.writing_bytes;
        let ready = state.sinks < most && (state.streaming > 0 || held <= READ_ON_BYTES);
        state.ready_or_watch(context, |state| ready || !state.accepts(false))
    }

    /// Ready when a request with a long answer may be read. No other long answer is then owed, and
    /// the client has read everything that was sent to it. Ready also when no answer will be
    /// accepted.
    pub(super) fn poll_quiet(&self, context: &mut Context<'_>) -> Poll<()> {
        let limit_bytes = self.limit_bytes;
        self.lock().ready_or_watch(context, |state| {
            !state.accepts(false) || (state.long == 0 && state.is_taken(limit_bytes))
        })
    }

    /// Ready when the client has read all its replies, or never will (`false`).
    pub(super) fn poll_taken(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        let limit_bytes = self.limit_bytes;
        let ready = state
            .ready_or_watch(context, |state| !state.accepts(false) || state.is_taken(limit_bytes));
        ready.map(|()| state.accepts(false))
    }

    /// Whether the client follows a job or waits for a job, or has not read a job's last events.
    pub(super) fn is_following(&self) -> bool {
        let state = self.lock();
        (state.streaming > 0 || state.trailing) && state.life == Life::Open
    }

    /// Ready when output would be accepted, or never will be (`false`).
    pub(super) fn poll_room(&self, context: &mut Context<'_>, streaming: bool) -> Poll<bool> {
        let mut state = self.lock();
        if !state.accepts(streaming) {
            return Poll::Ready(false);
        }
        if state.queued_bytes < self.limit_bytes {
            return Poll::Ready(true);
        }
        state.watch(context);
        Poll::Pending
    }

    /// Ready when nothing is accepted any more.
    pub(super) fn poll_closed(&self, context: &mut Context<'_>, streaming: bool) -> Poll<()> {
        let mut state = self.lock();
        if !state.accepts(streaming) {
            return Poll::Ready(());
        }
        state.watch(context);
        Poll::Pending
    }

    pub(super) fn is_closed(&self, streaming: bool) -> bool {
        !self.lock().accepts(streaming)
    }

    pub(super) fn has_room(&self, streaming: bool) -> bool {
        let state = self.lock();
        state.accepts(streaming) && state.queued_bytes < self.limit_bytes
    }

    pub(super) fn life(&self) -> Life {
        self.lock().life
    }

    /// Moves on to `life`; never back.
    pub(super) fn end(&self, life: Life) {
        let mut state = self.lock();
        let further = match (state.life, life) {
            (_, Life::Open) | (Life::Gone, _) => false,
            (Life::TooSlow, Life::Finishing | Life::TooSlow) => false,
            (Life::Open | Life::Finishing | Life::TooSlow, _) => true,
        };
        if further {
            state.life = life;
            if life == Life::Gone {
                state.clear();
            }
            state.wake();
        }
    }

    pub(super) fn sink_made(&self, answer: Answer) {
        let mut state = self.lock();
        state.sinks += 1;
        state.streaming += usize::from(answer == Answer::Events);
        state.long += usize::from(answer == Answer::Long);
    }

    pub(super) fn sink_dropped(&self, answer: Answer) {
        let mut state = self.lock();
        state.sinks = state.sinks.saturating_sub(1);
        state.streaming = state.streaming.saturating_sub(usize::from(answer == Answer::Events));
        state.long = state.long.saturating_sub(usize::from(answer == Answer::Long));
        let is_taken = state.queued_bytes + state.writing_bytes == 0;
        state.trailing |= answer == Answer::Events && !is_taken;
        state.wake();
    }

    /// A panic while the lock is held leaves the state consistent: no method of this file can panic
    /// between two changes that belong together.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for State {
    fn default() -> State {
        State {
            lines: VecDeque::new(),
            queued_bytes: 0,
            writing_bytes: 0,
            life: Life::Open,
            sinks: 0,
            streaming: 0,
            long: 0,
            trailing: false,
            waiting: Vec::new(),
        }
    }
}

impl State {
    fn pop(&mut self, limit_bytes: usize) -> Option<ReplyLine> {
        let line = self.lines.pop_front()?;
        let bytes = line.reply.weight_bytes();
        self.queued_bytes -= bytes;
        self.writing_bytes += bytes;
        if self.queued_bytes < limit_bytes {
            self.wake();
        }
        Some(line)
    }

    fn clear(&mut self) {
        self.lines = VecDeque::new();
        self.queued_bytes = 0;
    }

    /// Whether the client has read everything. A client that follows a job, whose events may arrive
    /// at any time, need only have less than `limit_bytes` unread.
    fn is_taken(&self, limit_bytes: usize) -> bool {
        match self.streaming {
            0 => self.queued_bytes + self.writing_bytes == 0,
            _ => self.queued_bytes < limit_bytes,
        }
    }

    fn ready_or_watch(
        &mut self,
        context: &Context<'_>,
        is_ready: impl FnOnce(&State) -> bool,
    ) -> Poll<()> {
        if is_ready(self) {
            return Poll::Ready(());
        }
        self.watch(context);
        Poll::Pending
    }

    fn accepts(&self, streaming: bool) -> bool {
        match self.life {
            Life::Open => true,
            Life::Finishing => !streaming,
            Life::TooSlow | Life::Gone => false,
        }
    }

    fn append(&mut self, line: ReplyLine) {
        self.queued_bytes += line.reply.weight_bytes();
        self.lines.push_back(line);
        self.wake();
    }

    fn watch(&mut self, context: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            self.waiting.push(context.waker().clone());
        }
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}
