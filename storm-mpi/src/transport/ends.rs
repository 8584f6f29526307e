//! The two ends of a [`Ring`] whose processes keep their positions to themselves.
//!
//! A line of memory that two processors write in turn takes as long for each message as all else
//! together. So a producer looks at what its consumer has told of its position only when the ring
//! seems full, and a consumer tells it only when it has taken a quarter of the ring.
//!
//! A short push, as the head of a frame with a few bytes, is beside the producer's position a second
//! time, so that one line is all that its consumer has to fetch. If the producer is pushing again
//! meanwhile, the consumer takes the bytes from the ring.
//!
//! No wake-up is lost by that. A producer that waits has filled the ring up to the last position
//! that it was told of, so that its consumer has more than a quarter to take, tells a new position
//! then, fences, and reads the wish for space; the producer has stored its wish and fenced before it
//! looked for the last time (see [`super::ring`]).

use super::ring::{COPY_BYTES, CorruptRing, Ring};

/// What the producer knows of a ring that was empty when it came.
#[derive(Debug, Default)]
pub(super) struct ProducerEnd {
    tail: u64,
    /// What the consumer had told when it was looked at.
    head: u64,
}

/// What the consumer knows of it.
#[derive(Debug)]
pub(super) struct ConsumerEnd {
    head: u64,
    /// What the producer was told.
    told: u64,
    /// The bytes between `head` and `copied_to`, if there are any.
    copy: [u8; COPY_BYTES],
    copied_to: u64,
    /// The last bytes were taken from the ring.
    from_ring: bool,
}

impl ProducerEnd {
    /// Appends as much of the two buffers as fits and tells how much that was.
    #[inline]
    pub(super) fn push(
        &mut self,
        ring: &Ring<'_>,
        buffers: [&[u8]; 2],
    ) -> Result<usize, CorruptRing> {
        let total = buffers[0].len() + buffers[1].len();
        let mut free = ring.capacity() - ring.used(self.tail, self.head)?;
        if free < total {
            self.head = ring.head();
            free = ring.capacity() - ring.used(self.tail, self.head)?;
        }
        let mut tail = self.tail;
        for buffer in buffers {
            let n = buffer.len().min(free);
            ring.fill(tail, &buffer[..n]);
            free -= n;
            tail = tail.wrapping_add(n as u64);
        }
        let pushed = tail.wrapping_sub(self.tail) as usize;
        if pushed > 0 {
            let whole: [&[u8]; 2] = if pushed == total { buffers } else { [&[]; 2] };
            ring.put_copy(self.tail, whole);
            self.tail = tail;
            ring.tell_tail(tail);
        }
        Ok(pushed)
    }

    /// As [`Ring::ask_for_space`].
    pub(super) fn ask_for_space(&mut self, ring: &Ring<'_>) -> Result<bool, CorruptRing> {
        let is_there = ring.ask_for_space_behind(self.tail)?;
        self.head = ring.head();
        Ok(is_there)
    }
}

impl Default for ConsumerEnd {
    fn default() -> Self {
        ConsumerEnd { head: 0, told: 0, copy: [0; COPY_BYTES], copied_to: 0, from_ring: false }
    }
}

impl ConsumerEnd {
    /// Whether bytes have come; also when the ring is corrupt, which [`ConsumerEnd::unread`] tells.
    #[inline]
    pub(super) fn has_unread(&self, ring: &Ring<'_>) -> bool {
        if self.from_ring {
            ring.expect_at(self.head);
            ring.expect_at(self.head.wrapping_add(64));
        }
        ring.tail() != self.head
    }

    /// Bytes that have come.
    #[inline]
    pub(super) fn unread(&mut self, ring: &Ring<'_>) -> Result<usize, CorruptRing> {
        let tail = ring.tail();
        let unread = ring.used(tail, self.head)?;
        if unread > 0 {
            let copied = ring.take_copy(self.head, tail, &mut self.copy);
            self.copied_to = if copied { tail } else { self.head };
            self.from_ring = !copied;
        }
        Ok(unread)
    }

    /// Copies bytes that have come, from the `skip`-th on: no more than there are.
    #[inline]
    pub(super) fn copy(&self, ring: &Ring<'_>, skip: usize, into: &mut [u8]) {
        let copied = self.copied_to.wrapping_sub(self.head) as usize;
        match self.copy.get(skip..skip + into.len()) {
            Some(bytes) if skip + into.len() <= copied => into.copy_from_slice(bytes),
            _ => ring.drain(self.head.wrapping_add(skip as u64), into),
        }
    }

    /// Lets go of bytes that have come: no more than there are. Tells whether the producer waits for
    /// space and now has enough of it, so that it is to be poked.
    #[inline]
    pub(super) fn advance(&mut self, ring: &Ring<'_>, bytes: usize) -> Result<bool, CorruptRing> {
        self.head = self.head.wrapping_add(bytes as u64);
        self.copied_to = self.head;
        if self.head.wrapping_sub(self.told) < ring.capacity() as u64 / 4 {
            return Ok(false);
        }
        self.told = self.head;
        ring.tell_head(self.head);
        ring.space_wanted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ring::RingControl;
    use std::cell::UnsafeCell;

    const CAPACITY: usize = 64;

    #[derive(Default)]
    struct Shared {
        control: RingControl,
        data: UnsafeCell<[[u8; 32]; 2]>,
    }

    // SAFETY: the bytes are touched through one `Ring` per end only, which orders its accesses.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn ring(&self) -> Ring<'_> {
            // SAFETY: `data` lives as long as `self`; each test has one pusher and one popper.
            unsafe { Ring::new(&self.control, self.data.get().cast(), CAPACITY) }
        }
    }

    #[test]
    fn a_full_ring_asks_and_is_told_after_a_quarter() {
        let shared = Shared::default();
        let ring = shared.ring();
        let (mut producer, mut consumer) = (ProducerEnd::default(), ConsumerEnd::default());
        for round in 0..10 {
            assert_eq!(producer.push(&ring, [&[round; 30], &[round; 60]]), Ok(64));
            assert_eq!(producer.ask_for_space(&ring), Ok(false));
            assert_eq!(consumer.unread(&ring), Ok(64));
            let mut out = [0; 64];
            consumer.copy(&ring, 1, &mut out[1..]);
            assert_eq!(out[1..], [round; 63]);
            assert_eq!(consumer.advance(&ring, 15), Ok(false), "less than a quarter");
            assert_eq!(producer.push(&ring, [&[9], &[]]), Ok(0), "it was not told");
            assert_eq!(consumer.advance(&ring, 1), Ok(true));
            assert_eq!(consumer.advance(&ring, 48), Ok(false), "it has been told");
        }
    }

    #[test]
    fn impossible_positions_are_an_error() {
        let shared = Shared::default();
        let ring = shared.ring();
        ring.tell_tail(CAPACITY as u64 + 1);
        assert_eq!(ConsumerEnd::default().unread(&ring), Err(CorruptRing));
        ring.tell_head(1);
        let mut producer = ProducerEnd::default();
        assert_eq!(producer.push(&ring, [&[1; 65], &[]]), Err(CorruptRing));
    }

    /// Two threads, every byte in order, and a producer that goes on only when it is poked or has
    /// found space: were a poke lost, the loop would not end.
    #[test]
    fn no_poke_is_lost() {
        const BYTES: usize = 100_000;
        let shared = Shared::default();
        let (poke, poked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (ring, mut end) = (shared.ring(), ProducerEnd::default());
                let poked = poked;
                let mut sent = 0;
                while sent < BYTES {
                    let chunk: Vec<u8> =
                        (sent..BYTES.min(sent + 1 + sent % 97)).map(|i| (i % 251) as u8).collect();
                    let pushed = end.push(&ring, [&chunk, &[]]).unwrap();
                    sent += pushed;
                    if pushed == 0 && !end.ask_for_space(&ring).unwrap() {
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
                if n > 0 && end.advance(&ring, n).unwrap() {
                    poke.send(()).unwrap();
                }
                got += n;
                std::thread::yield_now();
            }
        });
    }
}
