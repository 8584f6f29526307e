//! The element types that messages consist of.
//!
//! Values travel as they lie in memory: all nodes of a job have the same byte order.

use crate::collective::Number;

mod sealed {
    pub trait Sealed {}
}

/// A type that messages may hold: plain numbers, of which every bit pattern is a value.
///
/// Sealed: the layers below copy bytes into and out of such values.
pub trait Datatype: sealed::Sealed + Copy + 'static {}

/// A type that `sum`, `min` and `max` are defined for.
pub trait Reducible: Datatype {
    /// Its name.
    const NUMBER: Number;

    /// The operation on two values. Integers wrap; of floats `min` and `max` prefer a number to NaN.
    fn apply(op: ReduceOp, left: Self, right: Self) -> Self;
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// `MPI_SUM`
    Sum,
    /// `MPI_MIN`
    Min,
    /// `MPI_MAX`
    Max,
}

macro_rules! datatypes {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Datatype for $t {}
    )*};
}

datatypes!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, f32, f64);

macro_rules! reducible {
    ($sum:expr; $($t:ty = $number:ident),*) => {$(
        impl Reducible for $t {
            const NUMBER: Number = Number::$number;

            fn apply(op: ReduceOp, left: Self, right: Self) -> Self {
                match op {
                    ReduceOp::Sum => $sum(left, right),
                    ReduceOp::Min => left.min(right),
                    ReduceOp::Max => left.max(right),
                }
            }
        }
    )*};
}

reducible!(std::ops::Add::add; f32 = F32, f64 = F64);
reducible!(i8::wrapping_add; i8 = I8);
reducible!(i16::wrapping_add; i16 = I16);
reducible!(i32::wrapping_add; i32 = I32);
reducible!(i64::wrapping_add; i64 = I64);
reducible!(u8::wrapping_add; u8 = U8);
reducible!(u16::wrapping_add; u16 = U16);
reducible!(u32::wrapping_add; u32 = U32);
reducible!(u64::wrapping_add; u64 = U64);
