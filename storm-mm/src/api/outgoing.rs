//! The replies that wait for one client to read them: bounded in bytes.
//!
//! Shared by all requests of a connection. It belongs to no async runtime, so
//! the manager's core can hold its ends in real and in virtual time.

use super::ReplyLine;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Replies other than output may exceed the buffer this many times before the
/// client counts as too slow: they cannot be held back.
const OVERFLOW_FACTOR: usize = 4;

/// Why a reply was not taken. Output can be offered again.
#[derive(Debug, PartialEq)]
pub enum TrySendError<T> {
    /// The client has not read enough; `room` tells when it has.
    Full(T),
    /// The client is gone.
    Gone(T),
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Both directions are open.
    Open,
    /// The client asks nothing more; it reads the answers, follows no job.
    Finishing,
    /// Nothing is taken any more, and what was taken is to be written.
    TooSlow,
    /// The client is gone.
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
    life: Life,
    /// Answers that are still owed.
    sinks: usize,
    /// Whoever waits for a change of any kind; at most one per waiting task.
    waiting: Vec<Waker>,
}

impl Outgoing {
    pub(super) fn new(limit_bytes: usize) -> Outgoing {
        let state = State {
            lines: VecDeque::new(),
            queued_bytes: 0,
            life: Life::Open,
            sinks: 0,
            waiting: Vec::new(),
        };
        Outgoing { limit_bytes, state: Mutex::new(state) }
    }

    /// Takes the line whatever the client has read, within the overflow.
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

    /// Takes the line if the buffer is not full. A single line always fits in.
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

    /// The next line to write; ready with `None` when none will come.
    pub(super) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Option<ReplyLine>> {
        let mut state = self.lock();
        if state.life == Life::Gone {
            return Poll::Ready(None);
        }
        if let Some(line) = state.lines.pop_front() {
            state.queued_bytes -= line.reply.weight_bytes();
            if state.queued_bytes < self.limit_bytes {
                state.wake();
            }
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

    /// The next line if there is one already: for writing several at once.
    pub(super) fn pop_ready(&self) -> Option<ReplyLine> {
        let mut state = self.lock();
        let line = state.lines.pop_front()?;
        state.queued_bytes -= line.reply.weight_bytes();
        if state.queued_bytes < self.limit_bytes {
            state.wake();
        }
        Some(line)
    }

    /// Ready when fewer than `most` answers are owed, or none will be taken.
    pub(super) fn poll_owing_less(&self, context: &mut Context<'_>, most: usize) -> Poll<()> {
        let mut state = self.lock();
        if state.sinks < most || !state.accepts(false) {
            return Poll::Ready(());
        }
        state.watch(context);
        Poll::Pending
    }

    /// Ready when output would be taken, or never will be (`false`).
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

    /// Ready when nothing is taken any more.
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
                state.lines.clear();
                state.queued_bytes = 0;
            }
            state.wake();
        }
    }

    pub(super) fn sink_made(&self) {
        self.lock().sinks += 1;
    }

    pub(super) fn sink_dropped(&self) {
        let mut state = self.lock();
        state.sinks = state.sinks.saturating_sub(1);
        state.wake();
    }

    /// A panic while the lock is held leaves the state whole: no method of this
    /// file can panic between two changes that belong together.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
