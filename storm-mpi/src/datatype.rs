//! The element types of messages.
//!
//! Values travel in their memory representation: all nodes of a job have the same byte order.

use crate::collective::Number;

mod sealed {
    pub trait Sealed {}
}

/// A type that messages may contain: a plain number for which every bit pattern is a valid value.
///
/// The trait is sealed, because the layers below copy bytes into and out of such values.
pub trait Datatype: sealed::Sealed + Copy + 'static {}

/// A type that `sum`, `min` and `max` are defined for.
pub trait Reducible: Datatype {
    /// The kind of number.
    const NUMBER: Number;

    /// The operation on two values. Integers wrap. For floats, `min` and `max` are those of
    /// [`Ordered`].
    fn apply(op: ReduceOp, left: Self, right: Self) -> Self;
}

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// `MPI_SUM`
    Sum,
    /// `MPI_MIN`
    Min,
    /// `MPI_MAX`
    Max,
}

/// The lesser and the greater of two numbers. The bits of the result do not depend on the machine
/// or on the order of the operands, because a node and a rank must get the same result.
///
/// For floats, a number is preferred to NaN, and -0 is less than +0, as in IEEE 754-2019's
/// `minimumNumber` and `maximumNumber` (section 9.6). The sign of a zero from [`f64::min`] is not
/// defined: the compiler decides differently for folded constants and at run time. If both operands
/// are NaN, the result is the right operand.
pub trait Ordered: Copy {
    /// The lesser.
    fn least(self, right: Self) -> Self;
    /// The greater.
    fn greatest(self, right: Self) -> Self;
}

macro_rules! ordered_integers {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            fn least(self, right: Self) -> Self {
                Ord::min(self, right)
            }

            fn greatest(self, right: Self) -> Self {
                Ord::max(self, right)
            }
        }
    )*};
}

macro_rules! ordered_floats {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            fn least(self, right: Self) -> Self {
                let is_left = self < right || (self == right && self.is_sign_negative());
                if right.is_nan() && !self.is_nan() || is_left { self } else { right }
            }

            fn greatest(self, right: Self) -> Self {
                let is_left = self > right || (self == right && self.is_sign_positive());
                if right.is_nan() && !self.is_nan() || is_left { self } else { right }
            }
        }
    )*};
}

ordered_integers!(u8, i8, u16, i16, u32, i32, u64, i64);
ordered_floats!(f32, f64);

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
                    ReduceOp::Min => left.least(right),
                    ReduceOp::Max => left.greatest(right),
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

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! whichever_side {
        ($t:ty, $values:expr) => {
            for left in $values {
                for right in $values {
                    for op in [ReduceOp::Min, ReduceOp::Max] {
                        let there = <$t>::apply(op, left, right).to_bits();
                        let back = <$t>::apply(op, right, left).to_bits();
                        assert_eq!(there, back, "{op:?} of {left} and {right}");
                    }
                }
            }
        };
    }

    #[test]
    fn the_lesser_of_two_floats_is_the_same_from_either_side() {
        let f64s = [f64::NAN, -0.0, 0.0, -1.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324];
        whichever_side!(f64, f64s);
        let f32s = [f32::NAN, -0.0, 0.0, -1.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, 1e-45];
        whichever_side!(f32, f32s);
    }

    #[test]
    fn zeros_have_an_order_and_numbers_come_before_none() {
        for (left, right) in [(0.0_f64, -0.0), (-0.0, 0.0)] {
            assert!(left.least(right).is_sign_negative());
            assert!(left.greatest(right).is_sign_positive());
        }
        for (left, right) in [(f32::NAN, 2.0), (2.0, f32::NAN)] {
            assert_eq!((left.least(right), left.greatest(right)), (2.0, 2.0));
        }
    }
}
