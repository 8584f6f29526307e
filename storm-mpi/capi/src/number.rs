//! The numbers that predefined datatypes consist of, and their layouts.

use std::ffi::{c_int, c_long};
use storm_mpi::layout::{Layout, Part};

pub(crate) const INT_BYTES: usize = size_of::<c_int>();
pub(crate) const LONG_BYTES: usize = size_of::<c_long>();
/// `sizeof(long double)` on x86-64, and its alignment. On aarch64 it is the same.
pub(crate) const LONG_DOUBLE_BYTES: usize = 16;

/// The numbers of a predefined type, for operations on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Signed(usize),
    Unsigned(usize),
    Float32,
    Float64,
    /// The 80-bit format of x86, in 16 bytes.
    LongDouble,
    Bool,
    Byte,
    Complex32,
    Complex64,
    /// A complex number of long doubles. It can be sent, but has no operations.
    ComplexLong,
    Packed,
    /// A value and an index, for `MPI_MINLOC` and `MPI_MAXLOC`.
    Pair(PairValue),
}

/// The value of a pair. The index is an `int`; in pairs of Fortran it has the type of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairValue {
    Float,
    Double,
    Long,
    Int,
    Short,
    LongDouble,
    /// Of Fortran: both are a `float`.
    Real,
    /// Of Fortran: both are a `double`.
    DoublePrecision,
}

impl Number {
    /// Bytes of the number's data.
    pub(crate) fn bytes(self) -> usize {
        self.layout().size()
    }

    pub(crate) fn layout(self) -> Layout {
        let (size, align) = match self {
            Number::Signed(bytes) | Number::Unsigned(bytes) => (bytes, bytes),
            Number::Float32 => (4, 4),
            Number::Float64 => (8, 8),
            Number::LongDouble => (LONG_DOUBLE_BYTES, LONG_DOUBLE_BYTES),
            Number::Bool | Number::Byte | Number::Packed => (1, 1),
            Number::Complex32 => (8, 4),
            Number::Complex64 => (16, 8),
            Number::ComplexLong => (2 * LONG_DOUBLE_BYTES, LONG_DOUBLE_BYTES),
            Number::Pair(value) => return value.layout(),
        };
        Layout::number(size, align)
    }
}

impl PairValue {
    /// Bytes of the value; C aligns it to them.
    pub(crate) fn bytes(self) -> usize {
        match self {
            PairValue::Short => 2,
            PairValue::Float | PairValue::Real => 4,
            PairValue::Int => INT_BYTES,
            PairValue::Double | PairValue::DoublePrecision => 8,
            PairValue::Long => LONG_BYTES,
            PairValue::LongDouble => LONG_DOUBLE_BYTES,
        }
    }

    /// Bytes of the index; C aligns it to them.
    fn index_bytes(self) -> usize {
        match self {
            PairValue::Real => 4,
            PairValue::DoublePrecision => 8,
            PairValue::Float
            | PairValue::Double
            | PairValue::Long
            | PairValue::Int
            | PairValue::Short
            | PairValue::LongDouble => INT_BYTES,
        }
    }

    /// Offset of the index in the structure of C.
    pub(crate) fn index_offset(self) -> usize {
        self.bytes().next_multiple_of(self.index_bytes())
    }

    fn layout(self) -> Layout {
        let value = Layout::number(self.bytes(), self.bytes());
        let index = Layout::number(self.index_bytes(), self.index_bytes());
        let part = |offset: usize, layout| Part { offset: offset as isize, count: 1, layout };
        Layout::structure(vec![part(0, value.clone()), part(self.index_offset(), index)])
            // The structures are known and consist of two numbers, so they fit memory.
            .unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_lie_as_in_c() {
        #[repr(C)]
        struct DoubleInt(f64, c_int);
        #[repr(C)]
        struct ShortInt(i16, c_int);
        let extent = |value: PairValue| value.layout().extent() as usize;
        assert_eq!(extent(PairValue::Double), size_of::<DoubleInt>());
        assert_eq!(PairValue::Double.index_offset(), std::mem::offset_of!(DoubleInt, 1));
        assert_eq!(extent(PairValue::Short), size_of::<ShortInt>());
        assert_eq!(PairValue::Short.index_offset(), std::mem::offset_of!(ShortInt, 1));
        assert!(PairValue::Int.layout().is_dense() && !PairValue::Double.layout().is_dense());
        assert_eq!(extent(PairValue::Real), size_of::<[f32; 2]>());
        assert_eq!(extent(PairValue::DoublePrecision), size_of::<[f64; 2]>());
        assert!(PairValue::DoublePrecision.layout().is_dense());
    }
}
