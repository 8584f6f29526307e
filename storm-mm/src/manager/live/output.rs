//! The output of a live job.

use bytes::Bytes;
use std::collections::BTreeMap;
use storm_rm::Rank;
use storm_rm::message::Stream;

/// The most output of a starting job that waits. If more arrives, all is passed on.
const EARLY_BYTES_MAX: usize = 64 << 10;

/// A piece of a rank's output, and its place in the stream.
#[derive(Clone, Debug)]
pub(in crate::manager) struct Piece {
    pub(in crate::manager) rank: Rank,
    pub(in crate::manager) stream: Stream,
    pub(in crate::manager) offset: u64,
    pub(in crate::manager) data: Bytes,
}

/// The state of a job's output.
#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    /// How much of each rank and stream has arrived.
    seen: BTreeMap<(Rank, bool), u64>,
    /// Output that arrived before the run counted as begun.
    early: Vec<Piece>,
}

impl Output {
    /// The part of a piece that had not arrived before.
    pub(super) fn fresh(&mut self, mut piece: Piece) -> Piece {
        let Piece { rank, stream, offset, .. } = piece;
        let end = offset.saturating_add(piece.data.len() as u64);
        let seen = self.seen.entry((rank, stream == Stream::Stderr)).or_insert(offset);
        let known = usize::try_from(seen.saturating_sub(offset)).unwrap_or(usize::MAX);
        *seen = end.max(*seen);
        let known = known.min(piece.data.len());
        piece.data = piece.data.split_off(known);
        piece.offset = offset.saturating_add(known as u64);
        piece
    }

    /// Keeps a piece of a starting job. Returns the pieces to pass on: none, or all if they are too
    /// much.
    pub(super) fn keep_early(&mut self, piece: Piece) -> Vec<Piece> {
        self.early.push(piece);
        let bytes: usize = self.early.iter().map(|piece| piece.data.len()).sum();
        if bytes > EARLY_BYTES_MAX { self.take_early() } else { Vec::new() }
    }

    pub(super) fn early(&self) -> &[Piece] {
        &self.early
    }

    pub(super) fn take_early(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, text: &str) -> Piece {
        let data = Bytes::copy_from_slice(text.as_bytes());
        Piece { rank: Rank(1), stream: Stream::Stdout, offset, data }
    }

    #[test]
    fn a_piece_that_came_before_comes_once() {
        let mut output = Output::default();
        let mut fresh = |at, text| {
            let piece = output.fresh(piece(at, text));
            (piece.offset, String::from_utf8(piece.data.to_vec()).expect("text"))
        };
        assert_eq!(fresh(3, "abc"), (3, "abc".to_owned()), "what comes first counts as the first");
        assert_eq!(fresh(3, "abcde"), (6, "de".to_owned()));
        assert_eq!(fresh(4, "bc"), (6, String::new()));
    }

    #[test]
    fn early_output_is_bounded_and_keeps_its_order() {
        let mut output = Output::default();
        assert!(output.keep_early(piece(0, "a")).is_empty());
        let all = output.keep_early(piece(1, &"b".repeat(EARLY_BYTES_MAX)));
        assert_eq!(all.iter().map(|piece| piece.offset).collect::<Vec<_>>(), [0, 1]);
        assert!(output.take_early().is_empty());
    }
}
