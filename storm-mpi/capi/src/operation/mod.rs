//! Operations of reductions (MPI-4.1, section 6.9): the predefined ones, and those of programs.
//!
//! The order in which elements are combined depends only on the number of members. The bits of a
//! result therefore do too, for floats as for operations that do not commute.

#[cfg(target_arch = "x86_64")]
mod long_double;
mod numbers;

use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::session::Session;
use crate::table::{Handle, OP, TYPE, Table};
use crate::types::{Number, Type};
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use storm_mpi::collective::{self, Combine, Reduction, Span};
use storm_mpi::{CommError, ReduceOp};

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

/// An operation.
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

    /// The change with this code.
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
            Change::Combine(op) => numbers::apply(op, number, &mut [], &mut []),
        }
    }

    /// Applies the change with `data` to `there`, element by element. Both are packed and of the
    /// same length.
    pub(crate) fn apply(self, number: Number, data: &[u8], there: &mut Span) {
        match self {
            Change::Nothing => {}
            Change::Replace => there.as_mut().copy_from_slice(data),
            Change::Combine(op) => {
                numbers::apply(op, number, Span::of(data).as_mut(), there.as_mut());
            }
        }
    }
}

impl Operation {
    /// A table of the predefined operations.
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

/// An operation on elements of one type, for a reduction of `count` of them.
pub(crate) struct Reducer {
    session: &'static Session,
    operation: Rc<Operation>,
    datatype: Rc<Type>,
    handle: Handle,
    count: c_int,
}

impl Reducer {
    /// Checks that the operation is defined for the type.
    pub(crate) fn new(
        session: &'static Session,
        operation: Handle,
        handle: Handle,
        count: c_int,
    ) -> Outcome<Self> {
        let (operation, datatype) = (session.operation(operation)?, session.datatype(handle)?);
        if let Operation::Known(op, name) = *operation {
            let known = datatype.number.is_some_and(|n| numbers::apply(op, n, &mut [], &mut []));
            if !known {
                let text = format!("{name} is not defined for {}", datatype.to_text());
                return Err(Fault::new(Class::Op, text));
            }
        }
        if let Operation::OneSided(_, name) = *operation {
            return Err(Fault::new(Class::Op, format!("{name} is for one-sided communication")));
        }
        Ok(Reducer { session, operation, datatype, handle, count })
    }

    pub(crate) fn datatype(&self) -> &Type {
        &self.datatype
    }

    /// Number of elements in these bytes: all elements of a reduction, or a part.
    fn count_of(&self, bytes: usize) -> c_int {
        let all = self.count.unsigned_abs() as usize;
        match self.datatype.layout.size() {
            0 => self.count,
            size => all.min(bytes / size) as c_int,
        }
    }

    /// Calls the program's function on `count` elements in their memory layout.
    fn call(&mut self, function: UserFunction, left: *mut u8, right: *mut u8, count: c_int) {
        let own = self.session.datatype(self.handle);
        // In the background the program may have freed the handle, which may be another type's by
        // now.
        let is_own = own.is_ok_and(|own| Rc::ptr_eq(&own, &self.datatype));
        let lent = (!is_own).then(|| self.session.types.borrow_mut().add(self.datatype.clone()));
        // If the table of types is full, the function gets no type.
        let lent = lent.map(|lent| lent.unwrap_or(TYPE.null()));
        let (mut count, mut handle) = (count, lent.unwrap_or(self.handle));
        // SAFETY: the program passed a function of this type. Both point to `count` elements of the
        // type, aligned for any type, that nobody else uses.
        unsafe { function(left.cast(), right.cast(), &mut count, &mut handle) };
        if let Some(lent) = lent {
            let mut types = self.session.types.borrow_mut();
            // The function may have freed the handle itself, and made another type that has it now.
            if types.get(lent).is_ok_and(|own| Rc::ptr_eq(own, &self.datatype)) {
                let _ = types.free(lent);
            }
        }
    }

    /// Like [`Reducer::call`] with packed elements, for types with gaps.
    fn call_unpacked(
        &mut self,
        function: UserFunction,
        left: &[u8],
        right: &mut [u8],
    ) -> Result<(), CommError> {
        let layout = &self.datatype.layout;
        let count = self.count_of(right.len()).unsigned_abs() as usize;
        let too_large = CommError::LengthMismatch { left: left.len(), right: right.len() };
        let (start, end) = layout.bounds(count).ok_or(too_large)?;
        // Elements keep their alignment: the memory begins a multiple of 16 bytes before them.
        let before = (start.min(0).unsigned_abs()).next_multiple_of(16);
        let bytes = before + end.max(0).unsigned_abs();
        let mut spans = [Span::zeroed(bytes), Span::zeroed(bytes)];
        let [l, r] = spans.each_mut().map(|span| span.as_mut().as_mut_ptr().wrapping_add(before));
        let elements =
            |start| Elements { start, count, layout: layout.clone(), bytes: layout.size() * count };
        let (in_left, in_right) = (elements(l), elements(r));
        in_left.unpack(left);
        in_right.unpack(right);
        self.call(function, l, r, count as c_int);
        right.copy_from_slice(&in_right.packed());
        Ok(())
    }
}

impl Combine for Reducer {
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
        match *self.operation {
            Operation::Known(op, _) => {
                if let Some(number) = self.datatype.number {
                    numbers::apply(op, number, left, right);
                }
                Ok(())
            }
            Operation::User { function, .. } if self.datatype.layout.is_dense() => {
                let count = self.count_of(right.len());
                self.call(function, left.as_mut_ptr(), right.as_mut_ptr(), count);
                Ok(())
            }
            Operation::User { function, .. } => self.call_unpacked(function, left, right),
            // Such an operation was refused when the reducer was made.
            Operation::OneSided(..) => Ok(()),
        }
    }

    fn element_bytes(&self) -> usize {
        self.datatype.layout.size()
    }

    fn known(&self) -> Option<Reduction> {
        let op = match *self.operation {
            Operation::Known(Predefined::Sum, _) => ReduceOp::Sum,
            Operation::Known(Predefined::Min, _) => ReduceOp::Min,
            Operation::Known(Predefined::Max, _) => ReduceOp::Max,
            Operation::Known(..) | Operation::User { .. } | Operation::OneSided(..) => return None,
        };
        let number = match self.datatype.number? {
            Number::Signed(1) => collective::Number::I8,
            Number::Signed(2) => collective::Number::I16,
            Number::Signed(4) => collective::Number::I32,
            Number::Signed(8) => collective::Number::I64,
            Number::Unsigned(1) => collective::Number::U8,
            Number::Unsigned(2) => collective::Number::U16,
            Number::Unsigned(4) => collective::Number::U32,
            Number::Unsigned(8) => collective::Number::U64,
            Number::Float32 => collective::Number::F32,
            Number::Float64 => collective::Number::F64,
            Number::Signed(_)
            | Number::Unsigned(_)
            | Number::LongDouble
            | Number::Bool
            | Number::Byte
            | Number::Complex32
            | Number::Complex64
            | Number::ComplexLong
            | Number::Packed
            | Number::Pair(_) => return None,
        };
        Some(Reduction { op, number })
    }
}
