//! The predefined operations on the predefined types (MPI-4.1, section 6.9.2, the table of allowed
//! combinations). Integers wrap round. For floats, `MPI_MAX` and `MPI_MIN` are those of
//! [`Ordered`], as in reductions by nodes.

use super::Predefined;
use crate::number::{Number, PairValue};
use std::ffi::{c_int, c_long};
use storm_mpi::Ordered;

/// Sets `right` to `left op right`, element by element, if the operation is defined for the type,
/// and tells whether it is. Both are aligned to 16, and packed.
pub(super) fn apply(op: Predefined, number: Number, left: &mut [u8], right: &mut [u8]) -> bool {
    match number {
        Number::Signed(1) => i8::combine(op, left, right),
        Number::Signed(2) => i16::combine(op, left, right),
        Number::Signed(4) => i32::combine(op, left, right),
        Number::Signed(8) => i64::combine(op, left, right),
        Number::Unsigned(1) => u8::combine(op, left, right),
        Number::Unsigned(2) => u16::combine(op, left, right),
        Number::Unsigned(4) => u32::combine(op, left, right),
        Number::Unsigned(8) => u64::combine(op, left, right),
        Number::Float32 => f32::combine(op, left, right),
        Number::Float64 => f64::combine(op, left, right),
        Number::Complex32 => complex::<f32>(op, left, right),
        Number::Complex64 => complex::<f64>(op, left, right),
        Number::Bool => booleans(op, left, right),
        Number::Byte => bits(op, left, right),
        #[cfg(target_arch = "x86_64")]
        Number::LongDouble => super::long_double::apply(op, left, right),
        #[cfg(target_arch = "x86_64")]
        Number::ComplexLong => super::long_double::apply_complex(op, left, right),
        #[cfg(target_arch = "x86_64")]
        Number::Pair(PairValue::LongDouble) => super::long_double::apply_pairs(op, left, right),
        #[cfg(not(target_arch = "x86_64"))]
        Number::LongDouble | Number::ComplexLong | Number::Pair(PairValue::LongDouble) => false,
        Number::Pair(PairValue::Float) => pairs::<f32, c_int>(op, left, right),
        Number::Pair(PairValue::Double) => pairs::<f64, c_int>(op, left, right),
        Number::Pair(PairValue::Long) => pairs::<c_long, c_int>(op, left, right),
        Number::Pair(PairValue::Int) => pairs::<c_int, c_int>(op, left, right),
        Number::Pair(PairValue::Short) => pairs::<i16, c_int>(op, left, right),
        Number::Pair(PairValue::Real) => pairs::<f32, f32>(op, left, right),
        Number::Pair(PairValue::DoublePrecision) => pairs::<f64, f64>(op, left, right),
        Number::Signed(_) | Number::Unsigned(_) | Number::Packed => false,
    }
}

/// A number of C. Every bit pattern is a value.
trait Plain: Copy + PartialOrd {
    fn combine(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Plain for $t {
            fn combine(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
                let each = |f: fn(bool, bool) -> bool| {
                    move |a: $t, b: $t| <$t>::from(f(a != 0, b != 0))
                };
                match op {
                    Predefined::Max => map(left, right, <$t>::greatest),
                    Predefined::Min => map(left, right, <$t>::least),
                    Predefined::Sum => map(left, right, <$t>::wrapping_add),
                    Predefined::Prod => map(left, right, <$t>::wrapping_mul),
                    Predefined::Band => map(left, right, |a: $t, b| a & b),
                    Predefined::Bor => map(left, right, |a: $t, b| a | b),
                    Predefined::Bxor => map(left, right, |a: $t, b| a ^ b),
                    Predefined::Land => map(left, right, each(|a, b| a && b)),
                    Predefined::Lor => map(left, right, each(|a, b| a || b)),
                    Predefined::Lxor => map(left, right, each(|a, b| a != b)),
                    Predefined::MinLoc | Predefined::MaxLoc => return false,
                }
                true
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Plain for $t {
            fn combine(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
                match op {
                    Predefined::Max => map(left, right, <$t>::greatest),
                    Predefined::Min => map(left, right, <$t>::least),
                    Predefined::Sum => map(left, right, |a: $t, b| a + b),
                    Predefined::Prod => map(left, right, |a: $t, b| a * b),
                    Predefined::Land
                    | Predefined::Band
                    | Predefined::Lor
                    | Predefined::Bor
                    | Predefined::Lxor
                    | Predefined::Bxor
                    | Predefined::MinLoc
                    | Predefined::MaxLoc => return false,
                }
                true
            }
        }
    )*};
}

floats!(f32, f64);

/// Sums and products of complex numbers.
fn complex<T>(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool
where
    T: Plain + std::ops::Add<Output = T> + std::ops::Sub<Output = T> + std::ops::Mul<Output = T>,
{
    match op {
        Predefined::Sum => map(left, right, |[a, b]: [T; 2], [c, d]: [T; 2]| [a + c, b + d]),
        Predefined::Prod => {
            map(left, right, |[a, b]: [T; 2], [c, d]: [T; 2]| [a * c - b * d, a * d + b * c]);
        }
        Predefined::Max
        | Predefined::Min
        | Predefined::Land
        | Predefined::Band
        | Predefined::Lor
        | Predefined::Bor
        | Predefined::Lxor
        | Predefined::Bxor
        | Predefined::MinLoc
        | Predefined::MaxLoc => return false,
    }
    true
}

fn booleans(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    let logical = matches!(op, Predefined::Land | Predefined::Lor | Predefined::Lxor);
    logical && u8::combine(op, left, right)
}

fn bits(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    let bitwise = matches!(op, Predefined::Band | Predefined::Bor | Predefined::Bxor);
    bitwise && u8::combine(op, left, right)
}

/// The lesser or greater value with its index; of equal values, the lower index wins. If a value is
/// NaN, the standard defines nothing, and `right` stays.
fn pairs<T: Plain, I: Plain>(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    let value_bytes = size_of::<T>();
    let pair_bytes = value_bytes + size_of::<I>();
    let least = match op {
        Predefined::MinLoc => true,
        Predefined::MaxLoc => false,
        Predefined::Max
        | Predefined::Min
        | Predefined::Sum
        | Predefined::Prod
        | Predefined::Land
        | Predefined::Band
        | Predefined::Lor
        | Predefined::Bor
        | Predefined::Lxor
        | Predefined::Bxor => return false,
    };
    for (l, r) in left.chunks_exact(pair_bytes).zip(right.chunks_exact_mut(pair_bytes)) {
        let (a, b) = (number::<T>(l), number::<T>(r));
        let (i, j) = (number::<I>(&l[value_bytes..]), number::<I>(&r[value_bytes..]));
        let takes_left = if a == b {
            i < j
        } else if least {
            a < b
        } else {
            a > b
        };
        if takes_left {
            r.copy_from_slice(l);
        }
    }
    true
}

/// The number that begins there.
fn number<T: Plain>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "a pair has both its parts");
    // SAFETY: that many bytes are there, and every bit pattern is a value of a `Plain`.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// Sets each element of `right` to `f` of both. `T` is a [`Plain`] or an array of them.
fn map<T: Copy>(left: &mut [u8], right: &mut [u8], f: impl Fn(T, T) -> T) {
    // SAFETY: every bit pattern is a value of a `Plain`. Spans are aligned for all of them, so
    // nothing is cut off.
    let (left, right) = unsafe { (left.align_to::<T>().1, right.align_to_mut::<T>().1) };
    for (l, r) in left.iter().zip(right) {
        *r = f(*l, *r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_mpi::collective::Span;

    fn combined<const N: usize>(op: Predefined, number: Number, l: [u8; N], r: [u8; N]) -> [u8; N] {
        let (mut left, mut right) = (Span::of(&l), Span::of(&r));
        assert!(apply(op, number, left.as_mut(), right.as_mut()));
        std::array::from_fn(|i| right.as_ref()[i])
    }

    #[test]
    fn integers_wrap_and_floats_prefer_numbers() {
        let sum = combined(Predefined::Sum, Number::Signed(1), [127, 1], [1, 2]);
        assert_eq!(sum, [128, 3]);
        let nan = f64::NAN.to_le_bytes();
        let max = combined(Predefined::Max, Number::Float64, nan, 1f64.to_le_bytes());
        assert_eq!(f64::from_le_bytes(max), 1.0);
        for (l, r) in [(0f32, -0f32), (-0f32, 0f32)] {
            let of = |op| combined(op, Number::Float32, l.to_le_bytes(), r.to_le_bytes());
            assert_eq!(of(Predefined::Min), (-0f32).to_le_bytes(), "as nodes reduce");
            assert_eq!(of(Predefined::Max), 0f32.to_le_bytes());
        }
        let xor = combined(Predefined::Lxor, Number::Unsigned(1), [7, 0, 9], [1, 4, 0]);
        assert_eq!(xor, [0, 1, 1]);
    }

    #[test]
    fn the_lower_index_wins_among_equal_values() {
        let pair = |value: i16, index: i32| {
            let (v, i) = (value.to_le_bytes(), index.to_le_bytes());
            [v[0], v[1], i[0], i[1], i[2], i[3]]
        };
        let short = Number::Pair(PairValue::Short);
        assert_eq!(combined(Predefined::MinLoc, short, pair(5, 2), pair(5, 9)), pair(5, 2));
        assert_eq!(combined(Predefined::MinLoc, short, pair(5, 9), pair(5, 2)), pair(5, 2));
        assert_eq!(combined(Predefined::MaxLoc, short, pair(6, 9), pair(5, 2)), pair(6, 9));
        assert_eq!(combined(Predefined::MinLoc, short, pair(6, 9), pair(5, 2)), pair(5, 2));
    }

    /// Pairs of Fortran, whose index is a floating-point number too.
    #[test]
    fn pairs_of_floats_have_the_lower_index_of_equal_values() {
        let pair = |value: f64, index: f64| {
            let (v, i) = (value.to_le_bytes(), index.to_le_bytes());
            std::array::from_fn::<u8, 16, _>(|at| if at < 8 { v[at] } else { i[at - 8] })
        };
        let number = Number::Pair(PairValue::DoublePrecision);
        let of = |op, l, r| combined(op, number, l, r);
        let (min, max) = (Predefined::MinLoc, Predefined::MaxLoc);
        // Indices that no `int` has.
        let (low, high) = (pair(5.0, 0.25), pair(5.0, 3e9));
        for op in [min, max] {
            assert_eq!(of(op, low, high), low);
            assert_eq!(of(op, high, low), low);
        }
        assert_eq!(of(min, pair(-1.5, 9.0), pair(-1.0, 2.0)), pair(-1.5, 9.0));
        assert_eq!(of(max, pair(-1.5, 9.0), pair(-1.0, 2.0)), pair(-1.0, 2.0));
        // Zeros are equal, whatever their signs.
        assert_eq!(of(min, pair(-0.0, 7.0), pair(0.0, 3.0)), pair(0.0, 3.0));
        let nan = pair(f64::NAN, 1.0);
        for op in [min, max] {
            assert_eq!(of(op, nan, high), high, "what is no number replaces none");
            assert_eq!(of(op, low, nan), nan);
        }
        let real = |value: f32, index: f32| {
            let (v, i) = (value.to_le_bytes(), index.to_le_bytes());
            std::array::from_fn::<u8, 8, _>(|at| if at < 4 { v[at] } else { i[at - 4] })
        };
        let number = Number::Pair(PairValue::Real);
        let most = combined(max, number, real(2.5, 1.0), real(2.5, 8.0));
        assert_eq!(most, real(2.5, 1.0));
    }

    #[test]
    fn operations_outside_the_standard_are_refused() {
        let no = |op, number| !apply(op, number, &mut [], &mut []);
        assert!(no(Predefined::Band, Number::Float64));
        assert!(no(Predefined::Max, Number::Complex64));
        assert!(no(Predefined::Sum, Number::Byte));
        assert!(no(Predefined::Sum, Number::Pair(PairValue::Int)));
        assert!(no(Predefined::MinLoc, Number::Signed(4)));
    }
}
