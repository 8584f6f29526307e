//! The messages of a lane that have arrived and were not taken, in the order in which they were
//! sent. Completions report runs. Short messages are found in their slots.

use crate::guard::MemoryRegion;
use crate::ring::{Credit, MAX_MESSAGES, Overrun, ReceiveRing};
use crate::slot::{self, Check, HEAD_BYTES, MAX_SHORT_BYTES};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages up to this length are copied into shared memory. A kept part of such a message keeps at
/// most [`TAKEN_BYTES`] alive.
const SHARED_BYTES: usize = 256;
/// The length of one piece of the shared memory.
const TAKEN_BYTES: usize = 4096;
// Short messages are read in whole words.
const _: () = assert!(MAX_SHORT_BYTES.is_multiple_of(8) && MAX_SHORT_BYTES <= SHARED_BYTES);

/// The receiver's end of a lane.
#[derive(Debug)]
pub(super) struct Inbox {
    region: Arc<MemoryRegion>,
    ring: ReceiveRing,
    /// The arrived messages in order; bounded by the sender's credit.
    here: VecDeque<Message>,
    /// The buffer for copies of taken messages, shared by many.
    taken: BytesMut,
}

/// An arrived message.
#[derive(Debug)]
enum Message {
    /// The length of the next run in the ring.
    Run(usize),
    Short(Bytes),
}

impl Inbox {
    pub(super) fn new(region: Arc<MemoryRegion>) -> Inbox {
        Inbox {
            region,
            ring: ReceiveRing::default(),
            here: VecDeque::new(),
            taken: BytesMut::new(),
        }
    }

    /// Checks for the next message in its slot. Returns whether it is there. An incomplete message,
    /// or one with another number, does not count.
    #[inline]
    pub(super) fn find(&mut self) -> bool {
        let number = self.ring.next();
        let head = self.region.word(slot::place(number));
        match slot::announced(head, number) {
            Some(len) => self.read_short(number, head, len),
            None => false,
        }
    }

    /// Finds all messages in their slots. Returns whether there were any.
    pub(super) fn find_all(&mut self) -> bool {
        let mut any = false;
        while self.find() {
            any = true;
        }
        any
    }

    fn read_short(&mut self, number: u64, head: u64, len: usize) -> bool {
        if self.taken.capacity() < MAX_SHORT_BYTES {
            // Drops the rest of the last buffer. `reserve` reuses memory that no message holds.
            self.taken.reserve(TAKEN_BYTES);
        }
        let mut check = Check::new(number, len);
        let at = slot::place(number) + HEAD_BYTES;
        self.region.read_words(at, len, &mut self.taken, |word| check.add(word));
        // A message beyond the sender's credit does not count either.
        if !slot::is_whole(head, check) || self.ring.arrived_short().is_err() {
            self.taken.clear();
            return false;
        }
        self.here.push_back(Message::Short(self.taken.split().freeze()));
        true
    }

    /// Processes the report of a completion: a run of `len` bytes. Every message sent before the
    /// run is in its slot by now, and is taken first. Returns whether there was such a message.
    ///
    /// # Errors
    /// [`Overrun`] if there is no room for the run.
    pub(super) fn run(&mut self, len: u32) -> Result<bool, Overrun> {
        let any = self.find_all();
        self.ring.arrived_run(len.into())?;
        self.here.push_back(Message::Run(len as usize));
        Ok(any)
    }

    /// The next message. Consecutive runs are returned as one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Bytes> {
        match self.here.pop_front()? {
            Message::Short(bytes) => {
                self.ring.take_short();
                Some(bytes)
            }
            Message::Run(len) => Some(self.take_runs(len)),
        }
    }

    fn take_runs(&mut self, len: usize) -> Bytes {
        let mut runs = self.ring.take_run(len);
        while let Some(Message::Run(len)) = self.here.front() {
            // The ring ends here. The next run is at its beginning.
            if self.ring.next_run_at() != runs.end {
                break;
            }
            runs.end = self.ring.take_run(*len).end;
            self.here.pop_front();
        }
        if runs.len() > SHARED_BYTES {
            return Bytes::from(self.region.read(runs));
        }
        if self.taken.capacity() < runs.len() {
            self.taken.reserve(TAKEN_BYTES);
        }
        self.region.read_into(runs, &mut self.taken);
        self.taken.split().freeze()
    }

    /// Whether no found message is waiting.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    /// How many messages were ever found.
    pub(super) fn found(&self) -> u64 {
        self.ring.next()
    }

    /// See [`ReceiveRing::credit_due`].
    #[inline]
    pub(super) fn credit_due(&self) -> Option<Credit> {
        self.ring.credit_due()
    }

    /// See [`ReceiveRing::credited`].
    pub(super) fn credited(&mut self, credit: Credit) {
        debug_assert!(u64::from(credit.messages) <= MAX_MESSAGES, "of those that are here");
        self.ring.credited(credit);
    }
}
