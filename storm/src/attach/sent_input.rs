//! Input that was sent to the job and may not have arrived: what a manager that goes away had not
//! passed on yet. It is sent to the next manager, which drops what the ranks have received.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use storm_rm::input_flow::{PIECE_BYTES, WINDOW_BYTES};

/// Most bytes that were answered with `ok` and may not have reached the ranks.
const UNDER_WAY_BYTES: u64 = WINDOW_BYTES + PIECE_BYTES as u64;

/// The latest input of the present run.
#[derive(Debug, Default)]
pub(super) struct SentInput {
    blocks: VecDeque<Bytes>,
    /// Where the first of the blocks begins in the input of the run.
    begins_at: u64,
    /// Bytes of all blocks.
    kept_bytes: u64,
    /// Whether the end of the input was sent.
    ended: bool,
}

impl SentInput {
    /// A block was sent; an empty one is the end of the input.
    pub(super) fn sent(&mut self, block: Bytes) {
        self.ended |= block.is_empty();
        self.kept_bytes += block.len() as u64;
        self.blocks.push_back(block);
    }

    /// All that was sent is on its way to the ranks, and the beginning of it has arrived.
    pub(super) fn answered(&mut self) {
        while let Some(first) = self.blocks.front()
            && self.kept_bytes - first.len() as u64 >= UNDER_WAY_BYTES
        {
            self.kept_bytes -= first.len() as u64;
            self.begins_at += first.len() as u64;
            self.blocks.pop_front();
        }
    }

    /// The input that may not have arrived: where it begins, the bytes, and whether the input ends
    /// with them. `None` if nothing was sent.
    pub(super) fn in_doubt(&self) -> Option<(u64, Bytes, bool)> {
        if self.blocks.is_empty() {
            return None;
        }
        let mut all = BytesMut::with_capacity(usize::try_from(self.kept_bytes).unwrap_or_default());
        self.blocks.iter().for_each(|block| all.extend_from_slice(block));
        Some((self.begins_at, all.freeze(), self.ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_may_be_under_way_is_kept() {
        let block = Bytes::from(vec![7; PIECE_BYTES]);
        let mut sent = SentInput::default();
        assert_eq!(sent.in_doubt(), None);
        for count in 1..=100_u64 {
            sent.sent(block.clone());
            let (begins_at, data, ended) = sent.in_doubt().unwrap();
            let all = count * PIECE_BYTES as u64;
            assert_eq!((begins_at + data.len() as u64, ended), (all, false));
            sent.answered();
            let (begins_at, ..) = sent.in_doubt().unwrap();
            assert_eq!(begins_at, all.saturating_sub(UNDER_WAY_BYTES));
        }
    }

    #[test]
    fn the_end_is_sent_again_too() {
        let mut sent = SentInput::default();
        sent.sent(Bytes::from_static(b"ab"));
        sent.answered();
        sent.sent(Bytes::new());
        assert_eq!(sent.in_doubt(), Some((0, Bytes::from_static(b"ab"), true)));
    }
}
