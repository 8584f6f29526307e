//! The frame of each call: the session that the thread may use, and the handling of an error.

use crate::abi::SUCCESS;
use crate::codes;
use crate::comm::Comm;
use crate::entering::{TakesTooLong, enter, entered, entered_to_end};
use crate::fault::{Class, Fault, Outcome};
use crate::file::OpenFile;
use crate::library::Library;
use crate::session::{Session, die, say};
use crate::table::Handle;
use crate::window::Window;
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

/// Time that `MPI_Abort` waits for a thread in a call: longer than any call that does not wait.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// A call without a communicator. Its errors go to the handler of `MPI_COMM_WORLD`.
pub(crate) fn call(name: &str, body: impl FnOnce(&'static Session) -> Outcome) -> c_int {
    call_library(name, |library| body(&library.session))
}

/// Like [`call`], for a call that needs windows or files.
pub(crate) fn call_library(name: &str, body: impl FnOnce(&'static Library) -> Outcome) -> c_int {
    let entered = enter(name);
    let library = entered.library;
    match body(library) {
        Ok(()) => SUCCESS,
        Err(fault) => library.session.answer(name, &fault, None),
    }
}

/// A call on a communicator by a short path that calls no function of the program. `None` means
/// that the short path refused, and nothing was done.
#[inline]
pub(crate) fn straight_on(
    comm: Handle,
    name: &str,
    body: impl FnOnce(&'static Session, &Comm) -> Outcome<bool>,
) -> Option<c_int> {
    let entered = entered()?;
    let session = &entered.library.session;
    let comms = session.comms.borrow();
    let comm = comms.get(comm).ok()?;
    match body(session, comm) {
        Ok(true) => Some(SUCCESS),
        Ok(false) => None,
        Err(fault) => {
            let comm = Rc::clone(comm);
            drop(comms);
            Some(session.answer(name, &fault, Some(&comm)))
        }
    }
}

/// A call on a communicator.
pub(crate) fn on(
    comm: Handle,
    name: &str,
    body: impl FnOnce(&'static Session, &Rc<Comm>) -> Outcome,
) -> c_int {
    on_library(comm, name, |library, comm| body(&library.session, comm))
}

/// Like [`on`], for a call that needs windows or files.
pub(crate) fn on_library(
    comm: Handle,
    name: &str,
    body: impl FnOnce(&'static Library, &Rc<Comm>) -> Outcome,
) -> c_int {
    let entered = enter(name);
    let library = entered.library;
    let session = &library.session;
    let comm = match session.comm(comm) {
        Ok(comm) => comm,
        Err(fault) => return session.answer(name, &fault, None),
    };
    match body(library, &comm) {
        Ok(()) => SUCCESS,
        Err(fault) => session.answer(name, &fault, Some(&comm)),
    }
}

/// A call on a window, which has an error handler of its own.
pub(crate) fn on_window(
    window: Handle,
    name: &str,
    body: impl FnOnce(&'static Session, &Rc<Window>) -> Outcome,
) -> c_int {
    let entered = enter(name);
    let library = entered.library;
    let session = &library.session;
    let found = library.windows.borrow().get(window).cloned();
    let window = match found {
        Ok(window) => window,
        Err(fault) => return session.answer(name, &fault, None),
    };
    match body(session, &window) {
        Ok(()) => SUCCESS,
        Err(fault) => session.answer(name, &fault, Some(&window.comm)),
    }
}

/// A call on a file. If the file is not open, errors go to the handler of files to be opened.
pub(crate) fn on_file(
    file: Handle,
    name: &str,
    body: impl FnOnce(&'static Session, &Rc<OpenFile>) -> Outcome,
) -> c_int {
    let entered = enter(name);
    let library = entered.library;
    let session = &library.session;
    let found = library.files.borrow().get(file).cloned();
    let file = match found {
        Ok(file) => file,
        Err(fault) => return session.answer(name, &fault, Some(&session.no_file)),
    };
    match body(session, &file) {
        Ok(()) => SUCCESS,
        Err(fault) => session.answer(name, &fault, Some(&file.comm)),
    }
}

/// A call on a file that is not open yet.
pub(crate) fn on_no_file(name: &str, body: impl FnOnce(&'static Library) -> Outcome) -> c_int {
    let entered = enter(name);
    let library = entered.library;
    let session = &library.session;
    match body(library) {
        Ok(()) => SUCCESS,
        Err(fault) => session.answer(name, &fault, Some(&session.no_file)),
    }
}

/// Calls the error handler of a communicator with an error of the program.
pub(crate) fn raise(session: &Session, comm: &Rc<Comm>, name: &str, code: c_int) {
    let own = codes::text_of(code).filter(|text| !text.is_empty());
    let text = own.map_or_else(String::new, |own| format!(": {own}"));
    let fault = Fault::of_code(code, Class::Unknown, format!("raised by the program{text}"));
    session.answer(name, &fault, Some(comm));
}

/// Ends the job at the program's request.
pub(crate) fn abort(code: c_int) -> ! {
    let entered = match entered_to_end(ABORT_PATIENCE) {
        Ok(Some(entered)) => entered,
        Ok(None) => die("MPI_Abort", "called outside of the job"),
        // Another thread uses the engine, so only the exit code of this process ends the job.
        Err(TakesTooLong) => {
            say(&format!("MPI_Abort with error code {code} while another thread is in a call"));
            std::process::exit(code)
        }
    };
    let session = &entered.library.session;
    let rank = session.process.rank();
    say(&format!("rank {rank}: MPI_Abort with error code {code}"));
    session.process.abort(code)
}
