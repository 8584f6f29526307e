//! The notes of a lane. They are the immediate value of a write, the messages up a bulk lane, and
//! the messages that a parent writes to a block in place of a frame.

use crate::multicast::address::GroupAddress;
use crate::ring::Credit;
use serde::{Deserialize, Serialize};

/// The number in an immediate value has this many bits; the kind is above them.
const NUMBER_BITS: u32 = 28;

/// The meaning of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The ring has a new run, of at least one byte.
    Run {
        /// The length in bytes.
        len: u32,
        /// The sender polls its slots.
        looks: bool,
    },
    /// The other side has taken this number of bytes and messages.
    Credit(Credit),
    /// The block has a frame.
    Block(u32),
    /// The block has an [`Announcement`].
    Announced(u32),
    /// A hole in the chunk announced in this block is filled.
    Repaired(u32),
    /// The other side no longer polls its slots. It has found this many messages, modulo 2^28.
    Sleeps(u32),
    /// `Sleeps` was read.
    Heard,
}

/// The largest number in an immediate value. Larger numbers do not occur: rings and blocks are
/// smaller.
pub(crate) const MAX_NUMBER: u32 = (1 << NUMBER_BITS) - 1;
/// Enough bits for the bytes of a ring; the bits above have other meanings.
const BYTES_BITS: u32 = 17;
const BYTES: u32 = (1 << BYTES_BITS) - 1;

impl Note {
    /// The immediate value.
    pub(crate) fn encode(self) -> u32 {
        let (kind, number) = match self {
            Note::Run { len, looks } => (1, u32::from(looks) << BYTES_BITS | len),
            Note::Credit(Credit { bytes, messages }) => (2, messages << BYTES_BITS | bytes),
            Note::Block(slot) => (3, slot),
            Note::Announced(slot) => (4, slot),
            Note::Repaired(slot) => (5, slot),
            Note::Sleeps(found) => (6, found),
            Note::Heard => (7, 0),
        };
        kind << NUMBER_BITS | number & MAX_NUMBER
    }

    /// Decodes an immediate value of the other side.
    pub(crate) fn decode(immediate: u32) -> Option<Note> {
        let number = immediate & MAX_NUMBER;
        let (bytes, above) = (number & BYTES, number >> BYTES_BITS);
        match immediate >> NUMBER_BITS {
            1 if bytes > 0 && above <= 1 => Some(Note::Run { len: bytes, looks: above == 1 }),
            2 => Some(Note::Credit(Credit { bytes, messages: above })),
            3 => Some(Note::Block(number)),
            4 => Some(Note::Announced(number)),
            5 => Some(Note::Repaired(number)),
            6 => Some(Note::Sleeps(number)),
            7 if number == 0 => Some(Note::Heard),
            _ => None,
        }
    }
}

/// Memory of the child into which the parent may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The address.
    pub(crate) addr: u64,
    /// The key to the block.
    pub(crate) rkey: u32,
    /// The length in bytes.
    pub(crate) len: u32,
}

/// A message up a bulk lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    /// The parent may write one frame, or one [`Announcement`], to this block.
    Grant {
        /// The child's number of the block.
        slot: u32,
        /// The block's memory.
        to: Place,
    },
    /// A part of the chunk announced in this block is missing.
    Repair {
        /// The block.
        slot: u32,
        /// The offset in the payload, in bytes.
        offset: u32,
        /// The destination, and its length in bytes.
        to: Place,
    },
    /// Asks for a datagram of the group, to find out whether datagrams arrive.
    Probe,
    /// The child receives the group's datagrams.
    Hears {
        /// The group's tag.
        tag: u64,
        /// The number of the first chunk that it receives.
        from: u64,
    },
}

impl Up {
    /// Length on the wire.
    pub(crate) const BYTES: usize = 28;

    pub(crate) fn encode(&self) -> [u8; Up::BYTES] {
        let (kind, slot, offset, to) = match *self {
            Up::Grant { slot, to } => (1, slot, 0, to),
            Up::Repair { slot, offset, to } => (2, slot, offset, to),
            Up::Probe => (3, 0, 0, Place { addr: 0, rkey: 0, len: 0 }),
            Up::Hears { tag, from } => {
                let (low, high) = (tag as u32, (tag >> 32) as u32);
                (4, 0, 0, Place { addr: from, rkey: low, len: high })
            }
        };
        let mut out = [0; Up::BYTES];
        let words = [kind, slot, to.addr as u32, (to.addr >> 32) as u32, to.rkey, to.len, offset];
        for (at, word) in words.into_iter().enumerate() {
            out[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes a message; `None` if the bytes have no meaning.
    pub(crate) fn decode(bytes: &[u8; Up::BYTES]) -> Option<Up> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[4 * at + i]));
        let long = |low: usize, high: usize| u64::from(word(low)) | u64::from(word(high)) << 32;
        let (slot, offset) = (word(1), word(6));
        let to = Place { addr: long(2, 3), rkey: word(4), len: word(5) };
        match word(0) {
            1 => Some(Up::Grant { slot, to }),
            2 => Some(Up::Repair { slot, offset, to }),
            3 => Some(Up::Probe),
            4 => Some(Up::Hears { tag: long(4, 5), from: to.addr }),
            _ => None,
        }
    }
}

/// A parent's message in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Announcement {
    /// The address of the cluster's group.
    Group(GroupAddress),
    /// The next chunk has this number. Its payload is sent to the group. Its header follows.
    Chunk {
        /// The number.
        number: u64,
        /// Length of the payload in bytes.
        total: u32,
    },
}

impl Announcement {
    /// The encoded message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Serializing integers into memory that grows cannot fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The message, and the bytes after it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Announcement, &[u8])> {
        postcard::take_from_bytes(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn notes_and_upward_messages_survive_the_wire(
            immediate: u32,
            bytes in prop::array::uniform28(any::<u8>()),
            kind in 0u8..6,
        ) {
            if let Some(note) = Note::decode(immediate) {
                prop_assert_eq!(note.encode(), immediate);
            }
            let mut bytes = bytes;
            bytes[..4].copy_from_slice(&u32::from(kind).to_le_bytes());
            if let Some(up) = Up::decode(&bytes) {
                prop_assert_eq!(Up::decode(&up.encode()), Some(up));
            }
        }

        #[test]
        fn messages_survive_the_wire(
            number: u64, total: u32, rest in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let announcement = Announcement::Chunk { number, total };
            let bytes = [announcement.encode(), rest.clone()].concat();
            prop_assert_eq!(Announcement::decode(&bytes), Some((announcement, &rest[..])));
            let _ = Announcement::decode(&rest);
        }
    }
}
