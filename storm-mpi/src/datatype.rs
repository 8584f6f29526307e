//! The element types that messages consist of.
//!
//! Values travel as they lie in memory: all nodes of a job have the same byte order.

mod sealed {
    pub trait Sealed {}
}

/// A type that messages may hold: plain numbers, of which every bit pattern is a value.
///
/// Sealed: the layers below copy bytes into and out of such values.
pub trait Datatype: sealed::Sealed + Copy + 'static {}

/// A type that `sum`, `min` and `max` are defined for.
pub trait Reducible: Datatype {
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
    ($sum:expr; $($t:ty),*) => {$(
        impl Reducible for $t {
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

reducible!(std::ops::Add::add; f32, f64);
reducible!(|a: i32, b: i32| a.wrapping_add(b); i32);
reducible!(|a: i64, b: i64| a.wrapping_add(b); i64);
reducible!(|a: u64, b: u64| a.wrapping_add(b); u64);
