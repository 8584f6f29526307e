//! The two ends of a ring of [`Records`].

use super::records::{FirstBytes, Position, Records, SLOT_BYTES, behind};
use super::ring::CorruptRing;

/// What the producer knows of a ring that was empty when it came.
#[derive(Debug, Default)]
pub(super) struct ProducerEnd {
    tail: Position,
    /// What the consumer had told when it was looked at.
    head: Position,
}

/// Of a record that was not longer than so much beyond its slot, all of the next is fetched while it is
/// looked for: its lines come with the one that tells of it. Of a longer one that would take them from
/// its producer before it has written them, so it is only the first.
const EXPECTED_MAX_BYTES: usize = 128;

/// What the consumer knows of it.
#[derive(Debug)]
pub(super) struct ConsumerEnd {
    /// Where the first record is that is not wholly taken.
    head: Position,
    /// What the producer was told.
    told: Position,
    /// The length of that record; 0: it was not there yet.
    record: usize,
    /// Bytes of it that are taken.
    taken: usize,
    /// Its first bytes.
    first: FirstBytes,
    /// Bytes beyond its slot that are fetched while the next record is looked for.
    expected: usize,
}

impl ProducerEnd {
    /// Appends as much of the two buffers as fits and tells how much that was.
    #[inline]
    pub(super) fn push(
        &mut self,
        ring: &Records<'_>,
        buffers: [&[u8]; 2],
    ) -> Result<usize, CorruptRing> {
        let total = buffers[0].len() + buffers[1].len();
        let mut bytes = ring.room(self.tail, self.head, total)?;
        if bytes < total {
            self.head = ring.head();
            bytes = ring.room(self.tail, self.head, total)?;
        }
        if bytes == 0 {
            return Ok(0);
        }
        let in_first = buffers[0].len().min(bytes);
        let mut parts = [&buffers[0][..in_first], &buffers[1][..bytes - in_first]];
        let (mut first, mut filled) = ([0; SLOT_BYTES], 0);
        for part in &mut parts {
            let (here, rest) = part.split_at(part.len().min(SLOT_BYTES - filled));
            first[filled..filled + here.len()].copy_from_slice(here);
            filled += here.len();
            *part = rest;
        }
        self.tail = ring.put(self.tail, bytes, &first, parts);
        Ok(bytes)
    }

    /// Asks the consumer to poke the producer once there is space; tells whether there is already for
    /// some of so many bytes, in which case the producer tries again instead of waiting.
    pub(super) fn ask_for_space(
        &mut self,
        ring: &Records<'_>,
        total: usize,
    ) -> Result<bool, CorruptRing> {
        ring.want_space();
        self.head = ring.head();
        Ok(ring.room(self.tail, self.head, total)? > 0)
    }
}

impl Default for ConsumerEnd {
    fn default() -> Self {
        let (head, first) = (Position::default(), [0; SLOT_BYTES]);
        ConsumerEnd { head, told: head, record: 0, taken: 0, first, expected: 0 }
    }
}

impl ConsumerEnd {
    /// Whether bytes have come; also when the ring is corrupt, which [`ConsumerEnd::unread`] tells.
    #[inline]
    pub(super) fn has_unread(&self, ring: &Records<'_>) -> bool {
        ring.fetch(self.head.byte, self.expected);
        self.record > 0 || ring.has_record(self.head)
    }

    /// Bytes that have come, up to the end of a record: how many of them can be copied.
    #[inline]
    pub(super) fn unread(&mut self, ring: &Records<'_>) -> Result<usize, CorruptRing> {
        if self.record == 0 {
            self.record = ring.take(self.head, &mut self.first)?;
        }
        Ok(self.record - self.taken)
    }

    /// Copies bytes that have come, from the `skip`-th on: no more than there are.
    #[inline]
    pub(super) fn copy(&self, ring: &Records<'_>, skip: usize, into: &mut [u8]) {
        debug_assert!(self.taken + skip + into.len() <= self.record);
        let skip = self.taken + skip;
        let (here, rest) = into.split_at_mut(into.len().min(SLOT_BYTES.saturating_sub(skip)));
        if !here.is_empty() {
            here.copy_from_slice(&self.first[skip..skip + here.len()]);
        }
        if !rest.is_empty() {
            ring.copy_behind(self.head, skip.saturating_sub(SLOT_BYTES), rest);
        }
    }

    /// Lets go of bytes that have come: no more than there are. Tells whether the producer waits for
    /// space and now has enough of it, so that it is to be poked.
    #[inline]
    pub(super) fn advance(&mut self, ring: &Records<'_>, bytes: usize) -> bool {
        self.taken += bytes;
        if self.taken < self.record || self.record == 0 {
            return false;
        }
        self.head = behind(self.head, self.record);
        let rest = self.record.saturating_sub(SLOT_BYTES);
        self.expected = if rest <= EXPECTED_MAX_BYTES { rest } else { 1 };
        (self.record, self.taken) = (0, 0);
        if !ring.is_far(self.head, self.told) {
            return false;
        }
        self.told = self.head;
        ring.tell_head(self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::records::{RecordControl, Shape};
    use std::cell::UnsafeCell;

    /// With eight slots.
    const CAPACITY: usize = 4096;
    /// Most that fits into it as one record.
    const FULL: usize = CAPACITY + SLOT_BYTES;
    const SHAPE: Shape = Shape::of(CAPACITY);
    const LINES: usize = SHAPE.memory_bytes() / 64;

    #[repr(C, align(64))]
    #[derive(Clone, Copy)]
    struct Line([u8; 64]);

    struct Shared {
        control: RecordControl,
        data: UnsafeCell<[Line; LINES]>,
    }

    // SAFETY: the bytes are touched through one `Records` per end only, which orders its accesses.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn new() -> Self {
            let data = UnsafeCell::new([Line([0; 64]); LINES]);
            Shared { control: RecordControl::default(), data }
        }

        fn ring(&self) -> Records<'_> {
            // SAFETY: `data` lives as long as `self`; each test has one producer and one consumer.
            unsafe { Records::new(&self.control, self.data.get().cast(), SHAPE) }
        }
    }

    /// Takes a record of so many bytes of this value; tells whether the producer is to be poked.
    fn take(ring: &Records<'_>, end: &mut ConsumerEnd, bytes: usize, value: u8) -> bool {
        assert!(end.has_unread(ring));
        assert_eq!(end.unread(ring), Ok(bytes));
        let mut out = vec![0; bytes];
        end.copy(ring, 0, &mut out);
        assert!(out.iter().all(|&byte| byte == value), "{out:?}");
        end.advance(ring, bytes)
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let shared = Shared::new();
        let ring = shared.ring();
        let (mut producer, mut consumer) = (ProducerEnd::default(), ConsumerEnd::default());
        assert_eq!(producer.push(&ring, [&[], &[]]), Ok(0));
        for round in 0..200usize {
            let (value, bytes) = (round as u8, 1 + round * 7 % 400);
            assert!(!consumer.has_unread(&ring));
            assert_eq!(consumer.unread(&ring), Ok(0));
            assert!(!consumer.advance(&ring, 0));
            let first = vec![value; bytes / 3];
            let second = vec![value; bytes - bytes / 3];
            assert_eq!(producer.push(&ring, [&first, &second]), Ok(bytes));
            assert_eq!(producer.push(&ring, [&[], &[!value]]), Ok(1));
            take(&ring, &mut consumer, bytes, value);
            take(&ring, &mut consumer, 1, !value);
        }
    }

    #[test]
    fn a_full_ring_asks_and_is_told_after_a_quarter_of_its_slots() {
        let shared = Shared::new();
        let ring = shared.ring();
        let (mut producer, mut consumer) = (ProducerEnd::default(), ConsumerEnd::default());
        for _ in 0..8 {
            assert_eq!(producer.push(&ring, [&[1; 30], &[1; 26]]), Ok(56));
        }
        assert_eq!(producer.push(&ring, [&[9], &[]]), Ok(0));
        assert_eq!(producer.ask_for_space(&ring, 1), Ok(false));
        assert!(!take(&ring, &mut consumer, 56, 1), "less than a quarter");
        assert_eq!(producer.push(&ring, [&[9], &[]]), Ok(0), "it was not told");
        assert!(take(&ring, &mut consumer, 56, 1));
        for _ in 2..8 {
            assert!(!take(&ring, &mut consumer, 56, 1), "it has been told");
        }
        assert_eq!(producer.ask_for_space(&ring, 1), Ok(true));
        assert_eq!(producer.push(&ring, [&[2], &[]]), Ok(1));
        take(&ring, &mut consumer, 1, 2);
    }

    #[test]
    fn a_full_ring_asks_and_is_told_after_a_quarter_of_its_bytes() {
        let shared = Shared::new();
        let ring = shared.ring();
        let (mut producer, mut consumer) = (ProducerEnd::default(), ConsumerEnd::default());
        for _ in 0..3 {
            assert_eq!(producer.push(&ring, [&[1; 56], &[1; 1024]]), Ok(1080));
        }
        assert_eq!(producer.push(&ring, [&[2; 56], &[2; 2000]]), Ok(1080), "what fits");
        assert_eq!(producer.push(&ring, [&[3; 57], &[]]), Ok(0), "none rather than little");
        assert_eq!(producer.ask_for_space(&ring, 57), Ok(false));
        assert_eq!(producer.ask_for_space(&ring, 56), Ok(true), "there are slots");
        assert!(take(&ring, &mut consumer, 1080, 1));
        assert_eq!(producer.ask_for_space(&ring, 57), Ok(true));
        assert_eq!(producer.push(&ring, [&[3; 57], &[]]), Ok(57));
        take(&ring, &mut consumer, 1080, 1);
        take(&ring, &mut consumer, 1080, 1);
        take(&ring, &mut consumer, 1080, 2);
        take(&ring, &mut consumer, 57, 3);
    }

    #[test]
    fn a_record_is_taken_in_pieces() {
        let shared = Shared::new();
        let ring = shared.ring();
        let (mut producer, mut consumer) = (ProducerEnd::default(), ConsumerEnd::default());
        assert_eq!(producer.push(&ring, [&[1; 60], &[2; 8000]]), Ok(FULL));
        assert_eq!(consumer.unread(&ring), Ok(FULL));
        let mut out = [0; 8];
        for (skip, expected) in [(48, [1; 8]), (52, [1; 8]), (56, [1, 1, 1, 1, 2, 2, 2, 2])] {
            consumer.copy(&ring, skip, &mut out);
            assert_eq!(out, expected, "{skip}");
        }
        assert!(!consumer.advance(&ring, 58), "its end is not taken");
        consumer.copy(&ring, 0, &mut out);
        assert_eq!(out, [1, 1, 2, 2, 2, 2, 2, 2]);
        assert!(!consumer.advance(&ring, FULL - 59), "its end is not taken");
        assert_eq!(consumer.unread(&ring), Ok(1));
        assert_eq!(producer.ask_for_space(&ring, 100), Ok(false));
        assert!(consumer.advance(&ring, 1));
        assert_eq!(consumer.unread(&ring), Ok(0));
        assert_eq!(producer.ask_for_space(&ring, 100), Ok(true));
    }

    #[test]
    fn impossible_lengths_and_positions_are_an_error() {
        for bytes in [0, FULL + 1, u32::MAX as usize] {
            let shared = Shared::new();
            shared.ring().put(Position::default(), bytes, &[0; SLOT_BYTES], [&[], &[]]);
            assert_eq!(ConsumerEnd::default().unread(&shared.ring()), Err(CorruptRing));
        }
        let shared = Shared::new();
        let ring = shared.ring();
        for (slot, byte) in [(1, 0), (0, 64), (u64::MAX - 8, 0), (0, u64::MAX - 4096)] {
            ring.tell_head(Position { slot, byte });
            assert_eq!(ProducerEnd::default().ask_for_space(&ring, 1), Err(CorruptRing));
            let longest = [0; FULL + 1];
            assert_eq!(ProducerEnd::default().push(&ring, [&longest, &[]]), Err(CorruptRing));
        }
    }

    /// Two threads, every byte in order, and a producer that goes on only when it is poked or has
    /// found space: were a poke lost, the loop would not end.
    #[test]
    fn no_poke_is_lost() {
        const BYTES: usize = 100_000;
        let shared = Shared::new();
        let (poke, poked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (ring, mut end) = (shared.ring(), ProducerEnd::default());
                let poked = poked;
                let mut sent = 0;
                while sent < BYTES {
                    let chunk: Vec<u8> =
                        (sent..BYTES.min(sent + 1 + sent % 397)).map(|i| (i % 251) as u8).collect();
                    let pushed = end.push(&ring, [&chunk, &[]]).unwrap();
                    sent += pushed;
                    if pushed == 0 && !end.ask_for_space(&ring, chunk.len()).unwrap() {
                        poked.recv().unwrap();
                    }
                }
            });
            let (ring, mut end) = (shared.ring(), ConsumerEnd::default());
            let mut got = 0;
            let mut buffer = [0; 41];
            while got < BYTES {
                let n = end.unread(&ring).unwrap().min(buffer.len());
                end.copy(&ring, 0, &mut buffer[..n]);
                for (i, byte) in buffer[..n].iter().enumerate() {
                    assert_eq!(*byte, ((got + i) % 251) as u8);
                }
                if n > 0 && end.advance(&ring, n) {
                    poke.send(()).unwrap();
                }
                got += n;
                std::thread::yield_now();
            }
        });
    }
}
