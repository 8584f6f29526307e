//! Requests for work that the program itself does.

use crate::abi::{Out, Status, null};
use crate::call::call;
use crate::fault::{Class, Fault, Outcome};
use crate::generalized::{CancelFunction, FreeFunction, Generalized, QueryFunction};
use crate::request::{Active, Request};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::{c_int, c_void};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

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

impl Session {
    /// Adds a request for work of the program.
    pub(crate) fn add_generalized(&self, work: Rc<Generalized>) -> Outcome<Handle> {
        let its = Rc::clone(&work);
        let completed = poll_fn(move |_| match its.is_complete.get() {
            true => Poll::Ready(Ok(Status::EMPTY)),
            false => Poll::Pending,
        });
        let active = Active::Background(self.process.in_background(completed));
        self.requests.borrow_mut().add(Request::of_program(self.world(), active, work))
    }

    /// Records that the work is over.
    pub(crate) fn complete(&self, handle: Handle) -> Outcome {
        let wrong = |text| Fault::new(Class::Request, text);
        let work = self.requests.borrow().get(handle)?.work();
        let work = work.ok_or_else(|| wrong("request that is not a generalized one"))?;
        if work.is_complete.replace(true) {
            return Err(wrong("request that is complete already"));
        }
        self.process.stir();
        if work.is_given_up.get() {
            self.requests.borrow_mut().free(handle)?;
            return work.free();
        }
        Ok(())
    }
}
