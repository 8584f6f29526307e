//! The header of a block: the word of its slice, and its length.

/// Bytes of the slice and the length.
pub(crate) const HEAD_BYTES: u64 = 16;
