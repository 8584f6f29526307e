//! Partial results of a reduction: the same tree for any order of arrival and any placement of
//! ranks.
//!
//! A piece covers the members from a multiple of `2^k` on: `2^k` of them, or as many as there are.
//! The two halves of a larger piece are combined when both are there, the lower one on the left.
//! The result is the binomial tree of `storm_mpi::collective`, so the bits are the same.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use storm_mpi::collective::{Number, Reduction};

/// A partial result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// First member of the piece, a multiple of `2^level`.
    pub(crate) first: u32,
    /// The piece covers `2^level` members, without those beyond the last.
    pub(crate) level: u32,
    /// The elements.
    pub(crate) data: Vec<u8>,
}

/// The partial results that one place holds.
#[derive(Debug)]
pub(crate) struct Pieces {
    members: u32,
    bytes: usize,
    reduction: Reduction,
    /// Pieces by first member: level and elements.
    held: BTreeMap<u32, (u32, Vec<u8>)>,
}

/// The piece cannot belong to this reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

impl Pieces {
    /// No pieces, for a reduction of `bytes` bytes over `members` members.
    pub(crate) fn new(members: u32, bytes: usize, reduction: Reduction) -> Pieces {
        Pieces { members, bytes, reduction, held: BTreeMap::new() }
    }

    /// Adds a piece, and combines all complete halves.
    pub(crate) fn add(&mut self, piece: Piece) -> Result<(), Misfit> {
        let Piece { mut first, mut level, mut data } = piece;
        let aligned = level < u32::BITS - 1 && first.is_multiple_of(1 << level);
        if data.len() != self.bytes || !aligned || first >= self.members {
            return Err(Misfit);
        }
        let top = top_level(self.members);
        while level < top {
            let buddy = first ^ (1 << level);
            if buddy < self.members {
                match self.held.get(&buddy) {
                    Some((theirs, _)) if *theirs == level => {}
                    _ => break,
                }
                let Some((_, other)) = self.held.remove(&buddy) else { break };
                if buddy < first {
                    self.reduction.combine(&other, &mut data);
                } else {
                    let mut right = other;
                    self.reduction.combine(&data, &mut right);
                    data = right;
                }
            }
            first = first.min(buddy);
            level += 1;
        }
        match self.held.insert(first, (level, data)) {
            Some(_) => Err(Misfit),
            None => Ok(()),
        }
    }

    /// Takes all pieces out.
    pub(crate) fn take(&mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held).into_iter();
        held.map(|(first, (level, data))| Piece { first, level, data }).collect()
    }

    /// The result, if it is complete.
    pub(crate) fn result(&self) -> Option<&[u8]> {
        let (level, data) = self.held.get(&0)?;
        (*level == top_level(self.members)).then_some(data)
    }
}

/// The number of pieces that remain of the members of these ranges, after all halves were combined.
pub(crate) fn count(members: u32, held: impl IntoIterator<Item = Range<u32>>) -> usize {
    let sum = Reduction { op: storm_mpi::ReduceOp::Sum, number: Number::I32 };
    let mut pieces = Pieces::new(members, 0, sum);
    for first in held.into_iter().flatten() {
        // A member that is named twice counts as one piece.
        let _ = pieces.add(Piece { first, level: 0, data: Vec::new() });
    }
    pieces.held.len()
}

/// The level of the piece that covers all members.
fn top_level(members: u32) -> u32 {
    members.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use storm_mpi::ReduceOp;
    use storm_mpi::testing::SplitMix64;

    fn sum(values: &[f64], order: &[usize]) -> Vec<u8> {
        let reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };
        let mut pieces = Pieces::new(values.len() as u32, 8, reduction);
        for &member in order {
            let data = values[member].to_ne_bytes().to_vec();
            pieces.add(Piece { first: member as u32, level: 0, data }).expect("fits");
        }
        pieces.result().expect("all are there").to_vec()
    }

    /// Combines as `storm_mpi::collective` does: each member combines its children, in order.
    fn binomial(values: &[f64], member: usize) -> f64 {
        let mut all = values[member];
        let mut step = 1;
        while step < values.len() && member & step == 0 {
            if member + step < values.len() {
                all += binomial(values, member + step);
            }
            step *= 2;
        }
        all
    }

    proptest! {
        #[test]
        fn any_order_of_arrival_gives_the_bits_of_the_binomial_tree(
            values in prop::collection::vec(-1e9f64..1e9, 1..40),
            seed in any::<u64>(),
        ) {
            let mut order: Vec<usize> = (0..values.len()).collect();
            let mut random = SplitMix64(seed);
            for last in (1..order.len()).rev() {
                order.swap(last, random.below(last + 1));
            }
            prop_assert_eq!(sum(&values, &order), binomial(&values, 0).to_ne_bytes().to_vec());
        }
    }

    #[test]
    fn a_piece_of_another_length_or_twice_is_found_out() {
        let reduction = Reduction { op: ReduceOp::Sum, number: Number::I32 };
        let mut pieces = Pieces::new(4, 4, reduction);
        let piece = |first, level, bytes| Piece { first, level, data: vec![0; bytes] };
        assert_eq!(pieces.add(piece(1, 0, 4)), Ok(()));
        assert_eq!(pieces.add(piece(1, 0, 4)), Err(Misfit));
        assert_eq!(pieces.add(piece(0, 0, 8)), Err(Misfit));
        assert_eq!(pieces.add(piece(1, 1, 4)), Err(Misfit));
        assert_eq!(pieces.add(piece(4, 0, 4)), Err(Misfit));
        assert_eq!(pieces.add(piece(0, 31, 4)), Err(Misfit));
    }
}
