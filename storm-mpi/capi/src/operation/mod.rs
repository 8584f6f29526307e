//! Operations of reductions (MPI-4.1, section 6.9): the predefined ones, and those of programs.
//!
//! The order in which elements are combined depends only on the number of members. So the bits of a
//! result depend only on it too, even for floats and for operations that do not commute.

#[cfg(target_arch = "x86_64")]
mod long_double;
mod numbers;

use crate::number::Number;
use crate::table::{Handle, OP, Table};
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use storm_mpi::collective::Span;

/// A predefined operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predefined {
    Max,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    MinLoc,
    MaxLoc,
}

/// The predefined operations, from place 1 on.
const PREDEFINED: [(Predefined, &str); 12] = [
    (Predefined::Max, "MPI_MAX"),
    (Predefined::Min, "MPI_MIN"),
    (Predefined::Sum, "MPI_SUM"),
    (Predefined::Prod, "MPI_PROD"),
    (Predefined::Land, "MPI_LAND"),
    (Predefined::Band, "MPI_BAND"),
    (Predefined::Lor, "MPI_LOR"),
    (Predefined::Bor, "MPI_BOR"),
    (Predefined::Lxor, "MPI_LXOR"),
    (Predefined::Bxor, "MPI_BXOR"),
    (Predefined::MinLoc, "MPI_MINLOC"),
    (Predefined::MaxLoc, "MPI_MAXLOC"),
];

/// An operation of a program: `inoutvec[i] = invec[i] op inoutvec[i]`.
pub(crate) type UserFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Handle);

pub(crate) enum Operation {
    Known(Predefined, &'static str),
    User {
        function: UserFunction,
        commutes: bool,
    },
    /// Only for one-sided communication: `MPI_REPLACE`, `MPI_NO_OP`.
    OneSided(Change, &'static str),
}

/// The effect of one-sided communication on elements of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Replace,
    Nothing,
    Combine(Predefined),
}

/// Operations that are only for one-sided communication, in the places after the others.
const ONE_SIDED: [(Change, &str); 2] =
    [(Change::Replace, "MPI_REPLACE"), (Change::Nothing, "MPI_NO_OP")];

impl Change {
    /// The change that an operation makes, if it may be used for one.
    pub(crate) fn of(operation: &Operation) -> Option<Change> {
        match *operation {
            Operation::Known(op, _) => Some(Change::Combine(op)),
            Operation::OneSided(change, _) => Some(change),
            Operation::User { .. } => None,
        }
    }

    /// A code for the change, the same in all processes.
    pub(crate) fn code(self) -> u8 {
        match self {
            Change::Replace => 0,
            Change::Nothing => 1,
            Change::Combine(op) => 2 + op as u8,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Change> {
        match code {
            0 => Some(Change::Replace),
            1 => Some(Change::Nothing),
            code => PREDEFINED.get(usize::from(code) - 2).map(|&(op, _)| Change::Combine(op)),
        }
    }

    pub(crate) fn is_defined_for(self, number: Number) -> bool {
        match self {
            Change::Replace | Change::Nothing => true,
            Change::Combine(op) => op.is_defined_for(number),
        }
    }

    /// Applies the change with `data` to `there`, element by element. Both are packed and of the
    /// same length.
    pub(crate) fn apply(self, number: Number, data: &[u8], there: &mut Span) {
        match self {
            Change::Nothing => {}
            Change::Replace => there.as_mut().copy_from_slice(data),
            Change::Combine(op) => {
                op.apply(number, Span::of(data).as_mut(), there.as_mut());
            }
        }
    }
}

impl Predefined {
    /// Whether the operation is defined for such numbers.
    pub(crate) fn is_defined_for(self, number: Number) -> bool {
        self.apply(number, &mut [], &mut [])
    }

    /// Combines packed elements of the same number into `right`. Returns false if the operation is
    /// not defined for such numbers.
    pub(crate) fn apply(self, number: Number, left: &mut [u8], right: &mut [u8]) -> bool {
        numbers::apply(self, number, left, right)
    }
}

impl Operation {
    pub(crate) fn predefined() -> Table<Rc<Operation>> {
        let known = PREDEFINED.map(|(op, name)| Operation::Known(op, name));
        let one_sided = ONE_SIDED.map(|(change, name)| Operation::OneSided(change, name));
        Table::new(OP, known.into_iter().chain(one_sided).map(Rc::new))
    }

    pub(crate) fn commutes(&self) -> bool {
        match self {
            Operation::Known(..) | Operation::OneSided(..) => true,
            Operation::User { commutes, .. } => *commutes,
        }
    }
}
