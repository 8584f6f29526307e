//! By which a rank's memory is known: a random number at an address that its card tells.
//!
//! Who reads a rank's memory ([`super::in_place`]) reads the mark as well, in the same call and after the
//! rest. If it is there, all of it was that rank's memory, and lent: a process that has got the number of a
//! dead one, or that executes another program, has no such mark, and a rank that takes back what it has
//! lent wipes it first.

use super::doorbell::BellName;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Length of a mark.
pub(super) const MARK_BYTES: usize = 16;

/// This rank's own mark, wiped when it is dropped.
pub(super) struct Mark {
    words: Box<[AtomicU64; MARK_BYTES / 8]>,
}

/// What a mark looks like, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkCard {
    pub(super) address: u64,
    pub(super) bytes: [u8; MARK_BYTES],
}

impl Mark {
    /// The doorbell's name is random, known from the card, and nobody else's.
    pub(super) fn new(name: BellName) -> Self {
        let card = mark_bytes(name);
        let (words, _) = card.as_chunks::<8>();
        Mark {
            words: Box::new(std::array::from_fn(|i| AtomicU64::new(u64::from_ne_bytes(words[i])))),
        }
    }

    /// Where it is, until it is dropped.
    pub(super) fn address(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    /// Nobody who reads from here on finds it.
    pub(super) fn wipe(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        // What its lender writes after this must not be seen before.
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
