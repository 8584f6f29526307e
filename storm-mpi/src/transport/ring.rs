//! A byte stream from one process to another through shared memory: a single-producer,
//! single-consumer ring.
//!
//! Positions are counts of bytes since the start and never wrap (2^64 bytes); the place in the ring
//! is the position modulo the capacity. Waiting and waking are the inbox's business.
//!
//! Memory ordering. `tail` is written by the producer only, `head` by the consumer only.
//! - Data before position: the producer fills bytes, then stores `tail` with Release; the consumer
//!   loads `tail` with Acquire before it reads them. So it reads what was written.
//! - Reuse after consumption: the consumer reads bytes, then stores `head` with Release; the producer
//!   loads `head` with Acquire before it overwrites them. So no byte is overwritten before it is read.
//! - Space: the producer that finds the ring full stores `want_space`, fences, and reads `head` again;
//!   the consumer stores `head`, fences, and reads `want_space`. Both fences are SeqCst, so at least
//!   one of the two sees the other's store: no lost wake-up.
//!
//! An end that lasts keeps what it knows in its own memory: `ends`.
//!
//! Nothing here waits, so a process stopped at any instruction only delays its peer.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use thiserror::Error;

/// A peer wrote positions that no ring can have.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("shared-memory ring holds impossible positions")]
pub(crate) struct CorruptRing;

/// Longest push whose bytes are also in the line of the producer's position.
pub(super) const COPY_BYTES: usize = 48;

/// The shared words of one ring, in the consumer's memory. All zero is an empty ring.
///
/// Producer and consumer write different cache lines.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct RingControl {
    tail: AtomicU64,
    want_space: AtomicU32,
    /// Of which push [`RingControl::copy`] is, see [`tag`]; 0 while it is written, and of none.
    copy_of: AtomicU32,
    /// Another copy of a short push, in the line that tells of it.
    copy: [AtomicU64; COPY_BYTES / 8],
    consumer: ConsumerLine,
}

#[repr(C, align(64))]
#[derive(Default)]
struct ConsumerLine {
    head: AtomicU64,
}

/// One end's view of a ring.
pub(crate) struct Ring<'a> {
    control: &'a RingControl,
    data: *mut u8,
    capacity: usize,
    _data: PhantomData<&'a [u8]>,
}

impl<'a> Ring<'a> {
    /// A view of a ring whose bytes are at `data`.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of `capacity` bytes during `'a`, and `capacity` a
    /// power of two. Of those that are believed, at most one thread of one process may push, and one
    /// pop, and nobody else may touch the bytes. A process at the other end that does otherwise
    /// spoils what the bytes are, and no other memory: no position is used that was not checked.
    pub(crate) unsafe fn new(control: &'a RingControl, data: *mut u8, capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Ring { control, data, capacity, _data: PhantomData }
    }

    /// Appends as much of the two buffers as fits and tells how much that was. Producer only.
    pub(crate) fn push(&self, buffers: [&[u8]; 2]) -> Result<usize, CorruptRing> {
        let tail = self.control.tail.load(Ordering::Relaxed);
        let mut free = self.capacity - self.used(tail, self.head())?;
        let mut pushed = 0;
        for buffer in buffers {
            let n = buffer.len().min(free);
            self.fill(tail.wrapping_add(pushed as u64), &buffer[..n]);
            free -= n;
            pushed += n;
        }
        self.control.tail.store(tail.wrapping_add(pushed as u64), Ordering::Release);
        Ok(pushed)
    }

    /// Bytes that fit now. Of the producer's end they are so many at least, of the consumer's at most.
    pub(crate) fn free(&self) -> Result<usize, CorruptRing> {
        let tail = self.control.tail.load(Ordering::Acquire);
        Ok(self.capacity - self.used(tail, self.head())?)
    }

    /// Asks the consumer to poke the producer once there is space; tells whether there is already,
    /// in which case the producer tries again instead of waiting. Producer only.
    pub(crate) fn ask_for_space(&self) -> Result<bool, CorruptRing> {
        self.ask_for_space_behind(self.control.tail.load(Ordering::Relaxed))
    }

    /// The same for a producer that knows by itself how far it is: what the memory says of that, a peer
    /// could have written.
    pub(super) fn ask_for_space_behind(&self, tail: u64) -> Result<bool, CorruptRing> {
        self.control.want_space.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Ok(self.used(tail, self.head())? < self.capacity)
    }

    /// Takes up to `into.len()` bytes and tells how many. Consumer only.
    pub(crate) fn pop(&self, into: &mut [u8]) -> Result<usize, CorruptRing> {
        let head = self.control.consumer.head.load(Ordering::Relaxed);
        let used = self.used(self.control.tail.load(Ordering::Acquire), head)?;
        let n = used.min(into.len());
        if n > 0 {
            self.drain(head, &mut into[..n]);
            self.control.consumer.head.store(head.wrapping_add(n as u64), Ordering::Release);
        }
        Ok(n)
    }

    /// Whether the producer waits for space and there is enough now to be worth its wake-up: a
    /// quarter of the ring. Clears the wish. Consumer only, after [`Ring::pop`].
    ///
    /// A producer waits only on a full ring and the consumer always drains, so the quarter is reached.
    pub(crate) fn space_wanted(&self) -> Result<bool, CorruptRing> {
        fence(Ordering::SeqCst);
        if self.control.want_space.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let head = self.control.consumer.head.load(Ordering::Relaxed);
        let used = self.used(self.control.tail.load(Ordering::Relaxed), head)?;
        if used > self.capacity / 4 * 3 {
            return Ok(false);
        }
        self.control.want_space.store(0, Ordering::Relaxed);
        Ok(true)
    }

    /// What the consumer has told of its position.
    pub(super) fn head(&self) -> u64 {
        self.control.consumer.head.load(Ordering::Acquire)
    }

    /// The producer's position.
    pub(super) fn tail(&self) -> u64 {
        self.control.tail.load(Ordering::Acquire)
    }

    /// Tells the consumer of bytes up to there. Producer only.
    pub(super) fn tell_tail(&self, tail: u64) {
        self.control.tail.store(tail, Ordering::Release);
    }

    /// Tells the producer of space up to there. Consumer only.
    pub(super) fn tell_head(&self, head: u64) {
        self.control.consumer.head.store(head, Ordering::Release);
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Puts a short push that begins at `start` beside the producer's position; with more bytes, or
    /// none, only says that what is there is of no push any more. Producer only, before it tells its
    /// position.
    #[inline]
    pub(super) fn put_copy(&self, start: u64, buffers: [&[u8]; 2]) {
        self.control.copy_of.store(0, Ordering::Relaxed);
        let (first, all) = (buffers[0].len(), buffers[0].len() + buffers[1].len());
        if all == 0 || all > COPY_BYTES {
            return;
        }
        // Who sees any of the new bytes sees that the old ones are no more.
        fence(Ordering::Release);
        let mut bytes = [0; COPY_BYTES];
        bytes[..first].copy_from_slice(buffers[0]);
        bytes[first..all].copy_from_slice(buffers[1]);
        let (words, _) = bytes.as_chunks::<8>();
        for (place, word) in self.control.copy.iter().zip(words) {
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        self.control.copy_of.store(tag(start), Ordering::Release);
    }

    /// Takes the bytes between `head` and `tail` from beside the producer's position, if they are one
    /// short push, and it has not begun another. Consumer only.
    #[inline]
    pub(super) fn take_copy(&self, head: u64, tail: u64, into: &mut [u8; COPY_BYTES]) -> bool {
        let is_whole = || self.control.copy_of.load(Ordering::Acquire) == tag(head);
        if tail.wrapping_sub(head) > COPY_BYTES as u64 || !is_whole() {
            return false;
        }
        let (words, _) = into.as_chunks_mut::<8>();
        for (word, place) in words.iter_mut().zip(&self.control.copy) {
            *word = place.load(Ordering::Relaxed).to_ne_bytes();
        }
        fence(Ordering::Acquire);
        is_whole() && self.tail() == tail
    }

    /// Brings the line of that position near, of a ring where the next bytes are expected there.
    #[inline]
    pub(super) fn expect_at(&self, position: u64) {
        let (offset, _) = self.split(position, 1);
        // SAFETY: `offset` is within the ring, and a prefetch touches nothing that could be seen.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.data.add(offset).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Bytes between two positions.
    #[inline]
    pub(super) fn used(&self, tail: u64, head: u64) -> Result<usize, CorruptRing> {
        let used = tail.wrapping_sub(head);
        if used > self.capacity as u64 { Err(CorruptRing) } else { Ok(used as usize) }
    }

    /// Splits `len` bytes at `position` where the ring wraps: (offset, length until the wrap).
    #[inline]
    fn split(&self, position: u64, len: usize) -> (usize, usize) {
        let offset = (position & (self.capacity as u64 - 1)) as usize;
        (offset, len.min(self.capacity - offset))
    }

    /// Puts bytes at a position. Producer only, where it found so much space.
    #[inline]
    pub(super) fn fill(&self, position: u64, from: &[u8]) {
        assert!(from.len() <= self.capacity, "more than the ring holds");
        let (offset, first) = self.split(position, from.len());
        // SAFETY: `offset + first <= capacity` by `split`, the rest is no more than the capacity, and
        // the producer found these bytes free: the consumer does not read them before `tail` passes
        // them. `from` is private memory, so the areas do not overlap.
        unsafe {
            if first == from.len() {
                // Of a length that the caller knows, this is an instruction or two.
                std::ptr::copy_nonoverlapping(from.as_ptr(), self.data.add(offset), from.len());
            } else {
                std::ptr::copy_nonoverlapping(from.as_ptr(), self.data.add(offset), first);
                let (rest, bytes) = (from.as_ptr().add(first), from.len() - first);
                std::ptr::copy_nonoverlapping(rest, self.data, bytes);
            }
        }
    }

    /// Copies bytes from a position. Consumer only, where it found so many.
    #[inline]
    pub(super) fn drain(&self, position: u64, into: &mut [u8]) {
        assert!(into.len() <= self.capacity, "more than the ring holds");
        let (offset, first) = self.split(position, into.len());
        // SAFETY: as in `fill`; the consumer found that the producer has filled these bytes, and it
        // does not overwrite them before `head` passes them.
        unsafe {
            if first == into.len() {
                std::ptr::copy_nonoverlapping(self.data.add(offset), into.as_mut_ptr(), into.len());
            } else {
                std::ptr::copy_nonoverlapping(self.data.add(offset), into.as_mut_ptr(), first);
                let (rest, bytes) = (into.as_mut_ptr().add(first), into.len() - first);
                std::ptr::copy_nonoverlapping(self.data, rest, bytes);
            }
        }
    }
}

/// Says of which push a copy is: by where it begins, and never 0. A ring is shorter than what comes
/// back to the same one.
fn tag(start: u64) -> u32 {
    (start as u32) << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 64;

    struct Shared {
        control: RingControl,
        data: std::cell::UnsafeCell<[u8; CAPACITY]>,
    }

    // SAFETY: the bytes are touched through one `Ring` per end only, which orders its accesses.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn new() -> Self {
            Shared { control: RingControl::default(), data: [0; CAPACITY].into() }
        }

        fn ring(&self) -> Ring<'_> {
            // SAFETY: `data` lives as long as `self`; each test has one pusher and one popper.
            unsafe { Ring::new(&self.control, self.data.get().cast(), CAPACITY) }
        }
    }

    #[test]
    fn wraps_and_reports_full_and_empty() {
        let shared = Shared::new();
        let ring = shared.ring();
        let mut out = [0; CAPACITY];
        assert_eq!(ring.pop(&mut out), Ok(0));
        for round in 0..10u8 {
            let bytes = [round; 50];
            assert_eq!(ring.push([&bytes[..20], &bytes[20..]]), Ok(50));
            assert_eq!(ring.push([&[9; 30], &[]]), Ok(14));
            assert_eq!(ring.ask_for_space(), Ok(false));
            assert_eq!(ring.pop(&mut out[..10]), Ok(10));
            assert_eq!(ring.space_wanted(), Ok(false), "less than a quarter is free");
            assert_eq!(ring.pop(&mut out), Ok(54));
            assert_eq!(out[..40], bytes[..40]);
            assert_eq!(ring.space_wanted(), Ok(true));
        }
    }

    #[test]
    fn impossible_positions_are_an_error() {
        let shared = Shared::new();
        shared.control.tail.store(CAPACITY as u64 + 1, Ordering::Relaxed);
        assert_eq!(shared.ring().pop(&mut [0; 8]), Err(CorruptRing));
        assert_eq!(shared.ring().push([&[1], &[]]), Err(CorruptRing));
    }

    /// Two threads, every byte in order. The loop ends when all bytes have passed.
    #[test]
    fn every_byte_arrives_in_order() {
        const BYTES: usize = 200_000;
        let shared = Shared::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ring = shared.ring();
                let mut sent = 0;
                while sent < BYTES {
                    let chunk: Vec<u8> =
                        (sent..BYTES.min(sent + 1 + sent % 97)).map(|i| (i % 251) as u8).collect();
                    sent += ring.push([&chunk, &[]]).unwrap();
                    std::thread::yield_now();
                }
            });
            let ring = shared.ring();
            let mut got = 0;
            let mut buffer = [0; 41];
            while got < BYTES {
                let n = ring.pop(&mut buffer).unwrap();
                for (i, byte) in buffer[..n].iter().enumerate() {
                    assert_eq!(*byte, ((got + i) % 251) as u8);
                }
                got += n;
                std::thread::yield_now();
            }
        });
    }
}
