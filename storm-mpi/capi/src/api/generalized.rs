//! Requests for work that the program itself carries out.

use crate::abi::{Out, null};
use crate::generalized::{CancelFunction, FreeFunction, Generalized, QueryFunction};
use crate::session::call;
use crate::table::Handle;
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
extern "C" fn MPI_Grequest_start(
    query_fn: Option<QueryFunction>,
    free_fn: Option<FreeFunction>,
    cancel_fn: Option<CancelFunction>,
    extra_state: *mut c_void,
    request: Out<Handle>,
) -> c_int {
    call("MPI_Grequest_start", |session| {
        let (Some(query), Some(free), Some(cancel)) = (query_fn, free_fn, cancel_fn) else {
            return Err(null());
        };
        let work = Generalized::new((query, free, cancel), extra_state);
        request.set(session.add_generalized(work)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Grequest_complete(request: Handle) -> c_int {
    call("MPI_Grequest_complete", |session| session.complete(request))
}
