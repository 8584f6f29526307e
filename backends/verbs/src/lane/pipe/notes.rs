//! The notes of a [`Pipe`] that carry no data: credits for taken messages, and whether this side
//! sleeps.

use super::Pipe;
use crate::error::LaneError;
use crate::guard::Notice;
use crate::lane::attention::Attention;
use crate::message::{MAX_NUMBER, Note};

impl Pipe {
    /// Sends a credit for taken messages, if enough were taken and a request is free.
    pub(super) fn give_credit(&self) -> Result<(), LaneError> {
        let due = self.inbox.borrow().credit_due();
        let Some(due) = due.filter(|_| self.pair.has_room()) else { return Ok(()) };
        self.replace_receives()?;
        self.inbox.borrow_mut().credited(due);
        self.say(Note::Credit(due), true)
    }

    /// Sends `Sleeps`, if the other side believes that this side polls and a request is free.
    pub(in crate::lane) fn say_farewell(&self) -> Result<(), LaneError> {
        match self.attention.get().farewell() {
            Some(wakes) if !self.looking.get() && self.pair.has_room() => {
                let found = (self.inbox.borrow().found() & u64::from(MAX_NUMBER)) as u32;
                self.say(Note::Sleeps(found), wakes)?;
                self.change_attention(Attention::said_farewell);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Answers a `Sleeps`, if a request is free.
    pub(super) fn answer(&self) -> Result<(), LaneError> {
        match self.attention.get().answer() {
            Some(wakes) if self.pair.has_room() => {
                self.say(Note::Heard, wakes)?;
                self.change_attention(Attention::answered);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a note waits for a request.
    pub(in crate::lane) fn waits(&self) -> bool {
        let attention = self.attention.get();
        attention.answer().is_some() || attention.farewell().is_some() && !self.looking.get()
    }

    fn say(&self, note: Note, wakes: bool) -> Result<(), LaneError> {
        let immediate = note.encode();
        let notice = if wakes { Notice::Wakes(immediate) } else { Notice::Waits(immediate) };
        let signalled = self.pair.post_inline([&[], &[]], self.theirs.ring(0), notice)?;
        self.posted(signalled);
        Ok(())
    }
}
