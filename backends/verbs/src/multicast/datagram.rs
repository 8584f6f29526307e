//! A datagram of the group: a piece of a chunk's payload, behind a header that places it.

use bytes::Buf;

/// Length of the header in front of the piece.
pub const HEAD_BYTES: usize = 24;

/// The header of a datagram, which describes its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The tag of the group, which only members know.
    pub tag: u64,
    /// The number of the chunk, counted from 0 by the sender.
    pub number: u64,
    /// The piece's offset in the payload, in bytes.
    pub offset: u32,
    /// Length of the payload in bytes; 0 only announces the number of the next chunk.
    pub total: u32,
}

impl Head {
    /// The encoded header.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..8].copy_from_slice(&self.tag.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..20].copy_from_slice(&self.offset.to_le_bytes());
        out[20..].copy_from_slice(&self.total.to_le_bytes());
        out
    }

    /// The header of a datagram, and its piece; `None` if it is shorter than a header.
    pub fn decode(datagram: &[u8]) -> Option<(Head, &[u8])> {
        let (mut head, piece) = datagram.split_at_checked(HEAD_BYTES)?;
        let (tag, number) = (head.get_u64_le(), head.get_u64_le());
        let (offset, total) = (head.get_u32_le(), head.get_u32_le());
        Some((Head { tag, number, offset, total }, piece))
    }
}
