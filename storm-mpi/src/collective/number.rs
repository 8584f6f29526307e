//! Reductions that any process with the bytes can carry out: an operation on numbers of one type.

use crate::datatype::{ReduceOp, Reducible};

/// The way to combine two stretches of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The operation.
    pub op: ReduceOp,
    /// The type of the numbers.
    pub number: Number,
}

/// The type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `MPI_SIGNED_CHAR`
    I8,
    /// `MPI_SHORT`
    I16,
    /// `MPI_INT`
    I32,
    /// `MPI_LONG`
    I64,
    /// `MPI_UNSIGNED_CHAR`
    U8,
    /// `MPI_UNSIGNED_SHORT`
    U16,
    /// `MPI_UNSIGNED`
    U32,
    /// `MPI_UNSIGNED_LONG`
    U64,
    /// `MPI_FLOAT`
    F32,
    /// `MPI_DOUBLE`
    F64,
}

/// Numbers by their code.
const NUMBERS: [Number; 10] = [
    Number::I8,
    Number::I16,
    Number::I32,
    Number::I64,
    Number::U8,
    Number::U16,
    Number::U32,
    Number::U64,
    Number::F32,
    Number::F64,
];
/// Operations by their code.
const OPS: [ReduceOp; 3] = [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max];
/// Number of bits for the number's code in a reduction's code.
const NUMBER_BITS: u32 = 4;

macro_rules! apply {
    ($number:ty, $op:expr, $left:expr, $right:expr) => {{
        const BYTES: usize = size_of::<$number>();
        let (right, _) = $right.as_chunks_mut::<BYTES>();
        for (left, right) in $left.as_chunks::<BYTES>().0.iter().zip(right) {
            let (l, r) = (<$number>::from_ne_bytes(*left), <$number>::from_ne_bytes(*right));
            *right = <$number as Reducible>::apply($op, l, r).to_ne_bytes();
        }
    }};
}

impl Reduction {
    /// A code below 128, different for each reduction.
    pub fn code(self) -> u32 {
        let op = match self.op {
            ReduceOp::Sum => 0,
            ReduceOp::Min => 1,
            ReduceOp::Max => 2,
        };
        op << NUMBER_BITS | self.number as u32
    }

    /// The reduction with this code, if there is one.
    pub fn from_code(code: u32) -> Option<Reduction> {
        let op = *OPS.get((code >> NUMBER_BITS) as usize)?;
        let number = *NUMBERS.get((code & ((1 << NUMBER_BITS) - 1)) as usize)?;
        Some(Reduction { op, number })
    }

    /// Sets `right` to `left op right`, element by element, up to the shorter length. The bits are
    /// those of [`Reducible::apply`].
    pub fn combine(self, left: &[u8], right: &mut [u8]) {
        match self.number {
            Number::I8 => apply!(i8, self.op, left, right),
            Number::I16 => apply!(i16, self.op, left, right),
            Number::I32 => apply!(i32, self.op, left, right),
            Number::I64 => apply!(i64, self.op, left, right),
            Number::U8 => apply!(u8, self.op, left, right),
            Number::U16 => apply!(u16, self.op, left, right),
            Number::U32 => apply!(u32, self.op, left, right),
            Number::U64 => apply!(u64, self.op, left, right),
            Number::F32 => apply!(f32, self.op, left, right),
            Number::F64 => apply!(f64, self.op, left, right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reduction_has_a_code_of_its_own_and_comes_back_from_it() {
        let all: Vec<Reduction> =
            OPS.iter().flat_map(|op| NUMBERS.map(|number| Reduction { op: *op, number })).collect();
        for reduction in &all {
            assert!(reduction.code() < 128);
            assert_eq!(Reduction::from_code(reduction.code()), Some(*reduction));
        }
        let known = (0..=u32::from(u16::MAX)).filter_map(Reduction::from_code).count();
        assert_eq!(known, all.len());
        assert_eq!(Reduction::from_code(u32::MAX), None);
    }

    #[test]
    fn elements_are_combined_as_far_as_both_go() {
        let sum = Reduction { op: ReduceOp::Sum, number: Number::I16 };
        let mut right = [1, 0, 255, 255, 9];
        sum.combine(&[2, 0, 1, 0, 7], &mut right);
        assert_eq!(right, [3, 0, 0, 0, 9]);
        sum.combine(&[], &mut right);
        assert_eq!(right, [3, 0, 0, 0, 9]);
    }
}
