//! Datatypes: the predefined ones, in the order of `mpi.h`, and those of programs.

use crate::fault::{Class, Fault, Outcome};
use crate::recipe::Recipe;
use crate::table::{Handle, TYPE, Table};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_long};
use std::rc::Rc;
use storm_mpi::layout::{Layout, Part};

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
    /// A complex number of long doubles, which travels but has no operations.
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

/// A datatype. The handle and the communication that uses it share ownership.
pub(crate) struct Type {
    pub(crate) layout: Layout,
    pub(crate) committed: Cell<bool>,
    pub(crate) name: RefCell<String>,
    /// `None` for types of programs, and for markers.
    pub(crate) number: Option<Number>,
    /// Its own handle, for functions of attributes.
    pub(crate) handle: Cell<Handle>,
    /// Attributes of the program: key, and the address it stored.
    pub(crate) attributes: RefCell<Vec<(Handle, usize)>>,
    /// The program's construction of the type; `None` for the predefined ones.
    pub(crate) recipe: Option<Rc<Recipe>>,
}

impl Type {
    /// A type made of others. `None` stands for a layout larger than memory.
    pub(crate) fn made(layout: Option<Layout>, recipe: Recipe) -> Outcome<Type> {
        let too_large = || Fault::new(Class::Arg, "datatype larger than memory can be");
        Ok(Type {
            layout: layout.ok_or_else(too_large)?,
            committed: Cell::new(false),
            name: RefCell::default(),
            number: None,
            handle: Cell::new(TYPE.null()),
            attributes: RefCell::default(),
            recipe: Some(Rc::new(recipe)),
        })
    }

    /// Another type with the same properties, without the name and attributes.
    pub(crate) fn another(&self) -> Type {
        Type {
            layout: self.layout.clone(),
            committed: self.committed.clone(),
            name: RefCell::default(),
            number: self.number,
            handle: Cell::new(TYPE.null()),
            attributes: RefCell::default(),
            recipe: self.recipe.clone(),
        }
    }

    /// The type's name, or a description.
    pub(crate) fn to_text(&self) -> String {
        let name = self.name.borrow();
        if name.is_empty() { "a derived datatype".to_owned() } else { name.clone() }
    }
}

const INT_BYTES: usize = size_of::<c_int>();
const LONG_BYTES: usize = size_of::<c_long>();
/// `sizeof(long double)` on x86-64, and its alignment. On aarch64 it is the same.
pub(crate) const LONG_DOUBLE_BYTES: usize = 16;

/// The predefined types, from place 1 on.
const PREDEFINED: [(&str, Number); 60] = [
    ("MPI_CHAR", Number::Signed(1)),
    ("MPI_SIGNED_CHAR", Number::Signed(1)),
    ("MPI_UNSIGNED_CHAR", Number::Unsigned(1)),
    ("MPI_BYTE", Number::Byte),
    ("MPI_WCHAR", Number::Signed(4)),
    ("MPI_SHORT", Number::Signed(2)),
    ("MPI_UNSIGNED_SHORT", Number::Unsigned(2)),
    ("MPI_INT", Number::Signed(INT_BYTES)),
    ("MPI_UNSIGNED", Number::Unsigned(INT_BYTES)),
    ("MPI_LONG", Number::Signed(LONG_BYTES)),
    ("MPI_UNSIGNED_LONG", Number::Unsigned(LONG_BYTES)),
    ("MPI_LONG_LONG", Number::Signed(8)),
    ("MPI_UNSIGNED_LONG_LONG", Number::Unsigned(8)),
    ("MPI_FLOAT", Number::Float32),
    ("MPI_DOUBLE", Number::Float64),
    ("MPI_LONG_DOUBLE", Number::LongDouble),
    ("MPI_C_BOOL", Number::Bool),
    ("MPI_INT8_T", Number::Signed(1)),
    ("MPI_UINT8_T", Number::Unsigned(1)),
    ("MPI_INT16_T", Number::Signed(2)),
    ("MPI_UINT16_T", Number::Unsigned(2)),
    ("MPI_INT32_T", Number::Signed(4)),
    ("MPI_UINT32_T", Number::Unsigned(4)),
    ("MPI_INT64_T", Number::Signed(8)),
    ("MPI_UINT64_T", Number::Unsigned(8)),
    ("MPI_AINT", Number::Signed(size_of::<isize>())),
    ("MPI_OFFSET", Number::Signed(8)),
    ("MPI_COUNT", Number::Signed(8)),
    ("MPI_C_FLOAT_COMPLEX", Number::Complex32),
    ("MPI_C_DOUBLE_COMPLEX", Number::Complex64),
    ("MPI_C_LONG_DOUBLE_COMPLEX", Number::ComplexLong),
    ("MPI_CXX_BOOL", Number::Bool),
    ("MPI_CXX_FLOAT_COMPLEX", Number::Complex32),
    ("MPI_CXX_DOUBLE_COMPLEX", Number::Complex64),
    ("MPI_CXX_LONG_DOUBLE_COMPLEX", Number::ComplexLong),
    ("MPI_PACKED", Number::Packed),
    ("MPI_FLOAT_INT", Number::Pair(PairValue::Float)),
    ("MPI_DOUBLE_INT", Number::Pair(PairValue::Double)),
    ("MPI_LONG_INT", Number::Pair(PairValue::Long)),
    ("MPI_2INT", Number::Pair(PairValue::Int)),
    ("MPI_SHORT_INT", Number::Pair(PairValue::Short)),
    ("MPI_LONG_DOUBLE_INT", Number::Pair(PairValue::LongDouble)),
    // Types of Fortran.
    ("MPI_CHARACTER", Number::Signed(1)),
    ("MPI_LOGICAL", Number::Signed(4)),
    ("MPI_INTEGER", Number::Signed(4)),
    ("MPI_REAL", Number::Float32),
    ("MPI_DOUBLE_PRECISION", Number::Float64),
    ("MPI_COMPLEX", Number::Complex32),
    ("MPI_DOUBLE_COMPLEX", Number::Complex64),
    ("MPI_INTEGER1", Number::Signed(1)),
    ("MPI_INTEGER2", Number::Signed(2)),
    ("MPI_INTEGER4", Number::Signed(4)),
    ("MPI_INTEGER8", Number::Signed(8)),
    ("MPI_REAL4", Number::Float32),
    ("MPI_REAL8", Number::Float64),
    ("MPI_COMPLEX8", Number::Complex32),
    ("MPI_COMPLEX16", Number::Complex64),
    ("MPI_2INTEGER", Number::Pair(PairValue::Int)),
    ("MPI_2REAL", Number::Pair(PairValue::Real)),
    ("MPI_2DOUBLE_PRECISION", Number::Pair(PairValue::DoublePrecision)),
];

/// A predefined type without numbers, and the function that makes its layout.
type Marker = (&'static str, fn() -> Layout);

/// Markers of MPI-1, which follow the other types.
const MARKERS: [Marker; 2] = [("MPI_LB", Layout::lower_marker), ("MPI_UB", Layout::upper_marker)];

/// A table of the predefined types.
pub(crate) fn predefined() -> Table<Rc<Type>> {
    let make = |(place, (name, layout, number)): (usize, (&str, Layout, Option<Number>))| {
        Rc::new(Type {
            layout,
            committed: Cell::new(true),
            name: RefCell::new(name.to_owned()),
            number,
            handle: Cell::new(TYPE.handle(place + 1)),
            attributes: RefCell::default(),
            recipe: None,
        })
    };
    let numbers = PREDEFINED
        .into_iter()
        .enumerate()
        .map(|(kind, (name, number))| (name, number.layout().of_kind(kind as u8), Some(number)));
    let markers = MARKERS.into_iter().map(|(name, layout)| (name, layout(), None));
    Table::new(TYPE, numbers.chain(markers).enumerate().map(make))
}

/// Whether a handle names a predefined type.
pub(crate) fn is_predefined(handle: Handle) -> bool {
    let last = PREDEFINED.len() + MARKERS.len();
    (TYPE.handle(1)..=TYPE.handle(last)).contains(&handle)
}

/// The predefined type of this name.
pub(crate) fn named(name: &str) -> Option<Handle> {
    PREDEFINED.iter().position(|(own, _)| *own == name).map(|place| TYPE.handle(place + 1))
}

/// The numbers of a layout of this [kind](Layout::kind).
pub(crate) fn number_of_kind(kind: u8) -> Option<Number> {
    PREDEFINED.get(usize::from(kind)).map(|&(_, number)| number)
}

impl Number {
    /// Bytes of the number's data.
    pub(crate) fn bytes(self) -> usize {
        self.layout().size()
    }

    fn layout(self) -> Layout {
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

    /// The places of the types in `mpi.h` are the table's.
    #[test]
    fn the_header_names_types_by_their_places() {
        let header = include_str!("../include/mpi.h");
        let names = PREDEFINED.iter().map(|(name, _)| name);
        for (index, name) in names.chain(MARKERS.iter().map(|(name, _)| name)).enumerate() {
            let line = format!("#define {name} ((MPI_Datatype){:#010x})", TYPE.handle(index + 1));
            assert!(header.contains(&line), "{line}");
        }
    }

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
