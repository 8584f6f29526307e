//! Error handlers.

use super::tables::two_names;
use crate::abi::Out;
use crate::call::{call, on, raise};
use crate::fault::{Class, Fault, Outcome};
use crate::session::{ErrorFunction, ErrorHandler};
use crate::table::{ERRHANDLER, Handle};
use std::ffi::c_int;

pub(super) fn create(
    name: &str,
    function: Option<ErrorFunction>,
    errhandler: Out<Handle>,
) -> c_int {
    call(name, |session| {
        let function = function.ok_or_else(|| Fault::new(Class::Arg, "null function"))?;
        let added = session.error_handlers.borrow_mut().add(ErrorHandler::Call(function))?;
        errhandler.set(added)
    })
}

fn set(name: &str, comm: Handle, errhandler: Handle) -> c_int {
    on(comm, name, |session, comm| {
        session.error_handlers.borrow().get(errhandler)?;
        comm.errhandler.set(errhandler);
        Ok(())
    })
}

fn get(name: &str, comm: Handle, errhandler: Out<Handle>) -> c_int {
    on(comm, name, |_, comm| errhandler.set(comm.errhandler.get()))
}

two_names! {
    fn MPI_Comm_create_errhandler, MPI_Errhandler_create(
        function: Option<ErrorFunction>, errhandler: Out<Handle>,
    ) |name| {
        create(name, function, errhandler)
    }

    fn MPI_Comm_set_errhandler, MPI_Errhandler_set(comm: Handle, errhandler: Handle) |name| {
        set(name, comm, errhandler)
    }

    fn MPI_Comm_get_errhandler, MPI_Errhandler_get(comm: Handle, errhandler: Out<Handle>) |name| {
        get(name, comm, errhandler)
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_call_errhandler(comm: Handle, errorcode: c_int) -> c_int {
    on(comm, "MPI_Comm_call_errhandler", |session, comm| {
        raise(session, comm, "MPI_Comm_call_errhandler", errorcode);
        Ok(())
    })
}

/// The program's handle becomes null. The handler stays, because communicators may still have it.
#[unsafe(no_mangle)]
extern "C" fn MPI_Errhandler_free(errhandler: Out<Handle>) -> c_int {
    call("MPI_Errhandler_free", |session| {
        let known = |handle| -> Outcome { session.error_handlers.borrow().get(handle).map(|_| ()) };
        known(errhandler.get()?)?;
        errhandler.set(ERRHANDLER.null())
    })
}
