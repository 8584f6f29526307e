//! A byte stream from one process to another on its node: a single-producer, single-consumer ring
//! of records.
//!
//! The bytes of one push are a record. The first bytes of a record are in a slot, and the rest is
//! in a ring of bytes. The last record is also in the line of memory (64 bytes) that the consumer
//! polls. The line has the number of records, the record's length, and the same bytes as its slot.
//! A waiting consumer therefore gets a short message, with its announcement, in a single line, and
//! a longer message in no more lines than its own. When two processors write a line in turn, its
//! transfer takes longer than everything else that a short message costs. Slots that are not read
//! stay where they are written.
//!
//! Positions, of records and of bytes, are counts since the start and never wrap; the place in a
//! ring is the position modulo the capacity. Both ends keep their positions to themselves. The
//! consumer publishes its position after each quarter of either ring, and the producer reads it
//! when a ring seems full.
//!
//! Memory ordering.
//! - Data before count: the producer fills a record's bytes, then stores the count with Release;
//!   the consumer loads the count with Acquire before it reads them.
//! - The bytes next to the count are written between two stores of the count. The first store tells
//!   that they are being written. The consumer loads the count before and after it has read the
//!   bytes. If the two differ, or belong to another record, it reads the slot. The producer fills
//!   the slot after it has published the record, and before the first store (Release) for the next
//!   record. Every count that sends a consumer to the slot (Acquire) comes from that store or a
//!   later one.
//! - Reuse after consumption: the consumer reads bytes, then stores its positions with Release; the
//!   producer loads them with Acquire before it overwrites anything.
//! - Space: a producer that finds no room stores `want_space`, fences, and reads the positions
//!   again. The consumer stores the positions, fences, and reads `want_space`. Both fences are
//!   SeqCst, so at least one of the two sees the other's store. Room is lacking only when more than
//!   a quarter of a ring is in use beyond the published position, so the consumer publishes again.
//!
//! Nothing here waits, so a process stopped at any instruction only delays its peer.

use super::area::Area;
use super::ring::CorruptRing;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A line of memory: the unit that processors fetch.
const LINE_BYTES: usize = 64;
/// The word before the bytes of a slot: the length of the record.
pub(super) const WORD_BYTES: usize = 8;
/// Bytes of a record that are in its slot.
pub(super) const SLOT_BYTES: usize = LINE_BYTES - WORD_BYTES;
/// Longest record.
const RECORD_MAX_BYTES: usize = WHOLE_MAX_BYTES + SLOT_BYTES;
/// Longest message that is pushed at once behind a head of a few words. In two pieces, 5 KiB take
/// 1.3 times as long, and 8 KiB take as long.
pub(super) const WHOLE_MAX_BYTES: usize = 8 << 10;
/// Longest record of a message of several records. The consumer takes the first while the producer
/// puts the rest, so 16 KiB take three quarters of the time. Pieces of 2 KiB take longer, and
/// pieces of 8 KiB 7 % longer.
pub(super) const PIECE_MAX_BYTES: usize = (4 << 10) + SLOT_BYTES;
/// A ring has one slot for each this many bytes.
const BYTES_PER_SLOT: usize = 512;

/// The shared words of one ring, in the consumer's memory, next to its slots and bytes. All zero is
/// an empty ring. Producer and consumer write different lines.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct RecordControl {
    last: LastLine,
    consumer: ConsumerLine,
    wish: WishLine,
}

/// The last record, see [`Count`].
#[repr(C, align(64))]
#[derive(Default)]
struct LastLine {
    count: AtomicU64,
    bytes: [AtomicU64; SLOT_BYTES / 8],
}

#[repr(C, align(64))]
#[derive(Default)]
struct WishLine {
    want_space: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct ConsumerLine {
    slot: AtomicU64,
    byte: AtomicU64,
}

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    capacity: usize,
    slots: u64,
}

/// The word in the line that the consumer polls. It has the number of records (48 bits), the last
/// record's length (15), and a flag (1). The flag tells that the next record's bytes are being
/// written there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Count(u64);

/// The bytes of a record that are in its slot, as words: whole words go from processor to
/// processor.
pub(super) type FirstBytes = [[u8; WORD_BYTES]; SLOT_BYTES / WORD_BYTES];

/// One end's view of a ring.
pub(super) struct Records<'a> {
    control: &'a RecordControl,
    shape: Shape,
    slots: Area<'a>,
    bytes: Area<'a>,
}

/// The position of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Number of records before it.
    pub(super) slot: u64,
    /// Byte position, a multiple of a line.
    pub(super) byte: u64,
}

impl Shape {
    /// A ring of `capacity` bytes beyond its slots. `capacity` is a power of two.
    pub(super) const fn of(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 8 * BYTES_PER_SLOT);
        Shape { capacity, slots: (capacity / BYTES_PER_SLOT) as u64 }
    }

    /// Memory of the ring without its control words, in bytes.
    pub(super) const fn memory_bytes(self) -> usize {
        self.capacity + self.slots as usize * LINE_BYTES
    }
}

impl<'a> Records<'a> {
    /// A view of a ring whose memory is at `data`.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of [`Shape::memory_bytes`] during `'a`, and
    /// aligned to lines. Among trusted parties, at most one thread of one process may push, and one
    /// may take, and no other thread may touch the memory. If an untrusted process at the other end
    /// does otherwise, it corrupts these bytes and no other memory, because no unchecked length or
    /// position is used.
    #[inline]
    pub(super) unsafe fn new(control: &'a RecordControl, data: *mut u8, shape: Shape) -> Self {
        debug_assert!(data.addr().is_multiple_of(LINE_BYTES));
        // SAFETY: the caller vouches for the memory, and the slots lie behind the bytes.
        unsafe {
            let slots = Area::new(data.add(shape.capacity), shape.slots as usize * LINE_BYTES);
            Records { control, shape, slots, bytes: Area::new(data, shape.capacity) }
        }
    }

    /// The number of `total` bytes that can be pushed at `tail` when the consumer is at `head`.
    /// Returns 0 rather than a small number.
    #[inline]
    pub(super) fn room(
        &self,
        tail: Position,
        head: Position,
        total: usize,
    ) -> Result<usize, CorruptRing> {
        let used_slots = tail.slot.wrapping_sub(head.slot);
        let used = tail.byte.wrapping_sub(head.byte);
        let capacity = self.shape.capacity;
        if used_slots > self.shape.slots || used > capacity as u64 {
            return Err(CorruptRing);
        }
        let free = capacity - used as usize;
        let total = total.min(RECORD_MAX_BYTES);
        if used_slots == self.shape.slots {
            Ok(0)
        } else if total <= SLOT_BYTES + free {
            Ok(total)
        } else if free < capacity / 8 {
            Ok(0)
        } else {
            Ok(SLOT_BYTES + free)
        }
    }

    /// Fills the bytes of the next record that are not in its slot; `skip` bytes of them are there
    /// already. The producer must have found enough room.
    #[inline]
    pub(super) fn fill_behind(&self, tail: Position, skip: usize, part: &[u8]) {
        if !part.is_empty() {
            self.bytes.fill(tail.byte.wrapping_add(skip as u64), part);
        }
    }

    /// Like [`Records::fill_behind`], for a record that is a whole message.
    #[inline]
    pub(super) fn fill_all_behind(&self, tail: Position, part: &[u8]) {
        if !part.is_empty() {
            self.bytes.fill_soon(tail.byte, part);
        }
    }

    /// Publishes a record of `bytes` bytes, of which `first` are the first; the others must have
    /// been filled in. The producer must have found enough room. Returns its position after the
    /// record.
    #[inline]
    pub(super) fn put(&self, tail: Position, bytes: usize, first: &FirstBytes) -> Position {
        // The consumer polls this line all the time and takes it back after each change. So the
        // line is written last, and at once.
        let LastLine { count, bytes: places } = &self.control.last;
        // A consumer that takes this value for news finds the previous push in its slot.
        count.store(Count::being_written(tail.slot).0, Ordering::Release);
        // A consumer that sees any of the new bytes also sees that the old ones are invalid.
        fence(Ordering::Release);
        for (place, word) in places.iter().zip(first) {
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        let next = behind(tail, bytes);
        count.store(Count::of(next.slot, bytes).0, Ordering::Release);
        // The consumer reads the slot only after it has seen a count of the next push. So the slot
        // can be filled after the count, for which a consumer may be waiting.
        let mut slot = [[0; WORD_BYTES]; LINE_BYTES / WORD_BYTES];
        slot[0] = (bytes as u64).to_ne_bytes();
        slot[1..].copy_from_slice(first);
        self.slots.fill(slot_at(tail.slot), slot.as_flattened());
        next
    }

    /// Whether a record is there. Consumer only.
    #[inline]
    pub(super) fn has_record(&self, head: Position) -> bool {
        Count(self.control.last.count.load(Ordering::Relaxed)).beyond(head.slot) != 0
    }

    /// Takes the record that is there: puts its first bytes into `first` and returns its length, or
    /// 0 without a record. Consumer only.
    // Inlined into the short path, it would take registers from the rest, and 1 KiB would take 6 %
    // longer.
    #[inline(never)]
    pub(super) fn take(
        &self,
        head: Position,
        first: &mut FirstBytes,
    ) -> Result<usize, CorruptRing> {
        let LastLine { count, bytes: places } = &self.control.last;
        let seen = Count(count.load(Ordering::Acquire));
        let there = seen.beyond(head.slot);
        if there == 0 {
            return Ok(0);
        }
        if there > self.shape.slots {
            return Err(CorruptRing);
        }
        let mut bytes = 0;
        if there == 1 && !seen.is_being_written() {
            for (word, place) in first.iter_mut().zip(places) {
                *word = place.load(Ordering::Relaxed).to_ne_bytes();
            }
            fence(Ordering::Acquire);
            // A different count is of a later push, before which the slot was filled.
            if count.load(Ordering::Acquire) == seen.0 {
                bytes = seen.bytes();
            }
        }
        if bytes == 0 {
            let (slot, mut word) = (slot_at(head.slot), [0; WORD_BYTES]);
            self.slots.drain(slot, &mut word);
            let rest = slot.wrapping_add(WORD_BYTES as u64);
            self.slots.drain(rest, first.as_flattened_mut());
            bytes = u64::from_ne_bytes(word) as usize;
        }
        let longest = RECORD_MAX_BYTES.min(SLOT_BYTES + self.shape.capacity);
        if bytes == 0 || bytes > longest {
            return Err(CorruptRing);
        }
        self.fetch(head.byte, bytes.saturating_sub(SLOT_BYTES));
        Ok(bytes)
    }

    /// Copies bytes of the record that lie beyond its slot, from the `skip`-th of these on. The
    /// record must have as many. Consumer only.
    #[inline]
    pub(super) fn copy_behind(&self, head: Position, skip: usize, into: &mut [u8]) {
        self.bytes.drain(head.byte.wrapping_add(skip as u64), into);
    }

    /// The position that the consumer has published.
    pub(super) fn head(&self) -> Position {
        let ConsumerLine { slot, byte } = &self.control.consumer;
        Position { slot: slot.load(Ordering::Acquire), byte: byte.load(Ordering::Acquire) }
    }

    /// Whether the consumer has taken enough to publish its position again: a quarter of a ring.
    #[inline]
    pub(super) fn is_far(&self, head: Position, told: Position) -> bool {
        head.slot.wrapping_sub(told.slot) >= self.shape.slots / 4
            || head.byte.wrapping_sub(told.byte) >= self.shape.capacity as u64 / 4
    }

    /// Publishes the position up to which there is space. Returns whether the producer waits for it
    /// and must be poked. Consumer only.
    pub(super) fn tell_head(&self, head: Position) -> bool {
        self.control.consumer.slot.store(head.slot, Ordering::Release);
        self.control.consumer.byte.store(head.byte, Ordering::Release);
        fence(Ordering::SeqCst);
        let wanted = &self.control.wish.want_space;
        let is_wanted = wanted.load(Ordering::Relaxed) != 0;
        if is_wanted {
            wanted.store(0, Ordering::Relaxed);
        }
        is_wanted
    }

    /// Asks for a poke when there is space. The producer must read the consumer's published
    /// position again after this call. Producer only.
    pub(super) fn want_space(&self) {
        self.control.wish.want_space.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Prefetches the lines of `bytes` bytes.
    #[inline]
    pub(super) fn fetch(&self, from: u64, bytes: usize) {
        for line in 0..bytes.div_ceil(LINE_BYTES) {
            let place = self.bytes.at(from.wrapping_add((line * LINE_BYTES) as u64));
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch has no visible effect, whatever the address.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(place.cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = place;
        }
    }
}

impl Count {
    const WRITING: u64 = 1;
    const NUMBER_SHIFT: u32 = 16;

    #[inline]
    fn of(records: u64, bytes: usize) -> Self {
        // A record's length has 15 bits.
        Count(records << Self::NUMBER_SHIFT | (bytes as u64) << 1)
    }

    #[inline]
    fn being_written(records: u64) -> Self {
        Count(records << Self::NUMBER_SHIFT | Self::WRITING)
    }

    /// Number of records beyond `records`.
    #[inline]
    fn beyond(self, records: u64) -> u64 {
        let number = u64::MAX >> Self::NUMBER_SHIFT;
        (self.0 >> Self::NUMBER_SHIFT).wrapping_sub(records) & number
    }

    #[inline]
    fn bytes(self) -> usize {
        (self.0 as u16 >> 1).into()
    }

    #[inline]
    fn is_being_written(self) -> bool {
        self.0 & Self::WRITING != 0
    }
}

/// Position of the record behind a record of `bytes` bytes.
#[inline]
pub(super) fn behind(start: Position, bytes: usize) -> Position {
    let lines = bytes.saturating_sub(SLOT_BYTES).next_multiple_of(LINE_BYTES);
    Position { slot: start.slot.wrapping_add(1), byte: start.byte.wrapping_add(lines as u64) }
}

/// Offset of a slot among the slots' bytes.
#[inline]
fn slot_at(slot: u64) -> u64 {
    slot.wrapping_mul(LINE_BYTES as u64)
}
