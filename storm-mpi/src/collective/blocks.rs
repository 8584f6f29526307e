//! A buffer with a place for each member: gathers fill it, and scatters send from it.

use crate::error::CommError;
use std::ops::Range;

/// A block to send for each member, in `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
}

/// A place for each member's block to be received, in `bytes`.
#[derive(Debug)]
pub struct BlocksMut<'a> {
    bytes: &'a mut [u8],
    places: &'a [Range<usize>],
}

impl<'a> Blocks<'a> {
    /// An empty block for every member.
    pub(super) fn none() -> Self {
        Blocks { bytes: &[], places: &[] }
    }

    /// The `i`-th member's block is `bytes[places[i]]`.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] if a place is not within the bytes.
    pub fn new(bytes: &'a [u8], places: &'a [Range<usize>]) -> Result<Self, CommError> {
        check(bytes.len(), places)?;
        Ok(Blocks { bytes, places })
    }

    pub(super) fn of(&self, member: usize) -> &'a [u8] {
        self.places.get(member).map_or(&[], |place| &self.bytes[place.clone()])
    }
}

impl<'a> BlocksMut<'a> {
    /// The `i`-th member's place is `bytes[places[i]]`. If two places overlap, their contents are
    /// undefined.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] if a place is not within the bytes.
    pub fn new(bytes: &'a mut [u8], places: &'a [Range<usize>]) -> Result<Self, CommError> {
        check(bytes.len(), places)?;
        Ok(BlocksMut { bytes, places })
    }

    pub(super) fn of(&mut self, member: usize) -> &mut [u8] {
        match self.places.get(member) {
            Some(place) => &mut self.bytes[place.clone()],
            None => &mut [],
        }
    }

    /// The bytes, and the place of each member in them.
    pub(super) fn parts(&mut self) -> (&mut [u8], &'a [Range<usize>]) {
        (self.bytes, self.places)
    }

    pub(super) fn bytes_of(&self, member: usize) -> usize {
        self.places.get(member).map_or(0, Range::len)
    }

    pub(super) fn largest(&self) -> usize {
        self.places.iter().map(Range::len).max().unwrap_or(0)
    }
}

fn check(bytes: usize, places: &[Range<usize>]) -> Result<(), CommError> {
    match places.iter().find(|place| place.start > place.end || place.end > bytes) {
        Some(place) => Err(CommError::LengthMismatch { left: bytes, right: place.end }),
        None => Ok(()),
    }
}

/// Places of these lengths, one after the other.
pub(super) fn in_a_row(lengths: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    let place = |length| {
        let start = end;
        end += length;
        start..end
    };
    lengths.into_iter().map(place).collect()
}
