//! Whether both ends of a lane poll their memory. If so, a message is found without a completion.
//! This module has no queue pair and no memory.
//!
//! An end that polls announces it with its messages. From then on, the other end may write to its
//! slots silently, without a completion, as long as it polls too. An end that begins to sleep sends
//! `Sleeps` with the number of messages that it has found. The other end answers `Heard`. If it has
//! sent more messages, the answer wakes the sleeping end.
//!
//! A silent message is therefore always found, in one of three ways:
//! - The receiver polls.
//! - The receiver sleeps, and the answer wakes it.
//! - The sender begins to sleep before it reads `Sleeps`. Its own `Sleeps` is then sent after the
//!   message and wakes the receiver.

/// The state that one end of a lane has of the other end, and its own last announcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Attention {
    /// The other end believes that this end polls.
    announced: bool,
    /// `Sleeps` was sent and not answered. It is not sent again before the answer, so each end
    /// needs at most one request for these notes.
    unanswered: bool,
    /// The other end polls, according to its last message.
    theirs: bool,
    /// A `Sleeps` of the other end must be answered. True if the answer must wake it.
    answer: Option<bool>,
}

impl Attention {
    /// Whether a message may be written silently. `looks` is true if this end polls.
    #[inline]
    pub(super) fn is_mutual(self, looks: bool) -> bool {
        looks && self.theirs && !self.unanswered
    }

    /// Returns whether the next message should announce that this end polls, and records the
    /// announcement.
    #[inline]
    pub(super) fn announce(&mut self, looks: bool) -> bool {
        let announces = looks && !self.unanswered;
        self.announced |= announces;
        announces
    }

    /// A silent message was written. It also announces that this end polls.
    #[inline]
    pub(super) fn wrote_silently(&mut self) {
        self.announced = true;
    }

    /// The other end polls: it has announced it, or has written silently.
    #[inline]
    pub(super) fn they_look(&mut self) {
        self.theirs = true;
    }

    /// The other end has gone to sleep. `found_all` is true if it had found all messages.
    pub(super) fn they_sleep(&mut self, found_all: bool) {
        self.theirs = false;
        self.answer = Some(!found_all);
    }

    /// The other end knows that this end sleeps.
    pub(super) fn they_heard(&mut self) {
        self.unanswered = false;
    }

    /// Whether this end has to send `Sleeps` when it stops polling. The inner value is true if
    /// `Sleeps` must wake the other end.
    pub(super) fn farewell(self) -> Option<bool> {
        // If the other end polls, or did when it last wrote, it may have written silently. It may
        // be asleep now without knowing that this end stopped polling. Its message must not be
        // lost.
        self.announced.then_some(self.theirs)
    }

    /// `Sleeps` was sent.
    pub(super) fn said_farewell(&mut self) {
        self.announced = false;
        self.unanswered = true;
    }

    /// Whether a `Sleeps` must be answered. The inner value is true if the answer must wake the
    /// other end.
    pub(super) fn answer(self) -> Option<bool> {
        self.answer
    }

    /// The answer was sent.
    pub(super) fn answered(&mut self) {
        self.answer = None;
    }
}

#[cfg(test)]
mod tests;
