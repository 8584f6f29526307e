//! The predefined datatypes, in the order of `mpi.h`.

use crate::datatype::Type;
use crate::number::{INT_BYTES, LONG_BYTES, Number, PairValue};
use crate::table::{Handle, TYPE, Table};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use storm_mpi::layout::Layout;

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
}
