//! A byte stream from one process to another through shared memory: a single-producer,
//! single-consumer ring.
//!
//! Positions are counts of bytes since the start and never wrap (2^64 bytes); the place in the ring
//! is the position modulo the capacity. The inbox handles waiting and waking.
//!
//! Memory ordering. Only the producer writes `tail`, and only the consumer writes `head`.
//! - Data before position: the producer fills bytes, then stores `tail` with Release; the consumer
//!   loads `tail` with Acquire before it reads them. The consumer therefore reads what was written.
//! - Reuse after consumption: the consumer reads bytes, then stores `head` with Release; the
//!   producer loads `head` with Acquire before it overwrites them. No byte is therefore overwritten
//!   before it is read.
//! - Space: a producer that finds the ring full stores `want_space`, fences, and reads `head`
//!   again. The consumer stores `head`, fences, and reads `want_space`. Both fences are SeqCst, so
//!   at least one of the two sees the other's store, and no wake-up is lost.
//!
//! Nothing here waits, so a process stopped at any instruction only delays its peer.

use super::area::Area;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use thiserror::Error;

/// A peer wrote positions that no ring can have.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("shared-memory ring holds impossible positions")]
pub(crate) struct CorruptRing;

/// The shared words of one ring, in the consumer's memory. All zero is an empty ring.
///
/// Producer and consumer write different cache lines.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct RingControl {
    tail: AtomicU64,
    want_space: AtomicU32,
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
    area: Area<'a>,
}

impl<'a> Ring<'a> {
    /// A view of a ring whose bytes are at `data`.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of `capacity` bytes during `'a`, and `capacity`
    /// must be a power of two. Among trusted parties, at most one thread of one process may push,
    /// and one may pop, and no other thread may touch the bytes. If an untrusted process at the
    /// other end does otherwise, it corrupts these bytes and no other memory, because no unchecked
    /// position is used.
    pub(crate) unsafe fn new(control: &'a RingControl, data: *mut u8, capacity: usize) -> Self {
        // SAFETY: the caller guarantees it, under the same contract.
        Ring { control, area: unsafe { Area::new(data, capacity) } }
    }

    /// Appends as much of the two buffers as fits and returns the number of bytes. Producer only.
    pub(crate) fn push(&self, buffers: [&[u8]; 2]) -> Result<usize, CorruptRing> {
        let tail = self.control.tail.load(Ordering::Relaxed);
        let mut free = self.area.capacity() - self.used(tail, self.head())?;
        let mut pushed = 0;
        for buffer in buffers {
            let n = buffer.len().min(free);
            self.area.fill(tail.wrapping_add(pushed as u64), &buffer[..n]);
            free -= n;
            pushed += n;
        }
        self.control.tail.store(tail.wrapping_add(pushed as u64), Ordering::Release);
        Ok(pushed)
    }

    /// Bytes that fit now. The number is a lower bound at the producer's end and an upper bound at
    /// the consumer's.
    pub(crate) fn free(&self) -> Result<usize, CorruptRing> {
        let tail = self.control.tail.load(Ordering::Acquire);
        Ok(self.area.capacity() - self.used(tail, self.head())?)
    }

    /// Asks the consumer to poke the producer once there is space. Returns true if there is already
    /// space; the producer then tries again instead of waiting. Producer only.
    pub(crate) fn ask_for_space(&self) -> Result<bool, CorruptRing> {
        let tail = self.control.tail.load(Ordering::Relaxed);
        self.control.want_space.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Ok(self.used(tail, self.head())? < self.area.capacity())
    }

    /// Takes up to `into.len()` bytes and returns their number. Consumer only.
    pub(crate) fn pop(&self, into: &mut [u8]) -> Result<usize, CorruptRing> {
        let head = self.control.consumer.head.load(Ordering::Relaxed);
        let used = self.used(self.control.tail.load(Ordering::Acquire), head)?;
        let n = used.min(into.len());
        if n > 0 {
            self.area.drain(head, &mut into[..n]);
            self.control.consumer.head.store(head.wrapping_add(n as u64), Ordering::Release);
        }
        Ok(n)
    }

    /// Whether the producer waits for space and there is enough now to be worth its wake-up: a
    /// quarter of the ring. Clears the request. Consumer only, after [`Ring::pop`].
    ///
    /// A producer waits only on a full ring and the consumer always drains, so the quarter is
    /// reached.
    pub(crate) fn space_wanted(&self) -> Result<bool, CorruptRing> {
        fence(Ordering::SeqCst);
        if self.control.want_space.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let head = self.control.consumer.head.load(Ordering::Relaxed);
        let used = self.used(self.control.tail.load(Ordering::Relaxed), head)?;
        if used > self.area.capacity() / 4 * 3 {
            return Ok(false);
        }
        self.control.want_space.store(0, Ordering::Relaxed);
        Ok(true)
    }

    /// The position that the consumer has published.
    fn head(&self) -> u64 {
        self.control.consumer.head.load(Ordering::Acquire)
    }

    /// Bytes between two positions.
    #[inline]
    fn used(&self, tail: u64, head: u64) -> Result<usize, CorruptRing> {
        let used = tail.wrapping_sub(head);
        if used > self.area.capacity() as u64 { Err(CorruptRing) } else { Ok(used as usize) }
    }
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
