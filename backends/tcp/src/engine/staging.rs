//! A large transfer in flight: the data received so far, kept until the transfer is committed or
//! dropped.
//!
//! Pieces are shared with the links that pass them on, not copied. A forwarder that is not a
//! destination keeps them too, so that the tree below can be repaired without the root.

use crate::shared_memory::Piece;
use storm_primitives::NodeSet;

/// A node's part of one transfer.
#[derive(Debug)]
pub(super) struct Staging {
    dest: NodeSet,
    total: u64,
    received: u64,
    /// Pieces with their offsets, without holes from 0.
    chunks: Vec<(u64, Piece)>,
    reported: bool,
}

impl Staging {
    /// An empty transfer of `total` bytes for `dest`.
    pub(super) fn new(dest: NodeSet, total: u64) -> Staging {
        Staging { dest, total, received: 0, chunks: Vec::new(), reported: false }
    }

    pub(super) fn dest(&self) -> &NodeSet {
        &self.dest
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The number of bytes held without a gap from the start.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn chunks(&self) -> &[(u64, Piece)] {
        &self.chunks
    }

    pub(super) fn is_complete(&self) -> bool {
        self.received == self.total
    }

    /// Whether the set `below` contains a destination.
    pub(super) fn goes_below(&self, below: &NodeSet) -> bool {
        self.dest.intersects(below)
    }

    /// Appends the next piece. Returns false if the piece is longer than the missing rest.
    pub(super) fn push(&mut self, piece: Piece) -> bool {
        let len = piece.bytes().len() as u64;
        let fits = len <= self.total - self.received;
        if fits {
            let offset = self.received;
            self.received += len;
            self.chunks.push((offset, piece));
        }
        fits
    }

    /// The data from `offset` to the end of its piece.
    pub(super) fn from(&self, offset: u64) -> Option<Piece> {
        let at = self.chunks.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        let (start, piece) = &self.chunks[at];
        let skip = (offset - start) as usize;
        match skip {
            0 => Some(piece.clone()),
            _ if skip < piece.bytes().len() => Some(piece.bytes().slice(skip..).into()),
            _ => None,
        }
    }

    /// Marks the transfer as reported to the parent. Returns false if it already was.
    pub(super) fn set_reported(&mut self) -> bool {
        !std::mem::replace(&mut self.reported, true)
    }

    /// Marks the transfer as not reported: the new parent must get the report again.
    pub(super) fn forget_report(&mut self) {
        self.reported = false;
    }
}
