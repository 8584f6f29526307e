//! The mark of a rank's memory: a random number at the address on its card.
//!
//! A reader of a rank's memory ([`super::in_place`]) reads the mark too, in the same call and after
//! the rest. If the mark is there, everything that it read was that rank's memory, and was lent. A
//! process that got the number of a dead process has no such mark, nor has a process that executes
//! another program. A rank that ends a loan of its memory wipes the mark first.

use super::doorbell::BellName;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Length of a mark.
pub(super) const MARK_BYTES: usize = 16;

/// This rank's own mark. It is wiped when it is dropped.
pub(super) struct Mark {
    words: Box<[AtomicU64; MARK_BYTES / 8]>,
}

/// The bytes and the address of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkCard {
    pub(super) address: u64,
    pub(super) bytes: [u8; MARK_BYTES],
}

impl Mark {
    /// Makes a mark from the doorbell's name, which is random, known from the card, and unique.
    pub(super) fn new(name: BellName) -> Self {
        let card = mark_bytes(name);
        let (words, _) = card.as_chunks::<8>();
        Mark {
            words: Box::new(std::array::from_fn(|i| AtomicU64::new(u64::from_ne_bytes(words[i])))),
        }
    }

    /// The address of the mark, until it is dropped.
    pub(super) fn address(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    /// Wipes the mark. Readers from here on do not find it.
    pub(super) fn wipe(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        // The lender's later writes must not be visible before the wiped mark.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// The mark of the rank whose doorbell has this name.
pub(super) fn mark_bytes(name: BellName) -> [u8; MARK_BYTES] {
    name.0.to_ne_bytes()
}
