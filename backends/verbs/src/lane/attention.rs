//! Whether both ends of a lane poll their memory. A message is then found without a completion. No
//! queue pair and no memory here.
//!
//! An end that polls says so with its messages. From then on, the other end may write to its slots
//! silently, without a completion, as long as it polls as well. An end that goes to sleep sends
//! `Sleeps` with the number of messages it has found. The other end answers `Heard`. If it sent
//! more messages, the answer wakes the sleeping end.
//!
//! A silent message is therefore always found, in one of three ways:
//! - The receiver polls.
//! - The receiver sleeps, and the answer wakes it.
//! - The sender goes to sleep before it reads `Sleeps`. Its own `Sleeps` then comes after the
//!   message and wakes the receiver.

/// The knowledge of one end of a lane about the other end, and its last word to the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Attention {
    /// The other end believes that this end polls.
    announced: bool,
    /// `Sleeps` was sent and not answered. It is not sent again before the answer, so these notes
    /// never use up more than one request each way.
    unanswered: bool,
    /// The other end polls, according to its last message.
    theirs: bool,
    /// A `Sleeps` of the other end is to be answered; true if the answer must wake it.
    answer: Option<bool>,
}

impl Attention {
    /// Whether a message may be written silently. `looks` says whether this end polls.
    #[inline]
    pub(super) fn is_mutual(self, looks: bool) -> bool {
        looks && self.theirs && !self.unanswered
    }

    /// Returns whether the next message should say that this end polls, and records that it did.
    #[inline]
    pub(super) fn announce(&mut self, looks: bool) -> bool {
        let announces = looks && !self.unanswered;
        self.announced |= announces;
        announces
    }

    /// A silent message was written, which also says that this end polls.
    #[inline]
    pub(super) fn wrote_silently(&mut self) {
        self.announced = true;
    }

    /// The other end polls: it has said so, or has written silently.
    #[inline]
    pub(super) fn they_look(&mut self) {
        self.theirs = true;
    }

    /// The other end has gone to sleep. `found_all` says whether it had found all messages.
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
        // be asleep now without having read that this end stopped. Its message must not be lost.
        self.announced.then_some(self.theirs)
    }

    /// `Sleeps` was sent.
    pub(super) fn said_farewell(&mut self) {
        self.announced = false;
        self.unanswered = true;
    }

    /// Whether a `Sleeps` has to be answered. The inner value is true if the answer must wake the
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
