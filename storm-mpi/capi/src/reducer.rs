//! An operation applied to the elements of a reduction.

use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::number::Number;
use crate::operation::{Operation, Predefined, UserFunction};
use crate::session::Session;
use crate::table::{Handle, TYPE};
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::collective::{self, Combine, Reduction, Span};
use storm_mpi::{CommError, ReduceOp};

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
            let known = datatype.number.is_some_and(|number| op.is_defined_for(number));
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
        // In the background, the program may have freed the handle, and the handle may be another
        // type's by now.
        let is_own = own.is_ok_and(|own| Rc::ptr_eq(&own, &self.datatype));
        let lent = (!is_own).then(|| self.session.types.borrow_mut().add(self.datatype.clone()));
        // If the table of types is full, the function gets no type.
        let lent = lent.map(|lent| lent.unwrap_or(TYPE.null()));
        let (mut count, mut handle) = (count, lent.unwrap_or(self.handle));
        // SAFETY: the program passed a function of this type. Both point to `count` elements of the
        // type, aligned for any type, that no other code uses.
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
                    op.apply(number, left, right);
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
