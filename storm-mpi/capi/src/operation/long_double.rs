//! `long double` of x86-64: the 80-bit numbers of its x87 unit, for which Rust has no type.

use super::Predefined;
use crate::number::LONG_DOUBLE_BYTES;
use std::arch::asm;
use std::ffi::c_int;

type Number = [u8; LONG_DOUBLE_BYTES];

/// Like [`super::numbers::apply`].
pub(super) fn apply(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    let each: fn(&Number, &mut Number) = match op {
        Predefined::Sum => add,
        Predefined::Prod => multiply,
        Predefined::Max => |l, r| prefer(l, r, false),
        Predefined::Min => |l, r| prefer(l, r, true),
        Predefined::Land
        | Predefined::Band
        | Predefined::Lor
        | Predefined::Bor
        | Predefined::Lxor
        | Predefined::Bxor
        | Predefined::MinLoc
        | Predefined::MaxLoc => return false,
    };
    let (left, _) = left.as_chunks();
    let (right, _) = right.as_chunks_mut();
    left.iter().zip(right).for_each(|(l, r)| each(l, r));
    true
}

/// Like [`apply`], for complex numbers.
pub(super) fn apply_complex(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    let each: fn(&[Number], &mut [Number]) = match op {
        Predefined::Sum => |l, r| l.iter().zip(r).for_each(|(l, r)| add(l, r)),
        Predefined::Prod => multiply_complex,
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
    };
    let (left, _) = left.as_chunks();
    let (right, _) = right.as_chunks_mut();
    left.chunks_exact(2).zip(right.chunks_exact_mut(2)).for_each(|(l, r)| each(l, r));
    true
}

/// Like [`apply`], for a number and its index; of equal numbers the lower index wins.
pub(super) fn apply_pairs(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    const PAIR_BYTES: usize = LONG_DOUBLE_BYTES + size_of::<c_int>();
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
    let (left, _) = left.as_chunks::<PAIR_BYTES>();
    let (right, _) = right.as_chunks_mut::<PAIR_BYTES>();
    for (l, r) in left.iter().zip(right) {
        let (a, i) = parts(l);
        let (b, j) = parts(r);
        let takes_left = match compare(a, b) {
            Compared::Less => least,
            Compared::Greater => !least,
            Compared::Equal => i < j,
            Compared::Unordered => false,
        };
        if takes_left {
            *r = *l;
        }
    }
    true
}

/// A packed pair's number and its index.
fn parts<const N: usize>(pair: &[u8; N]) -> (&Number, c_int) {
    let (number, index) = pair.split_first_chunk().expect("a pair begins with its number");
    (number, c_int::from_ne_bytes(index.try_into().expect("an index follows")))
}

fn multiply_complex(left: &[Number], right: &mut [Number]) {
    let (a, b, c, d) = (left[0], left[1], right[0], right[1]);
    let product = |l: &Number, r: &Number| {
        let mut product = *r;
        multiply(l, &mut product);
        product
    };
    right[0] = product(&b, &d);
    subtract(&product(&a, &c), &mut right[0]);
    right[1] = product(&b, &c);
    add(&product(&a, &d), &mut right[1]);
}

macro_rules! arithmetic {
    ($name:ident, $instruction:literal) => {
        fn $name(left: &Number, right: &mut Number) {
            // SAFETY: the code reads ten bytes of each operand and writes ten of `right`; both are
            // longer. It pops the two registers that it pushes.
            unsafe {
                asm!(
                    "fld tbyte ptr [{left}]",
                    "fld tbyte ptr [{right}]",
                    $instruction,
                    "fstp tbyte ptr [{right}]",
                    left = in(reg) left.as_ptr(),
                    right = in(reg) right.as_mut_ptr(),
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
        }
    };
}

arithmetic!(add, "faddp st(1), st");
arithmetic!(multiply, "fmulp st(1), st");
// The first pushed number minus the last, in Intel's notation.
arithmetic!(subtract, "fsubp st(1), st");

/// Puts the lesser or the greater into `right`. A number is preferred to NaN.
fn prefer(left: &Number, right: &mut Number, least: bool) {
    let takes_left = match compare(left, right) {
        Compared::Less => least,
        Compared::Greater => !least,
        // Among zeros the negative one is the lesser; other equal numbers are the same.
        Compared::Equal => least == is_negative(left),
        Compared::Unordered => matches!(compare(right, right), Compared::Unordered),
    };
    if takes_left {
        *right = *left;
    }
}

fn is_negative(number: &Number) -> bool {
    number[9] & 0x80 != 0
}

enum Compared {
    Less,
    Equal,
    Greater,
    Unordered,
}

fn compare(left: &Number, right: &Number) -> Compared {
    let (below, equal, unordered): (u8, u8, u8);
    // SAFETY: the code reads ten bytes of each operand; both are longer. It pops what it pushes.
    unsafe {
        asm!(
            "fld tbyte ptr [{right}]",
            "fld tbyte ptr [{left}]",
            "fucomip st, st(1)",
            "setb {below}",
            "sete {equal}",
            "setp {unordered}",
            "fstp st(0)",
            left = in(reg) left.as_ptr(),
            right = in(reg) right.as_ptr(),
            below = out(reg_byte) below,
            equal = out(reg_byte) equal,
            unordered = out(reg_byte) unordered,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack, readonly),
        );
    }
    match (below, equal, unordered) {
        (_, _, 1) => Compared::Unordered,
        (_, 1, _) => Compared::Equal,
        (1, _, _) => Compared::Less,
        _ => Compared::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_zero_is_less_than_zero_on_either_side() {
        let zero = [0; LONG_DOUBLE_BYTES];
        let mut negative = zero;
        negative[9] = 0x80;
        for (left, right) in [(zero, negative), (negative, zero)] {
            for (least, expected) in [(true, negative), (false, zero)] {
                let mut right = right;
                prefer(&left, &mut right, least);
                assert_eq!(right, expected);
            }
        }
    }

    /// A small whole number in the format of this unit: sign and exponent, and a mantissa with its
    /// first bit.
    fn whole(n: i8) -> Number {
        let mut number = [0; LONG_DOUBLE_BYTES];
        let size = u64::from(n.unsigned_abs());
        if size > 0 {
            let zeros = size.leading_zeros();
            number[..8].copy_from_slice(&(size << zeros).to_le_bytes());
            let exponent = (16383 + 63 - zeros) as u16 | if n < 0 { 0x8000 } else { 0 };
            number[8..10].copy_from_slice(&exponent.to_le_bytes());
        }
        number
    }

    #[test]
    fn complex_numbers() {
        let number = |re, im| [whole(re), whole(im)].concat();
        let combined = |op| {
            let (mut left, mut right) = (number(2, 3), number(5, 7));
            assert!(apply_complex(op, &mut left, &mut right));
            right
        };
        assert_eq!(combined(Predefined::Sum), number(7, 10));
        assert_eq!(combined(Predefined::Prod), number(-11, 29));
        assert!(!apply_complex(Predefined::Max, &mut [], &mut []));
    }

    #[test]
    fn the_lower_index_wins_among_equal_numbers() {
        let pair = |n, index: c_int| [&whole(n)[..], &index.to_ne_bytes()].concat();
        let combined = |op, mut left: Vec<u8>, mut right: Vec<u8>| {
            assert!(apply_pairs(op, &mut left, &mut right));
            right
        };
        let (min, max) = (Predefined::MinLoc, Predefined::MaxLoc);
        assert_eq!(combined(min, pair(5, 2), pair(5, 9)), pair(5, 2));
        assert_eq!(combined(min, pair(5, 9), pair(5, 2)), pair(5, 2));
        assert_eq!(combined(max, pair(-6, 0), pair(5, 2)), pair(5, 2));
        assert_eq!(combined(min, pair(-6, 9), pair(5, 2)), pair(-6, 9));
        assert!(!apply_pairs(Predefined::Sum, &mut [], &mut []));
    }
}
