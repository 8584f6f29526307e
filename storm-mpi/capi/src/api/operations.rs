//! Operations of the program.

use crate::abi::Out;
use crate::call::call;
use crate::fault::{Class, Fault};
use crate::operation::{Operation, UserFunction};
use crate::table::{Handle, OP};
use std::ffi::c_int;
use std::rc::Rc;

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_create(
    function: Option<UserFunction>,
    commute: c_int,
    op: Out<Handle>,
) -> c_int {
    call("MPI_Op_create", |session| {
        let function = function.ok_or_else(|| Fault::new(Class::Arg, "null function"))?;
        let operation = Operation::User { function, commutes: commute != 0 };
        op.set(session.operations.borrow_mut().add(Rc::new(operation))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_free(op: Out<Handle>) -> c_int {
    call("MPI_Op_free", |session| {
        session.operations.borrow_mut().free(op.get()?)?;
        op.set(OP.null())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_commutative(op: Handle, commute: Out<c_int>) -> c_int {
    call("MPI_Op_commutative", |session| {
        commute.set(c_int::from(session.operation(op)?.commutes()))
    })
}
