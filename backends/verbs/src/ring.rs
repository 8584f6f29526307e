//! The places of a lane's messages, at both ends, without memory or adapter.
//!
//! Messages are counted from 0. A *run* is reported by a completion and lies in a ring of bytes.
//! The sender writes it from its own ring to the same place of the receiver's ring. It may reuse a
//! place once the receiver has acknowledged the data (credit) and its own adapter has read the data
//! (completion).
//!
//! A *short* message has a slot, given by its number, and may be found there without a completion
//! ([`slot`](crate::slot)). Runs and short messages together never exceed [`MAX_MESSAGES`] without
//! credit: a run uses up a receive request, and a short message uses its slot.

use std::ops::Range;

/// Length of a ring in bytes, a power of two. Operations have some tens of bytes, and inline data
/// has at most a few KiB by default.
pub(crate) const RING_BYTES: u64 = 64 << 10;
/// The most messages without credit.
pub(crate) const MAX_MESSAGES: u64 = 128;

/// Messages that were taken, so that their room may be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    /// Bytes of runs.
    pub(crate) bytes: u32,
    /// Runs and short messages.
    pub(crate) messages: u32,
}

/// The sender's end.
#[derive(Debug, Default)]
pub(crate) struct SendRing {
    messages: u64,
    credited_messages: u64,
    written: u64,
    credited: u64,
    completed: u64,
}

/// The receiver's end.
#[derive(Debug, Default)]
pub(crate) struct ReceiveRing {
    messages: u64,
    taken_messages: u64,
    credited_messages: u64,
    arrived: u64,
    taken: u64,
    credited: u64,
}

/// The other side claims more than it can have sent or processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

impl SendRing {
    /// The number of the next message, if it may be sent.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        (self.messages - self.credited_messages < MAX_MESSAGES).then_some(self.messages)
    }

    /// How many messages were sent.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// The room for the next run. Empty if the run must wait. The room never wraps around the end
    /// of the ring.
    #[inline]
    pub(crate) fn room(&self) -> Range<usize> {
        let at = (self.written % RING_BYTES) as usize;
        if self.next().is_none() {
            return at..at;
        }
        let used = self.written - self.credited.min(self.completed);
        let free = (RING_BYTES - used).min(RING_BYTES - at as u64);
        at..at + free as usize
    }

    /// The next message, a run of `len` bytes, is under way.
    #[inline]
    pub(crate) fn sent_run(&mut self, len: usize) {
        self.written += len as u64;
        self.messages += 1;
    }

    /// The next message, a short one, is under way.
    #[inline]
    pub(crate) fn sent_short(&mut self) {
        self.messages += 1;
    }

    /// The end of the last run, for [`completed`](Self::completed).
    pub(crate) fn end(&self) -> u64 {
        self.written
    }

    /// The adapter has read everything up to `end`.
    pub(crate) fn completed(&mut self, end: u64) {
        self.completed = self.completed.max(end);
    }

    /// The other side has taken more.
    pub(crate) fn credit(&mut self, credit: Credit) -> Result<(), Overrun> {
        let credited = self.credited + u64::from(credit.bytes);
        let messages = self.credited_messages + u64::from(credit.messages);
        if credited > self.written || messages > self.messages {
            return Err(Overrun);
        }
        (self.credited, self.credited_messages) = (credited, messages);
        Ok(())
    }
}

impl ReceiveRing {
    /// The number of the next message to arrive.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.messages
    }

    /// The next message, a run of `len` bytes, has arrived.
    pub(crate) fn arrived_run(&mut self, len: u64) -> Result<(), Overrun> {
        let arrived = self.arrived + len;
        let goes_around = self.arrived % RING_BYTES + len > RING_BYTES;
        if goes_around || arrived - self.credited > RING_BYTES {
            return Err(Overrun);
        }
        self.arrived_short()?;
        self.arrived = arrived;
        Ok(())
    }

    /// The next message, a short one, has arrived.
    #[inline]
    pub(crate) fn arrived_short(&mut self) -> Result<(), Overrun> {
        if self.messages - self.credited_messages >= MAX_MESSAGES {
            return Err(Overrun);
        }
        self.messages += 1;
        Ok(())
    }

    /// Takes the next message, a run of `len` bytes. Returns its place.
    pub(crate) fn take_run(&mut self, len: usize) -> Range<usize> {
        let at = (self.taken % RING_BYTES) as usize;
        self.taken += len as u64;
        self.taken_messages += 1;
        at..at + len
    }

    /// The place of the next run to take.
    pub(crate) fn next_run_at(&self) -> usize {
        (self.taken % RING_BYTES) as usize
    }

    /// Takes the next message, a short one.
    #[inline]
    pub(crate) fn take_short(&mut self) {
        self.taken_messages += 1;
    }

    /// The credit to send now. It is due when half of the ring or of the messages has been taken.
    /// Credits are therefore few, and the sender never stalls.
    #[inline]
    pub(crate) fn credit_due(&self) -> Option<Credit> {
        let messages = self.taken_messages - self.credited_messages;
        let bytes = self.taken - self.credited;
        if bytes < RING_BYTES / 2 && messages < MAX_MESSAGES / 2 {
            return None;
        }
        // The ring bounds both numbers.
        Some(Credit { bytes: bytes as u32, messages: messages as u32 })
    }

    /// This credit was sent.
    pub(crate) fn credited(&mut self, credit: Credit) {
        self.credited += u64::from(credit.bytes);
        self.credited_messages += u64::from(credit.messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A message on its way: its length if it is a run.
    type Message = Option<usize>;

    fn take(receiver: &mut ReceiveRing, message: Message, taken: &mut u64) -> Option<Credit> {
        match message {
            Some(len) => {
                let place = receiver.take_run(len);
                assert_eq!(place.start as u64, *taken % RING_BYTES);
                assert!(place.end as u64 <= RING_BYTES, "it never goes around");
                *taken += len as u64;
            }
            None => receiver.take_short(),
        }
        receiver.credit_due().inspect(|due| receiver.credited(*due))
    }

    proptest! {
        /// A stream of messages of any lengths, with credits and completions delayed for any time.
        /// No message is overwritten too early, and when all have arrived there is room again.
        #[test]
        fn no_message_is_overwritten_and_none_is_stuck(
            steps in prop::collection::vec((0u8..7, 1usize..70_000), 1..600),
        ) {
            let (mut sender, mut receiver) = (SendRing::default(), ReceiveRing::default());
            let (mut credits, mut completions) = (VecDeque::new(), VecDeque::new());
            let mut here: VecDeque<Message> = VecDeque::new();
            let (mut sent, mut taken) = (0u64, 0u64);
            for (step, len) in steps {
                match step {
                    0 | 1 => {
                        let room = sender.room();
                        let len = len.min(room.len());
                        if len > 0 {
                            prop_assert_eq!(room.start as u64, sent % RING_BYTES);
                            sender.sent_run(len);
                            completions.push_back(sender.end());
                            sent += len as u64;
                            prop_assert!(sent - taken <= RING_BYTES, "written over");
                            prop_assert_eq!(receiver.arrived_run(len as u64), Ok(()));
                            here.push_back(Some(len));
                        }
                    }
                    2 | 3 => {
                        if let Some(number) = sender.next() {
                            sender.sent_short();
                            prop_assert_eq!(number, receiver.next());
                            prop_assert_eq!(receiver.arrived_short(), Ok(()));
                            here.push_back(None);
                        }
                        prop_assert!(here.len() as u64 <= MAX_MESSAGES, "a slot written over");
                    }
                    4 => {
                        if let Some(message) = here.pop_front() {
                            credits.extend(take(&mut receiver, message, &mut taken));
                        }
                    }
                    5 => {
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
            for message in here {
                credits.extend(take(&mut receiver, message, &mut taken));
            }
            credits.into_iter().for_each(|due| sender.credit(due).expect("what was sent"));
            completions.into_iter().for_each(|end| sender.completed(end));
            prop_assert!(!sender.room().is_empty());
            prop_assert!(sender.next().is_some());
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        let mut sender = SendRing::default();
        sender.sent_run(10);
        assert_eq!(sender.credit(Credit { bytes: 11, messages: 1 }), Err(Overrun));
        assert_eq!(sender.credit(Credit { bytes: 10, messages: 2 }), Err(Overrun));
        let mut receiver = ReceiveRing::default();
        assert_eq!(receiver.arrived_run(RING_BYTES + 1), Err(Overrun));
        assert_eq!(receiver.arrived_run(RING_BYTES - 1), Ok(()));
        receiver.take_run(RING_BYTES as usize - 1);
        receiver.credited(receiver.credit_due().expect("it is full"));
        assert_eq!(receiver.arrived_run(2), Err(Overrun), "it goes around");
        for _ in 0..MAX_MESSAGES {
            assert_eq!(receiver.arrived_short(), Ok(()));
        }
        assert_eq!(receiver.arrived_short(), Err(Overrun));
        assert_eq!(receiver.arrived_run(1), Err(Overrun));
    }
}
