//! A byte stream from one process to another on its node: a single-producer, single-consumer ring
//! of records.
//!
//! What is pushed at once is a record. Its first bytes are in a slot, what does not fit there is in a
//! ring of bytes. The last record is moreover in the line of memory (64 bytes) where the consumer looks:
//! how many records there are, its length, and the same bytes as in its slot. So a short message, with
//! all that tells of it, is one line for a consumer that waits for it, and a longer one no more lines
//! than it has. A line that two processors write in turn takes longer to go from one to the other than
//! all else that a short message costs; slots that nobody reads stay where they are written.
//!
//! Positions, of records and of bytes, are counts since the start and never wrap; the place in a ring
//! is the position modulo the capacity. Both ends keep theirs to themselves: the consumer tells its own
//! after each quarter of either ring, and the producer looks at that when a ring seems full.
//!
//! Memory ordering.
//! - Data before count: the producer fills a record's bytes, then stores the count with Release;
//!   the consumer loads that with Acquire before it reads them.
//! - The bytes beside the count are written between two stores of it, of which the first says that they
//!   are being written. The consumer loads it before and after it has read them, and if it is not twice
//!   the same, or not of the record that it takes, it reads the slot. The producer fills the slot after it
//!   has told of its record, and before the first store (Release) for the next one: every count that sends
//!   a consumer there (Acquire) is of that store or a later one.
//! - Reuse after consumption: the consumer reads bytes, then stores its positions with Release; the
//!   producer loads them with Acquire before it overwrites anything.
//! - Space: the producer that finds no room stores `want_space`, fences, and reads the positions again;
//!   the consumer stores them, fences, and reads `want_space`. Both fences are SeqCst, so at least one
//!   of the two sees the other's store. There is no room only when more than a quarter of a ring is in
//!   use beyond the position that the producer was told of, so that the consumer tells again.
//!
//! Nothing here waits, so a process stopped at any instruction only delays its peer.

use super::area::Area;
use super::ring::CorruptRing;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A line of memory: what processors fetch at once.
const LINE_BYTES: usize = 64;
/// The word before the bytes of a slot: their record's length.
pub(super) const WORD_BYTES: usize = 8;
/// Bytes of a record that are in its slot.
pub(super) const SLOT_BYTES: usize = LINE_BYTES - WORD_BYTES;
/// Longest record.
const RECORD_MAX_BYTES: usize = WHOLE_MAX_BYTES + SLOT_BYTES;
/// Most that is put at once behind a head of a few words. In two pieces 5 KiB take 1.3 times as long, and 8 KiB as long.
pub(super) const WHOLE_MAX_BYTES: usize = 8 << 10;
/// Longest record of a message that has several. The consumer takes the first while the producer puts the rest: 16 KiB
/// take three quarters of the time so; pieces of 2 KiB take longer, and of 8 KiB 7 % longer.
pub(super) const PIECE_MAX_BYTES: usize = (4 << 10) + SLOT_BYTES;
/// A ring has a slot for each so many bytes.
const BYTES_PER_SLOT: usize = 512;

/// The shared words of one ring, in the consumer's memory, beside its slots and bytes. All zero is an
/// empty ring. Producer and consumer write different lines.
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

/// How large a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    capacity: usize,
    slots: u64,
}

/// How many records there are, as the word in the line where the consumer looks: the number (48 bits),
/// the last one's length (15), and whether its bytes there are being written (1), those of the next.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Count(u64);

/// What of a record is in its slot, as words: whole ones go from processor to processor.
pub(super) type FirstBytes = [[u8; WORD_BYTES]; SLOT_BYTES / WORD_BYTES];

/// One end's view of a ring.
pub(super) struct Records<'a> {
    control: &'a RecordControl,
    shape: Shape,
    slots: Area<'a>,
    bytes: Area<'a>,
}

/// How far an end is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Records before.
    pub(super) slot: u64,
    /// A multiple of a line.
    pub(super) byte: u64,
}

impl Shape {
    /// A ring of `capacity` bytes beyond its slots: a power of two.
    pub(super) const fn of(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 8 * BYTES_PER_SLOT);
        Shape { capacity, slots: (capacity / BYTES_PER_SLOT) as u64 }
    }

    /// Its memory, besides its control.
    pub(super) const fn memory_bytes(self) -> usize {
        self.capacity + self.slots as usize * LINE_BYTES
    }
}

impl<'a> Records<'a> {
    /// A view of a ring whose memory is at `data`.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of [`Shape::memory_bytes`] during `'a`, and aligned to
    /// lines. Of those that are believed, at most one thread of one process may push, and one take, and
    /// nobody else may touch the memory. A process at the other end that does otherwise spoils what the
    /// bytes are, and no other memory: no length and no position is used that was not checked.
    #[inline]
    pub(super) unsafe fn new(control: &'a RecordControl, data: *mut u8, shape: Shape) -> Self {
        debug_assert!(data.addr().is_multiple_of(LINE_BYTES));
        // SAFETY: the caller vouches for it, and the slots are behind the bytes.
        unsafe {
            let slots = Area::new(data.add(shape.capacity), shape.slots as usize * LINE_BYTES);
            Records { control, shape, slots, bytes: Area::new(data, shape.capacity) }
        }
    }

    /// How much of `total` bytes can be pushed at `tail` when the consumer is at `head`. None rather than
    /// little.
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

    /// Fills the bytes of the next record that are not in its slot: `skip` bytes of them are there already. Only for
    /// a producer that found so much room.
    #[inline]
    pub(super) fn fill_behind(&self, tail: Position, skip: usize, part: &[u8]) {
        if !part.is_empty() {
            self.bytes.fill(tail.byte.wrapping_add(skip as u64), part);
        }
    }

    /// The same of a record that is all of a message.
    #[inline]
    pub(super) fn fill_all_behind(&self, tail: Position, part: &[u8]) {
        if !part.is_empty() {
            self.bytes.fill_soon(tail.byte, part);
        }
    }

    /// Tells of a record of `bytes` bytes, of which `first` are the first and the others have been filled in. Only
    /// for a producer that found so much room. Tells its position after that.
    #[inline]
    pub(super) fn put(&self, tail: Position, bytes: usize, first: &FirstBytes) -> Position {
        // The consumer looks at this line all the time and takes it back after each change, so it is
        // written last, and at once.
        let LastLine { count, bytes: places } = &self.control.last;
        // Who takes it for its news has the slot of the push before.
        count.store(Count::being_written(tail.slot).0, Ordering::Release);
        // Who sees any of the new bytes sees that the old ones are no more.
        fence(Ordering::Release);
        for (place, word) in places.iter().zip(first) {
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        let next = behind(tail, bytes);
        count.store(Count::of(next.slot, bytes).0, Ordering::Release);
        // Nobody looks there before he has seen a count of the next push, so it can come after this one's,
        // which somebody waits for.
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

    /// The length of the record that is there, whose first bytes are put into `first`; 0 without.
    /// Consumer only.
    // Inlined into the straight way of short messages it takes registers from the rest, and 1 KiB 6 % longer.
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
            // Another one is of a later push, before which the slot was filled.
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

    /// Copies bytes of the record that is there beyond its first, from the `skip`-th of these on: no
    /// more than it has. Consumer only.
    #[inline]
    pub(super) fn copy_behind(&self, head: Position, skip: usize, into: &mut [u8]) {
        self.bytes.drain(head.byte.wrapping_add(skip as u64), into);
    }

    /// What the consumer has told of its position.
    pub(super) fn head(&self) -> Position {
        let ConsumerLine { slot, byte } = &self.control.consumer;
        Position { slot: slot.load(Ordering::Acquire), byte: byte.load(Ordering::Acquire) }
    }

    /// Whether the consumer has gone so far since it told that it should again: a quarter of a ring.
    #[inline]
    pub(super) fn is_far(&self, head: Position, told: Position) -> bool {
        head.slot.wrapping_sub(told.slot) >= self.shape.slots / 4
            || head.byte.wrapping_sub(told.byte) >= self.shape.capacity as u64 / 4
    }

    /// Tells the producer of space up to there; whether it waits for that, and is to be poked. Consumer
    /// only.
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

    /// Asks for a poke when there is space; what the consumer has told of its position until then has
    /// to be looked at after this. Producer only.
    pub(super) fn want_space(&self) {
        self.control.wish.want_space.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Brings the lines of so many bytes near.
    #[inline]
    pub(super) fn fetch(&self, from: u64, bytes: usize) {
        for line in 0..bytes.div_ceil(LINE_BYTES) {
            let place = self.bytes.at(from.wrapping_add((line * LINE_BYTES) as u64));
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch touches nothing that could be seen, whatever the address.
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

    /// Records beyond so many.
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

/// Where behind a record of so many bytes the next one is.
#[inline]
pub(super) fn behind(start: Position, bytes: usize) -> Position {
    let lines = bytes.saturating_sub(SLOT_BYTES).next_multiple_of(LINE_BYTES);
    Position { slot: start.slot.wrapping_add(1), byte: start.byte.wrapping_add(lines as u64) }
}

/// Where a slot is among the slots' bytes.
#[inline]
fn slot_at(slot: u64) -> u64 {
    slot.wrapping_mul(LINE_BYTES as u64)
}
