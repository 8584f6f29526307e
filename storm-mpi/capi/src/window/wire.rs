//! Messages between members of a window. A message is a request to the owner, which may answer.
//!
//! A request has a header of 16 bytes, the stretches of the owner's memory that it concerns (begin
//! and length, 8 bytes each), and packed data. All nodes have the same byte order, and the numbers
//! use it.

use crate::operation::Change;

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verb {
    /// Write the data.
    Put,
    /// Answer the contents.
    Get,
    /// Combine the data with the contents.
    Accumulate,
    /// Combine the data with the contents, and answer the previous contents.
    GetAccumulate,
    /// The data has two halves: write the second if the contents are the first. Answer the previous
    /// contents.
    CompareAndSwap,
    /// Answer when all earlier requests are done.
    Flush,
    /// Answer when the member has the lock. With data, the lock is exclusive.
    Lock,
    /// Take the lock back, and answer when all earlier requests are done.
    Unlock,
    /// The requests of this epoch are complete. No answer.
    Complete,
}

const VERBS: [Verb; 9] = [
    Verb::Put,
    Verb::Get,
    Verb::Accumulate,
    Verb::GetAccumulate,
    Verb::CompareAndSwap,
    Verb::Flush,
    Verb::Lock,
    Verb::Unlock,
    Verb::Complete,
];

/// A stretch of memory: its beginning, in bytes from the window's beginning, and its length. In a
/// window of attached memory the beginning is an address.
pub(super) type Run = (u64, u64);

const HEAD_BYTES: usize = 16;
const RUN_BYTES: usize = 16;

/// A request without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) change: Change,
    /// The kind of the numbers (`number_of_kind`).
    pub(super) kind: u8,
    /// The tag of the answer.
    pub(super) answer: i32,
    pub(super) runs: Vec<Run>,
}

impl Request {
    /// A request that concerns no memory.
    pub(super) fn bare(verb: Verb, answer: i32) -> Self {
        Request { verb, change: Change::Nothing, kind: 0, answer, runs: Vec::new() }
    }

    /// Bytes of the memory that the request concerns.
    pub(super) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.1 as usize).sum()
    }

    /// The message, with its data.
    pub(super) fn encode(&self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.runs.len() * RUN_BYTES + data.len());
        bytes.extend([self.verb as u8, self.change.code(), self.kind, 0]);
        bytes.extend(self.answer.to_ne_bytes());
        bytes.extend((self.runs.len() as u64).to_ne_bytes());
        for (at, length) in &self.runs {
            bytes.extend(at.to_ne_bytes());
            bytes.extend(length.to_ne_bytes());
        }
        bytes.extend(data);
        bytes
    }

    /// The request of a message, and its data. `None` if the message is not a request.
    pub(super) fn decode(message: &[u8]) -> Option<(Request, &[u8])> {
        let (&[verb, change, kind, _], rest) = message.split_first_chunk()?;
        let (&answer, rest) = rest.split_first_chunk()?;
        let (&count, rest) = rest.split_first_chunk()?;
        let bytes = usize::try_from(u64::from_ne_bytes(count)).ok()?.checked_mul(RUN_BYTES)?;
        let (runs, data) = rest.split_at_checked(bytes)?;
        let run = |run: &[u8; RUN_BYTES]| {
            let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| run[at + i]));
            (word(0), word(8))
        };
        let request = Request {
            verb: *VERBS.get(usize::from(verb))?,
            change: Change::of_code(change)?,
            kind,
            answer: i32::from_ne_bytes(answer),
            runs: runs.as_chunks().0.iter().map(run).collect(),
        };
        Some((request, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Predefined;

    #[test]
    fn whole_reports_are_understood_and_truncated_ones_refused() {
        for verb in VERBS {
            let change = Change::Combine(Predefined::MaxLoc);
            let runs = vec![(8, 4), (u64::MAX, 0)];
            let request = Request { verb, change, kind: 7, answer: 1 << 30, runs };
            let told = request.encode(b"data");
            assert_eq!(Request::decode(&told), Some((request, &b"data"[..])));
            assert!((0..told.len() - 4).all(|cut| Request::decode(&told[..cut]).is_none()));
        }
        assert_eq!(Request::decode(&[99; 16]), None);
    }
}
