//! Whether both ends of a lane look at their memory, so that a message needs no completion to
//! be found; without queue pair or memory.
//!
//! An end that looks says so with what it sends. From then on the other may write to its slots
//! without a word, as long as it looks as well. Who goes to sleep says that (`Sleeps`), and
//! how many messages it has found; the other answers (`Heard`), and wakes it if it has sent more. So a
//! message without a word is found by who looks; or by who is woken by the answer; or, if the
//! other end goes to sleep before it reads that it is to answer, by what that says itself,
//! which comes after the message and wakes.

/// What one end knows of the other, and has said of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Attention {
    /// The other end was told that this one looks, and not yet that it does not any more.
    told: bool,
    /// That it does not has not been answered: until then it is not said again, so one request
    /// each way is all that these notes ever use up.
    unanswered: bool,
    /// The other end has said that it looks, and nothing else since.
    theirs: bool,
    /// What the other has said is to be answered, and it has to be woken.
    answer: Option<bool>,
}

impl Attention {
    /// Whether a message may be written without a word by an end that looks, or does not.
    #[inline]
    pub(super) fn is_mutual(self, looks: bool) -> bool {
        looks && self.theirs && !self.unanswered
    }

    /// With a message it may be said that this end looks, if it does; whether it is to be.
    #[inline]
    pub(super) fn tell(&mut self, looks: bool) -> bool {
        let tells = looks && !self.unanswered;
        self.told |= tells;
        tells
    }

    /// A message was written without a word: by that it is said, too.
    #[inline]
    pub(super) fn wrote_silently(&mut self) {
        self.told = true;
    }

    /// The other end looks: it has said so, or has written without a word.
    #[inline]
    pub(super) fn they_look(&mut self) {
        self.theirs = true;
    }

    /// The other end has gone to sleep; whether it had found all messages is known.
    pub(super) fn they_sleep(&mut self, found_all: bool) {
        self.theirs = false;
        self.answer = Some(!found_all);
    }

    /// The other end knows that this one sleeps.
    pub(super) fn they_heard(&mut self) {
        self.unanswered = false;
    }

    /// An end that does not look has to say so; whether the other is to be woken by that.
    pub(super) fn farewell(self) -> Option<bool> {
        // Who looks, or did when it wrote last, may have written without a word, and may sleep
        // now without having read that nobody looks here: what was written to it is not lost.
        self.told.then_some(self.theirs)
    }

    /// It was said.
    pub(super) fn said_farewell(&mut self) {
        self.told = false;
        self.unanswered = true;
    }

    /// The other end has to be answered; whether it is to be woken by that.
    pub(super) fn answer(self) -> Option<bool> {
        self.answer
    }

    /// It was answered.
    pub(super) fn answered(&mut self) {
        self.answer = None;
    }
}

#[cfg(test)]
mod tests;
