//! Where the bytes of a lane are in its ring, at both ends, without memory or adapter.
//!
//! The sender writes to the receiver's ring what it has put at the same place of its own;
//! both count bytes from the beginning. It may write where the receiver has taken what
//! was there and said so (credit), and where its own adapter has read what was there
//! (completion). Messages are counted as well, since each uses up a receive request.

use std::ops::Range;

/// Length of a ring in bytes: operations are some tens of bytes, and inline data is at
/// most a few KiB by default. A power of two.
pub(crate) const RING_BYTES: u64 = 64 << 10;
/// Messages that were sent and for which there is no credit.
pub(crate) const MAX_MESSAGES: usize = 128;

/// The sender's end.
#[derive(Debug, Default)]
pub(crate) struct SendRing {
    written: u64,
    credited: u64,
    completed: u64,
    /// Where messages end for which there is no credit.
    ends: Ends,
}

/// The receiver's end.
#[derive(Debug, Default)]
pub(crate) struct ReceiveRing {
    arrived: u64,
    taken: u64,
    credited: u64,
    /// Where messages end for which no credit was given.
    ends: Ends,
}

/// The other side says what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// Where some messages end, the first of them first: never more than [`MAX_MESSAGES`].
#[derive(Debug)]
struct Ends {
    ends: [u64; MAX_MESSAGES],
    /// How many were ever added, and how many of these were taken away.
    added: usize,
    removed: usize,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { ends: [0; MAX_MESSAGES], added: 0, removed: 0 }
    }
}

impl Ends {
    fn len(&self) -> usize {
        self.added - self.removed
    }

    /// One more, for which there is room.
    fn push(&mut self, end: u64) {
        debug_assert!(self.len() < MAX_MESSAGES, "there is room");
        self.ends[self.added % MAX_MESSAGES] = end;
        self.added += 1;
    }

    /// How many end at `end` or before.
    fn up_to(&self, end: u64) -> usize {
        let all = self.removed..self.added;
        all.take_while(|at| self.ends[at % MAX_MESSAGES] <= end).count()
    }

    /// Takes away those that end at `end` or before.
    fn remove_up_to(&mut self, end: u64) {
        self.removed += self.up_to(end);
    }
}

impl SendRing {
    /// Where the next message goes, as long as it may be; empty when it has to wait.
    #[inline]
    pub(crate) fn room(&self) -> Range<usize> {
        let at = (self.written % RING_BYTES) as usize;
        if self.ends.len() >= MAX_MESSAGES {
            return at..at;
        }
        let used = self.written - self.credited.min(self.completed);
        let free = (RING_BYTES - used).min(RING_BYTES - at as u64);
        at..at + free as usize
    }

    /// A message of `len` bytes is under way; what to tell [`completed`](Self::completed).
    #[inline]
    pub(crate) fn sent(&mut self, len: usize) -> u64 {
        self.written += len as u64;
        self.ends.push(self.written);
        self.written
    }

    /// Where the last message ends.
    pub(crate) fn end(&self) -> u64 {
        self.written
    }

    /// The adapter has read all up to `end`.
    pub(crate) fn completed(&mut self, end: u64) {
        self.completed = self.completed.max(end);
    }

    /// The other side has taken `len` more bytes.
    pub(crate) fn credit(&mut self, len: u64) -> Result<(), Overrun> {
        let credited = self.credited + len;
        if credited > self.written {
            return Err(Overrun);
        }
        self.credited = credited;
        self.ends.remove_up_to(credited);
        Ok(())
    }
}

impl ReceiveRing {
    /// `len` more bytes are here.
    #[inline]
    pub(crate) fn arrived(&mut self, len: u64) -> Result<(), Overrun> {
        let arrived = self.arrived + len;
        if arrived - self.credited > RING_BYTES || self.ends.len() >= MAX_MESSAGES {
            return Err(Overrun);
        }
        self.arrived = arrived;
        self.ends.push(arrived);
        Ok(())
    }

    /// What is here and was not taken, up to the end of the ring.
    #[inline]
    pub(crate) fn here(&self) -> Range<usize> {
        let at = self.taken % RING_BYTES;
        let len = (self.arrived - self.taken).min(RING_BYTES - at);
        at as usize..(at + len) as usize
    }

    /// `len` bytes of it were taken.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) {
        self.taken += len as u64;
    }

    /// How many bytes the other side is to be told of now: when a half of the ring or of
    /// the messages is taken, so that credits are few and it never stands still.
    #[inline]
    pub(crate) fn credit_due(&self) -> Option<u64> {
        let bytes = self.taken - self.credited;
        if bytes < RING_BYTES / 2 && self.ends.len() < MAX_MESSAGES / 2 {
            return None;
        }
        let messages = self.ends.up_to(self.taken);
        (bytes >= RING_BYTES / 2 || messages >= MAX_MESSAGES / 2).then_some(bytes)
    }

    /// The other side was told of `len` bytes.
    pub(crate) fn credited(&mut self, len: u64) {
        self.credited += len;
        self.ends.remove_up_to(self.credited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// A stream of messages of any lengths, taken in any portions, with credits and
        /// completions on their way for any time: nothing is written over, and when all
        /// is quiet there is room.
        #[test]
        fn nothing_is_written_over_and_nothing_stands_still(
            steps in prop::collection::vec((0u8..5, 1usize..70_000), 1..400),
        ) {
            let (mut sender, mut receiver) = (SendRing::default(), ReceiveRing::default());
            let (mut credits, mut completions) = (VecDeque::new(), VecDeque::new());
            let (mut sent, mut taken) = (0u64, 0u64);
            for (step, len) in steps {
                match step {
                    0 | 1 => {
                        let room = sender.room();
                        let len = len.min(room.len());
                        if len > 0 {
                            prop_assert_eq!(room.start as u64, sent % RING_BYTES);
                            completions.push_back(sender.sent(len));
                            sent += len as u64;
                            prop_assert!(sent - taken <= RING_BYTES, "written over");
                            prop_assert_eq!(receiver.arrived(len as u64), Ok(()));
                        }
                    }
                    2 => {
                        let here = receiver.here();
                        prop_assert_eq!(here.start as u64, taken % RING_BYTES);
                        let len = len.min(here.len());
                        receiver.take(len);
                        taken += len as u64;
                        if let Some(due) = receiver.credit_due() {
                            receiver.credited(due);
                            credits.push_back(due);
                        }
                    }
                    3 => {
                        if let Some(due) = credits.pop_front() {
                            prop_assert_eq!(sender.credit(due), Ok(()));
                        }
                    }
                    _ => {
                        if let Some(end) = completions.pop_front() {
                            sender.completed(end);
                        }
                    }
                }
            }
            while !receiver.here().is_empty() {
                receiver.take(receiver.here().len());
                if let Some(due) = receiver.credit_due() {
                    receiver.credited(due);
                    credits.push_back(due);
                }
            }
            credits.into_iter().for_each(|due| sender.credit(due).expect("what was sent"));
            completions.into_iter().for_each(|end| sender.completed(end));
            prop_assert!(!sender.room().is_empty());
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut sender = SendRing::default();
        sender.sent(10);
        assert_eq!(sender.credit(11), Err(Overrun));
        let mut receiver = ReceiveRing::default();
        assert_eq!(receiver.arrived(RING_BYTES + 1), Err(Overrun));
        for _ in 0..MAX_MESSAGES {
            assert_eq!(receiver.arrived(1), Ok(()));
        }
        assert_eq!(receiver.arrived(1), Err(Overrun));
    }
}
