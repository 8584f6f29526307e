//! Accounts of a connection's bytes, for both ends, without memory or adapter.
//!
//! Bytes are counted from 0 and are stored in a ring. A *run* is one write, announced by its
//! immediate value. The sender may write to a place when the receiver has taken the previous bytes
//! and reported it (credit), and its own adapter has read them (completion). At most [`MAX_RUNS`]
//! runs are without credit: each uses up a receive request of the other side.

use std::ops::Range;

/// Limit of runs that were sent and for which there is no credit.
pub(super) const MAX_RUNS: u64 = 64;

/// Length of a connection's rings. One half of a long message is copied while the other is on its
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    log2_bytes: u8,
}

impl Ring {
    /// The length for a job of `ranks` ranks. If each rank speaks with every other, the two rings
    /// of its connections take about 8 MiB of a rank, up to 256 ranks. 16 KiB still hold one eager
    /// message, in pieces.
    pub(super) fn of_job(ranks: usize) -> Ring {
        let log2_bytes = match ranks {
            0..=16 => 18,
            17..=32 => 17,
            33..=64 => 16,
            65..=128 => 15,
            _ => 14,
        };
        Ring { log2_bytes }
    }

    pub(super) fn encode(self) -> u8 {
        self.log2_bytes
    }

    /// `None` when no job has rings of this length.
    pub(super) fn decode(log2_bytes: u8) -> Option<Ring> {
        (14..=18).contains(&log2_bytes).then_some(Ring { log2_bytes })
    }

    pub(super) fn bytes(self) -> u64 {
        1 << self.log2_bytes
    }

    /// Longest run. The other side can take the beginning of a message while the rest is on its
    /// way.
    fn max_run_bytes(self) -> u64 {
        self.bytes() / 4
    }
}

/// The meaning of an immediate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// This many bytes are new.
    Run(u32),
    /// This much may be sent again.
    Credit(Credit),
}

/// Bytes and runs that were taken and may be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    bytes: u32,
    runs: u32,
}

/// Coding of a note: the flag for credit, and the place of its runs.
const IS_CREDIT: u32 = 1 << 31;
const RUNS_AT: u32 = 24;

impl Note {
    pub(super) fn encode(self) -> u32 {
        match self {
            Note::Run(bytes) => bytes,
            Note::Credit(Credit { bytes, runs }) => IS_CREDIT | runs << RUNS_AT | bytes,
        }
    }

    pub(super) fn decode(immediate: u32) -> Note {
        if immediate & IS_CREDIT == 0 {
            return Note::Run(immediate);
        }
        let bytes = immediate & ((1 << RUNS_AT) - 1);
        Note::Credit(Credit { bytes, runs: (immediate & !IS_CREDIT) >> RUNS_AT })
    }
}

/// The other side reports an impossible state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overrun;

/// The sender's end.
#[derive(Debug)]
pub(super) struct Outward {
    ring: Ring,
    written: u64,
    credited: u64,
    completed: u64,
    runs: u64,
    credited_runs: u64,
}

impl Outward {
    pub(super) fn new(ring: Ring) -> Outward {
        Outward { ring, written: 0, credited: 0, completed: 0, runs: 0, credited_runs: 0 }
    }

    /// The place of the next run, as long as it may be; empty if the run must wait. It never wraps
    /// around the end of the ring.
    pub(super) fn room(&self) -> Range<usize> {
        let ring_bytes = self.ring.bytes();
        let at = self.written % ring_bytes;
        if self.runs - self.credited_runs >= MAX_RUNS {
            return at as usize..at as usize;
        }
        let free = ring_bytes - (self.written - self.credited.min(self.completed));
        let free = free.min(ring_bytes - at).min(self.ring.max_run_bytes());
        at as usize..(at + free) as usize
    }

    /// Records that the next run, of `bytes` bytes, is under way.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.runs += 1;
    }

    /// The end of the last run, as an argument for [`completed`](Self::completed).
    pub(super) fn end(&self) -> u64 {
        self.written
    }

    /// Records that the own adapter has read all bytes up to `end`.
    pub(super) fn completed(&mut self, end: u64) {
        self.completed = self.completed.max(end);
    }

    /// Records that the other side has taken more.
    pub(super) fn credit(&mut self, credit: Credit) -> Result<(), Overrun> {
        let credited = self.credited + u64::from(credit.bytes);
        let runs = self.credited_runs + u64::from(credit.runs);
        // An empty credit is refused: an endless sequence of them would occupy this rank for good.
        if credit == Credit::default() || credited > self.written || runs > self.runs {
            return Err(Overrun);
        }
        (self.credited, self.credited_runs) = (credited, runs);
        Ok(())
    }
}

/// The receiver's end.
#[derive(Debug)]
pub(super) struct Inward {
    ring: Ring,
    arrived: u64,
    taken: u64,
    told: u64,
    runs: u64,
    told_runs: u64,
}

impl Inward {
    pub(super) fn new(ring: Ring) -> Inward {
        Inward { ring, arrived: 0, taken: 0, told: 0, runs: 0, told_runs: 0 }
    }

    /// Records that a run of `bytes` bytes is here.
    pub(super) fn arrived(&mut self, bytes: u32) -> Result<(), Overrun> {
        let arrived = self.arrived + u64::from(bytes);
        let ring_bytes = self.ring.bytes();
        let goes_around = self.arrived % ring_bytes + u64::from(bytes) > ring_bytes;
        let too_many = self.runs - self.told_runs >= MAX_RUNS;
        if bytes == 0 || goes_around || arrived - self.told > ring_bytes || too_many {
            return Err(Overrun);
        }
        self.arrived = arrived;
        self.runs += 1;
        Ok(())
    }

    /// Number of bytes that are here and were not taken.
    pub(super) fn unread(&self) -> usize {
        (self.arrived - self.taken) as usize
    }

    /// Places of `bytes` unread bytes from the `skip`-th on. As many must be unread. There are two
    /// parts if they wrap around the end.
    pub(super) fn places(&self, skip: usize, bytes: usize) -> [Range<usize>; 2] {
        let ring_bytes = self.ring.bytes();
        let at = ((self.taken + skip as u64) % ring_bytes) as usize;
        let first = bytes.min(ring_bytes as usize - at);
        [at..at + first, 0..bytes - first]
    }

    /// Records that `bytes` bytes were taken.
    pub(super) fn take(&mut self, bytes: usize) {
        self.taken = (self.taken + bytes as u64).min(self.arrived);
    }

    /// The credit that the other side must get now, if any. Credit is due when half of the ring is
    /// taken, or half of the runs have arrived. Credits are therefore few, and the other side never
    /// stalls.
    pub(super) fn credit_due(&self) -> Option<Credit> {
        let (bytes, runs) = (self.taken - self.told, self.runs - self.told_runs);
        if bytes < self.ring.bytes() / 2 && runs < MAX_RUNS / 2 {
            return None;
        }
        // Neither value ever exceeds a ring's.
        Some(Credit { bytes: bytes as u32, runs: runs as u32 })
    }

    /// Records that the other side got this credit.
    pub(super) fn credited(&mut self, credit: Credit) {
        self.told += u64::from(credit.bytes);
        self.told_runs += u64::from(credit.runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Runs of any length, taken in pieces of any length, with credits and completions delayed
        /// for any time. Every byte comes out where it went in, none is overwritten early, and
        /// nothing stalls.
        #[test]
        fn bytes_come_out_as_they_went_in(
            ranks in 2usize..300,
            steps in prop::collection::vec((0u8..6, 1usize..100_000), 1..600),
        ) {
            let ring = Ring::of_job(ranks);
            let (mut out, mut inward) = (Outward::new(ring), Inward::new(ring));
            let mut ring = vec![0_u8; ring.bytes() as usize];
            let (mut credits, mut completions) = (VecDeque::new(), VecDeque::new());
            let value = |at: u64| (at % 251) as u8;
            let (mut sent, mut taken) = (0_u64, 0_u64);
            for (step, bytes) in steps {
                match step {
                    0..=2 => {
                        let room = out.room();
                        let bytes = bytes.min(room.len());
                        if bytes > 0 {
                            let to = room.start..room.start + bytes;
                            ring[to].iter_mut().zip(sent..).for_each(|(byte, at)| *byte = value(at));
                            out.sent(bytes);
                            completions.push_back(out.end());
                            sent += bytes as u64;
                            prop_assert_eq!(inward.arrived(bytes as u32), Ok(()));
                        }
                    }
                    3 => {
                        let bytes = bytes.min(inward.unread());
                        let places = inward.places(0, bytes);
                        let got = places.into_iter().flat_map(|place| ring[place].to_vec());
                        prop_assert!(got.zip(taken..).all(|(byte, at)| byte == value(at)));
                        inward.take(bytes);
                        taken += bytes as u64;
                    }
                    4 => {
                        if let Some(credit) = inward.credit_due() {
                            inward.credited(credit);
                            let note = Note::decode(Note::Credit(credit).encode());
                            prop_assert_eq!(note, Note::Credit(credit));
                            credits.push_back(credit);
                        } else if let Some(credit) = credits.pop_front() {
                            prop_assert_eq!(out.credit(credit), Ok(()));
                        }
                    }
                    _ => {
                        if let Some(end) = completions.pop_front() {
                            out.completed(end);
                        }
                    }
                }
            }
            inward.take(inward.unread());
            credits.extend(inward.credit_due());
            credits.into_iter().for_each(|credit| out.credit(credit).expect("what was sent"));
            completions.into_iter().for_each(|end| out.completed(end));
            prop_assert!(!out.room().is_empty());
        }
    }

    #[test]
    fn each_ring_is_one_that_its_offer_can_name() {
        for ranks in [1, 16, 17, 32, 33, 64, 65, 128, 129, 100_000] {
            let ring = Ring::of_job(ranks);
            assert_eq!(Ring::decode(ring.encode()), Some(ring));
            assert!(ring.bytes() >= 16 << 10, "an eager message");
        }
        assert_eq!((Ring::decode(13), Ring::decode(19), Ring::decode(64)), (None, None, None));
    }

    #[test]
    fn impossible_values_are_refused() {
        let ring = Ring::of_job(2);
        let mut out = Outward::new(ring);
        out.sent(10);
        assert_eq!(out.credit(Credit { bytes: 11, runs: 1 }), Err(Overrun));
        assert_eq!(out.credit(Credit { bytes: 10, runs: 2 }), Err(Overrun));
        assert_eq!(out.credit(Credit::default()), Err(Overrun), "credit of nothing");
        let mut inward = Inward::new(ring);
        assert_eq!(inward.arrived(ring.bytes() as u32 + 1), Err(Overrun));
        assert_eq!(inward.arrived(0), Err(Overrun));
        assert_eq!(inward.arrived(ring.bytes() as u32 - 1), Ok(()));
        inward.take(usize::MAX);
        inward.credited(inward.credit_due().expect("it is full"));
        assert_eq!(inward.arrived(2), Err(Overrun), "it goes around");
        let mut inward = Inward::new(ring);
        for _ in 0..MAX_RUNS {
            assert_eq!(inward.arrived(1), Ok(()));
        }
        assert_eq!(inward.arrived(1), Err(Overrun));
    }
}
