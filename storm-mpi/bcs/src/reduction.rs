//! The arithmetic of reductions: that of `storm-mpi`, on bytes.

use storm_mpi::{ReduceOp, Reducible};

/// How two stretches of elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// What is computed.
    pub op: ReduceOp,
    /// Of what.
    pub number: Number,
}

/// The type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `MPI_INT`
    I32,
    /// `MPI_LONG`
    I64,
    /// `MPI_UNSIGNED_LONG`
    U64,
    /// `MPI_FLOAT`
    F32,
    /// `MPI_DOUBLE`
    F64,
}

impl Number {
    /// Length of one element.
    pub fn bytes(self) -> usize {
        match self {
            Number::I32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }
}

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
    /// A number below 64 that no other has.
    pub(crate) fn code(self) -> u64 {
        let op = match self.op {
            ReduceOp::Sum => 0,
            ReduceOp::Min => 1,
            ReduceOp::Max => 2,
        };
        let number = match self.number {
            Number::I32 => 0,
            Number::I64 => 1,
            Number::U64 => 2,
            Number::F32 => 3,
            Number::F64 => 4,
        };
        op << 3 | number
    }

    /// Makes `right` to `left op right`, element by element, as far as both go.
    pub(crate) fn combine(self, left: &[u8], right: &mut [u8]) {
        match self.number {
            Number::I32 => apply!(i32, self.op, left, right),
            Number::I64 => apply!(i64, self.op, left, right),
            Number::U64 => apply!(u64, self.op, left, right),
            Number::F32 => apply!(f32, self.op, left, right),
            Number::F64 => apply!(f64, self.op, left, right),
        }
    }
}
