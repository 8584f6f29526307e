//! `long double` of x86-64: the 80-bit numbers of its x87 unit, for which Rust has no type.

use super::Predefined;
use crate::types::LONG_DOUBLE_BYTES;
use std::arch::asm;

/// As [`super::numbers::apply`].
pub(super) fn apply(op: Predefined, left: &mut [u8], right: &mut [u8]) -> bool {
    let each: fn(&[u8; LONG_DOUBLE_BYTES], &mut [u8; LONG_DOUBLE_BYTES]) = match op {
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

macro_rules! arithmetic {
    ($name:ident, $instruction:literal) => {
        fn $name(left: &[u8; LONG_DOUBLE_BYTES], right: &mut [u8; LONG_DOUBLE_BYTES]) {
            // SAFETY: reads ten bytes of each, writes ten of `right`; both are longer. The two
            // registers that it pushes are popped again.
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

/// Puts the lesser or the greater to the right; a number before NaN.
fn prefer(left: &[u8; LONG_DOUBLE_BYTES], right: &mut [u8; LONG_DOUBLE_BYTES], least: bool) {
    let takes_left = match compare(left, right) {
        Compared::Less => least,
        Compared::Greater => !least,
        // Of zeros the negative one is the lesser; else both are the same.
        Compared::Equal => least == is_negative(left),
        Compared::Unordered => matches!(compare(right, right), Compared::Unordered),
    };
    if takes_left {
        *right = *left;
    }
}

fn is_negative(number: &[u8; LONG_DOUBLE_BYTES]) -> bool {
    number[9] & 0x80 != 0
}

enum Compared {
    Less,
    Equal,
    Greater,
    Unordered,
}

fn compare(left: &[u8; LONG_DOUBLE_BYTES], right: &[u8; LONG_DOUBLE_BYTES]) -> Compared {
    let (below, equal, unordered): (u8, u8, u8);
    // SAFETY: reads ten bytes of each; both are longer. What it pushes it pops again.
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
    fn of_zeros_the_negative_one_is_the_lesser_from_either_side() {
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
}
