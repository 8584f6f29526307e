//! A short message in its slot: found by polling, without a completion.
//!
//! One RDMA WRITE writes a slot, and the receiver may see its parts in any order. In practice,
//! adapters write bytes in the order of addresses, but no specification promises it, and soft-RoCE
//! copies in any order. The code therefore relies on no order. The header has a checksum of number
//! and bytes. The receiver copies the bytes out, and accepts them if the checksum matches the copy.
//!
//! A message that is still partly old passes the check with a probability of 2^-40. No byte of a
//! message is ever at the place of a header, so message bytes cannot forge one.

use crate::ring::{MAX_MESSAGES, RING_BYTES};

/// Length of a slot in bytes: a message that fits inside a request, and its header.
pub(crate) const SLOT_BYTES: usize = 256;
/// Length of the header in front of the message.
pub(crate) const HEAD_BYTES: usize = 8;
/// The longest short message.
pub(crate) const MAX_SHORT_BYTES: usize = SLOT_BYTES - HEAD_BYTES;
/// The offset of the slots in the memory of a lane: behind both rings.
pub(crate) const SLOTS_AT: usize = 2 * RING_BYTES as usize;
/// Length of the memory of a lane.
pub(crate) const REGION_BYTES: usize = SLOTS_AT + MAX_MESSAGES as usize * SLOT_BYTES;

/// Bits of a header: the low bits of the message's number, its length, the checksum.
const NUMBER_BITS: u32 = 16;
const LEN_BITS: u32 = 8;
const CHECK_AT: u32 = NUMBER_BITS + LEN_BITS;
/// 2^64 divided by the golden ratio: odd, and its bits show no pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of a message, word by word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check(u64);

impl Check {
    /// The checksum of number and length, before the bytes.
    #[inline]
    pub(crate) fn new(number: u64, len: usize) -> Check {
        let mut check = Check(number);
        check.add(len as u64);
        check
    }

    /// Adds the next eight bytes, little-endian, the last word padded with zeros. Two messages that
    /// differ in one word have different sums.
    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        let sum = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = sum ^ sum >> 32;
    }

    #[inline]
    fn bits(self) -> u64 {
        self.0.wrapping_mul(FACTOR) >> CHECK_AT
    }
}

/// The offset of the slot of message `number` in the memory of a lane.
#[inline]
pub(crate) fn place(number: u64) -> usize {
    SLOTS_AT + (number % MAX_MESSAGES) as usize * SLOT_BYTES
}

/// The header of message `number`, which has a length of 1 to [`MAX_SHORT_BYTES`].
#[inline]
pub(crate) fn head(number: u64, bytes: &[u8]) -> u64 {
    let mut check = Check::new(number, bytes.len());
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| check.add(u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        check.add(u64::from_le_bytes(last));
    }
    let number = number & ((1 << NUMBER_BITS) - 1);
    check.bits() << CHECK_AT | (bytes.len() as u64) << NUMBER_BITS | number
}

/// The length of message `number`, if this header may belong to it.
#[inline]
pub(crate) fn announced(head: u64, number: u64) -> Option<usize> {
    let is_number = (head ^ number) & ((1 << NUMBER_BITS) - 1) == 0;
    let len = (head >> NUMBER_BITS) as usize & ((1 << LEN_BITS) - 1);
    (is_number && (1..=MAX_SHORT_BYTES).contains(&len)).then_some(len)
}

/// Whether the message is complete: `check`, computed from the copied bytes, matches the head.
#[inline]
pub(crate) fn is_whole(head: u64, check: Check) -> bool {
    head >> CHECK_AT == check.bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A slot as the receiver sees it.
    #[derive(Clone)]
    struct Slot([u64; SLOT_BYTES / 8]);

    impl Slot {
        /// The words that the write of this message changes, with their places.
        fn words(number: u64, bytes: &[u8]) -> Vec<(usize, u64, u64)> {
            let whole = [&head(number, bytes).to_le_bytes()[..], bytes].concat();
            let word = |at: usize, chunk: &[u8]| {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                let mask = u64::MAX >> (8 * (8 - chunk.len()));
                (at, u64::from_le_bytes(bytes), mask)
            };
            whole.chunks(8).enumerate().map(|(at, chunk)| word(at, chunk)).collect()
        }

        fn write(&mut self, (at, word, mask): (usize, u64, u64)) {
            self.0[at] = self.0[at] & !mask | word;
        }

        /// Reads as the receiver does.
        fn read(&self, number: u64) -> Option<Vec<u8>> {
            let len = announced(self.0[0], number)?;
            let mut check = Check::new(number, len);
            let mut bytes = Vec::new();
            for (at, word) in self.0[1..].iter().enumerate().take(len.div_ceil(8)) {
                let kept = (len - 8 * at).min(8);
                let word = word & u64::MAX >> (8 * (8 - kept));
                check.add(word);
                bytes.extend_from_slice(&word.to_le_bytes()[..kept]);
            }
            is_whole(self.0[0], check).then_some(bytes)
        }
    }

    proptest! {
        /// Words of a message arrive in any order over any earlier content of the slot. The message
        /// is found only when all words are there. It then equals the sent message.
        #[test]
        fn a_message_is_found_only_when_complete(
            first: u64,
            messages in prop::collection::vec(
                prop::collection::vec(any::<u8>(), 1..=MAX_SHORT_BYTES), 1..6),
            laps in prop::collection::vec(1u64..2000, 6),
            order: u64,
        ) {
            let (mut slot, mut number) = (Slot([0; SLOT_BYTES / 8]), first >> 1);
            for (bytes, laps) in messages.iter().zip(laps) {
                number += laps * MAX_MESSAGES;
                let mut words = Slot::words(number, bytes);
                let mut order = order;
                while !words.is_empty() {
                    prop_assert_eq!(slot.read(number), None);
                    let next = (order % words.len() as u64) as usize;
                    order = order.rotate_right(7).wrapping_mul(FACTOR);
                    slot.write(words.swap_remove(next));
                    // A word that equals the old content need not arrive.
                    words.retain(|(at, word, mask)| slot.0[*at] & mask != *word);
                }
                prop_assert_eq!(slot.read(number), Some(bytes.clone()));
                prop_assert_eq!(slot.read(number + MAX_MESSAGES), None);
                prop_assert_eq!(slot.read(number + (1 << NUMBER_BITS)), None, "its number comes round");
            }
        }
    }

    #[test]
    fn an_empty_slot_has_no_message() {
        for number in 0..1 << 20 {
            assert_eq!(announced(0, number), None);
        }
    }

    #[test]
    fn slots_are_behind_the_rings_and_do_not_overlap() {
        assert_eq!(place(0), SLOTS_AT);
        assert_eq!(place(MAX_MESSAGES - 1) + SLOT_BYTES, REGION_BYTES);
        assert_eq!(place(MAX_MESSAGES), place(0));
    }
}
