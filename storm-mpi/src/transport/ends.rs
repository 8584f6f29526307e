//! The two ends of a ring of [`Records`].

use super::records::{
    FirstBytes, PIECE_MAX_BYTES, Position, Records, SLOT_BYTES, WORD_BYTES, behind,
};
use super::ring::CorruptRing;

/// The producer's knowledge of a ring that was empty at the start.
#[derive(Debug, Default)]
pub(super) struct ProducerEnd {
    tail: Position,
    /// The position that the consumer had published when the producer last read it.
    head: Position,
}

/// Limit for fetching the next record as a whole while polling for it. After a record with at most
/// this many bytes beyond its slot, all lines of the next one are fetched together with the line
/// that announces it. After a longer record, only the first line is fetched: the rest would be
/// taken from the producer before it has written them.
const EXPECTED_MAX_BYTES: usize = 128;

/// The consumer's knowledge of a ring.
#[derive(Debug)]
pub(super) struct ConsumerEnd {
    /// Position of the first record that is not wholly taken.
    head: Position,
    /// The position that was published to the producer.
    told: Position,
    /// The length of the record at `head`; 0 if it was not there yet.
    record: usize,
    /// Bytes of the record that are taken.
    taken: usize,
    /// First bytes of the record.
    first: FirstBytes,
    /// Bytes beyond its slot that are fetched while polling for the next record.
    expected: usize,
}

impl ProducerEnd {
    /// Appends as much of the two buffers as fits and returns the number of bytes.
    #[inline]
    pub(super) fn push(
        &mut self,
        ring: &Records<'_>,
        buffers: [&[u8]; 2],
    ) -> Result<usize, CorruptRing> {
        let total = PIECE_MAX_BYTES.min(buffers[0].len() + buffers[1].len());
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
        let (mut first, mut filled) = (FirstBytes::default(), 0);
        for part in &mut parts {
            let (here, rest) = part.split_at(part.len().min(SLOT_BYTES - filled));
            first.as_flattened_mut()[filled..filled + here.len()].copy_from_slice(here);
            filled += here.len();
            *part = rest;
        }
        ring.fill_behind(self.tail, 0, parts[0]);
        ring.fill_behind(self.tail, parts[0].len(), parts[1]);
        self.tail = ring.put(self.tail, bytes, &first);
        Ok(bytes)
    }

    /// Appends a header of whole words and its payload completely, or appends nothing and returns
    /// `false`.
    #[inline]
    pub(super) fn push_whole<const WORDS: usize>(
        &mut self,
        ring: &Records<'_>,
        head: &[[u8; WORD_BYTES]; WORDS],
        payload: &[u8],
    ) -> Result<bool, CorruptRing> {
        let total = WORDS * WORD_BYTES + payload.len();
        if ring.room(self.tail, self.head, total)? < total {
            self.head = ring.head();
            if ring.room(self.tail, self.head, total)? < total {
                return Ok(false);
            }
        }
        let mut first = FirstBytes::default();
        let (start, rest) = first.split_at_mut(WORDS);
        start.copy_from_slice(head);
        let beside = payload.len().min(rest.as_flattened().len());
        into_words(&payload[..beside], rest);
        ring.fill_all_behind(self.tail, &payload[beside..]);
        self.tail = ring.put(self.tail, total, &first);
        Ok(true)
    }

    /// Asks the consumer to poke the producer once there is space. Returns true if there is already
    /// space for some of `total` bytes; the producer then tries again instead of waiting.
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
        let (head, first) = (Position::default(), FirstBytes::default());
        ConsumerEnd { head, told: head, record: 0, taken: 0, first, expected: 0 }
    }
}

impl ConsumerEnd {
    /// Whether bytes have arrived. Also true if the ring is corrupt, which [`ConsumerEnd::unread`]
    /// reports.
    #[inline]
    pub(super) fn has_unread(&self, ring: &Records<'_>) -> bool {
        ring.fetch(self.head.byte, self.expected);
        self.record > 0 || ring.has_record(self.head)
    }

    /// Whether only the announcing line is fetched while polling.
    #[inline]
    pub(super) fn expects_one_line(&self) -> bool {
        self.expected == 0
    }

    /// Number of bytes that have arrived and can be copied, up to the end of a record.
    #[inline]
    pub(super) fn unread(&mut self, ring: &Records<'_>) -> Result<usize, CorruptRing> {
        if self.record == 0 {
            self.record = ring.take(self.head, &mut self.first)?;
        }
        Ok(self.record - self.taken)
    }

    /// The length and the first bytes of a record of which nothing is taken. `None` if there is no
    /// record, or only the rest of one.
    #[inline]
    pub(super) fn whole(
        &mut self,
        ring: &Records<'_>,
    ) -> Result<Option<(usize, &FirstBytes)>, CorruptRing> {
        let bytes = self.unread(ring)?;
        Ok((bytes > 0 && self.taken == 0).then_some((bytes, &self.first)))
    }

    /// Copies the bytes behind a header of `WORDS` words from a record of which nothing is taken.
    /// The record must have as many.
    #[inline]
    pub(super) fn copy_whole<const WORDS: usize>(&self, ring: &Records<'_>, into: &mut [u8]) {
        debug_assert!(self.taken == 0 && WORDS * WORD_BYTES + into.len() <= self.record);
        let beside = &self.first[WORDS..];
        let (here, rest) = into.split_at_mut(into.len().min(beside.as_flattened().len()));
        out_of_words(beside, here);
        if !rest.is_empty() {
            ring.copy_behind(self.head, 0, rest);
        }
    }

    /// Copies bytes that have arrived, from the `skip`-th on. As many must have arrived.
    #[inline]
    pub(super) fn copy(&self, ring: &Records<'_>, skip: usize, into: &mut [u8]) {
        debug_assert!(self.taken + skip + into.len() <= self.record);
        let skip = self.taken + skip;
        let (here, rest) = into.split_at_mut(into.len().min(SLOT_BYTES.saturating_sub(skip)));
        if !here.is_empty() {
            here.copy_from_slice(&self.first.as_flattened()[skip..skip + here.len()]);
        }
        if !rest.is_empty() {
            ring.copy_behind(self.head, skip.saturating_sub(SLOT_BYTES), rest);
        }
    }

    /// Releases bytes that have arrived; as many must have arrived. Returns true if the producer
    /// waits for space and now has enough, so it must be poked.
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

/// Copies bytes into words, of which there must be enough. The bytes stay in registers: a word that
/// was just written byte by byte can only be read after a wait for the cache.
#[inline]
fn into_words(bytes: &[u8], words: &mut [[u8; WORD_BYTES]]) {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    // `zip` would become a call of `memcpy`.
    for (at, word) in words.iter_mut().enumerate() {
        if let Some(bytes) = whole.get(at) {
            *word = *bytes;
        }
    }
    if let Some(word) = words.get_mut(whole.len())
        && !rest.is_empty()
    {
        *word = short_word(rest).to_le_bytes();
    }
}

/// Up to 7 bytes as the low ones of a word.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let last = |at: usize, word: u64| word << (8 * at);
    match (bytes.first_chunk::<4>(), bytes.first_chunk::<2>(), bytes) {
        (Some(low), ..) => {
            let high = bytes.last_chunk::<4>().unwrap_or(low);
            u64::from(u32::from_le_bytes(*low)) | last(n - 4, u32::from_le_bytes(*high).into())
        }
        (None, Some(low), _) => {
            let high = bytes.last_chunk::<2>().unwrap_or(low);
            u64::from(u16::from_le_bytes(*low)) | last(n - 2, u16::from_le_bytes(*high).into())
        }
        (None, None, [byte, ..]) => u64::from(*byte),
        (None, None, []) => 0,
    }
}

/// Copies the first bytes of words. The words must have as many.
#[inline]
fn out_of_words(words: &[[u8; WORD_BYTES]], into: &mut [u8]) {
    let (whole, rest) = into.as_chunks_mut::<WORD_BYTES>();
    let at = whole.len();
    for (at, word) in words.iter().enumerate() {
        if let Some(bytes) = whole.get_mut(at) {
            *bytes = *word;
        }
    }
    let Some(word) = words.get(at).map(|word| u64::from_le_bytes(*word)) else { return };
    let n = rest.len();
    if let Some(low) = rest.first_chunk_mut::<4>() {
        *low = (word as u32).to_le_bytes();
        if let Some(high) = rest.last_chunk_mut::<4>() {
            *high = ((word >> (8 * (n - 4))) as u32).to_le_bytes();
        }
    } else if let Some(low) = rest.first_chunk_mut::<2>() {
        *low = (word as u16).to_le_bytes();
        if let Some(high) = rest.last_chunk_mut::<2>() {
            *high = ((word >> (8 * (n - 2))) as u16).to_le_bytes();
        }
    } else if let Some(byte) = rest.first_mut() {
        *byte = word as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::records::{RecordControl, Shape};
    use std::cell::UnsafeCell;

    /// Capacity of a ring with eight slots.
    const CAPACITY: usize = 4096;
    /// Longest record that fits into the ring.
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

    /// Takes a record of `bytes` bytes of this value; returns whether the producer has to be poked.
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
    fn short_pushes_of_every_length_come_out_as_they_went_in() {
        let shared = Shared::new();
        let ring = shared.ring();
        let (mut producer, mut consumer) = (ProducerEnd::default(), ConsumerEnd::default());
        let head = [*b"01234567", *b"abcdefgh", *b"ABCDEFGH", *b"[{<(>)}]"];
        for round in 0..700usize {
            let payload: Vec<u8> = (0..round % 300).map(|i| (round + 3 * i) as u8).collect();
            assert_eq!(consumer.whole(&ring), Ok(None));
            assert_eq!(producer.push_whole(&ring, &head, &payload), Ok(true));
            let all = 32 + payload.len();
            if round % 2 == 0 {
                // Only the space in the slot is left.
                assert_eq!(producer.push_whole(&ring, &head, &[1; 30]), Ok(true));
            }
            let (bytes, first) = consumer.whole(&ring).unwrap().unwrap();
            assert_eq!((bytes, &first[..4]), (all, &head[..]));
            let mut out = vec![0; payload.len()];
            consumer.copy_whole::<4>(&ring, &mut out);
            assert_eq!(out, payload);
            let cut = payload.len() / 2;
            consumer.copy_whole::<4>(&ring, &mut out[..cut]);
            assert_eq!(out, payload);
            consumer.advance(&ring, 1);
            assert_eq!(consumer.whole(&ring), Ok(None), "only a rest is left");
            consumer.advance(&ring, all - 1);
            if round % 2 == 0 {
                assert_eq!(consumer.unread(&ring), Ok(62));
                consumer.advance(&ring, 62);
            }
        }
        let most = [0; FULL - 32];
        assert_eq!(producer.push_whole(&ring, &head, &most), Ok(true));
        assert_eq!(producer.push_whole(&ring, &head, &most), Ok(false), "all or nothing");
        assert_eq!(consumer.unread(&ring), Ok(FULL));
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
            shared.ring().put(Position::default(), bytes, &FirstBytes::default());
            assert_eq!(ConsumerEnd::default().unread(&shared.ring()), Err(CorruptRing));
        }
        let shared = Shared::new();
        let ring = shared.ring();
        for (slot, byte) in [(1, 0), (0, 64), (u64::MAX - 8, 0), (0, u64::MAX - 4096)] {
            ring.tell_head(Position { slot, byte });
            assert_eq!(ProducerEnd::default().ask_for_space(&ring, 1), Err(CorruptRing));
        }
    }

    /// Two threads, every byte in order, and a producer that continues only when it is poked or has
    /// found space. If a poke were lost, the loop would not end.
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
