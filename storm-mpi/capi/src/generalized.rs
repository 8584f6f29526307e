//! Generalized requests (MPI-4.1, section 13.2): the program does the work, and reports its end.
//!
//! To the rest of the library, the request is background work that ends when the program reports
//! its end. This module then calls the program's functions, and decides when the work may be
//! forgotten.

use crate::abi::{SUCCESS, Status};
use crate::fault::{Class, Fault, Outcome};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// Returns the status of the work.
pub(crate) type QueryFunction = unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int;
/// Frees the work.
pub(crate) type FreeFunction = unsafe extern "C" fn(*mut c_void) -> c_int;
/// Tells the program that the work is no longer wanted, and whether it is over.
pub(crate) type CancelFunction = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The program's part of a request.
pub(crate) struct Generalized {
    pub(crate) query: QueryFunction,
    pub(crate) free: FreeFunction,
    pub(crate) cancel: CancelFunction,
    pub(crate) extra_state: *mut c_void,
    /// The program has reported the end of the work.
    pub(crate) is_complete: Cell<bool>,
    /// The program has freed the request before the end of the work.
    pub(crate) is_given_up: Cell<bool>,
}

impl Generalized {
    pub(crate) fn new(
        (query, free, cancel): (QueryFunction, FreeFunction, CancelFunction),
        extra_state: *mut c_void,
    ) -> Rc<Generalized> {
        let (is_complete, is_given_up) = (Cell::new(false), Cell::new(false));
        Rc::new(Generalized { query, free, cancel, extra_state, is_complete, is_given_up })
    }

    /// Asks the program for the status of the work.
    pub(crate) fn ask(&self) -> Outcome<Status> {
        let mut status = Status::EMPTY;
        // SAFETY: the program's function of this type; it may change the one status.
        let code = unsafe { (self.query)(self.extra_state, &mut status) };
        checked(code, "query").map_err(|fault| fault.of_message(status))?;
        Ok(status)
    }

    /// Asks for the status for the last time, and frees the work.
    pub(crate) fn ask_and_free(&self) -> Outcome<Status> {
        let told = self.ask();
        let freed = self.free();
        let status = told?;
        freed.map(|()| status).map_err(|fault| fault.of_message(status))
    }

    pub(crate) fn free(&self) -> Outcome {
        // SAFETY: the program's function of this type, which is called once.
        checked(unsafe { (self.free)(self.extra_state) }, "free")
    }

    pub(crate) fn cancel(&self) -> Outcome {
        let is_complete = c_int::from(self.is_complete.get());
        // SAFETY: the program's function of this type.
        checked(unsafe { (self.cancel)(self.extra_state, is_complete) }, "cancel")
    }

    /// Records that the program frees the request. Returns true if the request is freed at once;
    /// otherwise it stays until the work is over.
    pub(crate) fn give_up(&self) -> bool {
        self.is_given_up.set(true);
        self.is_complete.get()
    }
}

fn checked(code: c_int, which: &str) -> Outcome {
    match code {
        SUCCESS => Ok(()),
        code => {
            let text = format!("the {which} function of a generalized request failed");
            Err(Fault::of_code(code, Class::Other, text))
        }
    }
}
