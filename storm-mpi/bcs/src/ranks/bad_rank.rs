//! A rank that breaks the rules.

use storm_mpi::segment::{BadFrame, CorruptSegment};

/// A rank broke the rules of its segment.
#[derive(Debug)]
pub(super) struct BadRank;

impl From<CorruptSegment> for BadRank {
    fn from(_: CorruptSegment) -> BadRank {
        BadRank
    }
}

impl From<BadFrame> for BadRank {
    fn from(_: BadFrame) -> BadRank {
        BadRank
    }
}
