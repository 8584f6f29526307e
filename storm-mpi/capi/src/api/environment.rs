//! Joining and leaving the job, and queries about it.

use crate::abi::{MAX_LIBRARY_VERSION, MAX_NAME, Out, SUCCESS, Text, TextOut};
use crate::call::{abort, call, call_library};
use crate::codes;
use crate::entering::{self, is_main, share};
use crate::fault::{Class, Fault, Outcome};
use crate::launcher;
use crate::level::Level;
use crate::library::Library;
use crate::phase::Phase;
use crate::session::die;
use crate::table::Handle;
use std::ffi::{c_char, c_int};
use std::sync::LazyLock;
use std::time::Instant;

/// The version of the standard that the names come from.
const VERSION: (c_int, c_int) = (3, 1);

/// The origin of `MPI_Wtime`.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Result of functions that may be called at any time and have no error handler.
fn anytime(outcome: Outcome) -> c_int {
    outcome.map_or_else(|fault| fault.class.code(), |()| SUCCESS)
}

/// Joins the job, for threads of this level. On failure there is no error handler yet.
fn begin(name: &str, level: Level) -> c_int {
    if Phase::now() != Phase::Before {
        die(name, "called a second time");
    }
    let (process, threads) = match level.join() {
        Ok(joined) => joined,
        Err(error) => die(name, &Fault::from(error).text),
    };
    launcher::warn_if_alone();
    share(Box::leak(Box::new(Library::new(process))), level, threads);
    Phase::Inside.begin();
    SUCCESS
}

/// Leaves the job when everything that was sent has been delivered.
fn end(library: &Library) -> Outcome {
    let session = &library.session;
    session.end_detached()?;
    session.delete_attributes(&session.own)?;
    session.delete_attributes(&session.world())?;
    library.leave_windows()?;
    session.process.progress(false)?;
    session.process.finish()?;
    Phase::After.begin();
    entering::end();
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Init(_argc: Out<c_int>, _argv: Out<*mut *mut c_char>) -> c_int {
    LazyLock::force(&BEGINNING);
    begin("MPI_Init", Level::Funneled)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Init_thread(
    _argc: Out<c_int>,
    _argv: Out<*mut *mut c_char>,
    required: c_int,
    provided: Out<c_int>,
) -> c_int {
    LazyLock::force(&BEGINNING);
    let level = Level::for_required(required);
    begin("MPI_Init_thread", level);
    call("MPI_Init_thread", |_| provided.set(level as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Initialized(flag: Out<c_int>) -> c_int {
    anytime(flag.set(c_int::from(Phase::now() != Phase::Before)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Finalize() -> c_int {
    call_library("MPI_Finalize", end)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Finalized(flag: Out<c_int>) -> c_int {
    anytime(flag.set(c_int::from(Phase::now() == Phase::After)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Query_thread(provided: Out<c_int>) -> c_int {
    match Phase::now() {
        // Any thread may call it, at any thread level.
        Phase::Inside => anytime(provided.set(Level::now() as c_int)),
        Phase::Before | Phase::After => call("MPI_Query_thread", |_| Ok(())),
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Is_thread_main(flag: Out<c_int>) -> c_int {
    anytime(flag.set(c_int::from(is_main())))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Abort(_comm: Handle, errorcode: c_int) -> c_int {
    abort(errorcode)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) -> c_int {
    anytime(version.set(VERSION.0).and_then(|()| subversion.set(VERSION.1)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Get_library_version(version: TextOut, resultlen: Out<c_int>) -> c_int {
    let text = concat!("storm-mpi ", env!("CARGO_PKG_VERSION"), ", a subset of MPI, direct mode");
    anytime(version.set(text, MAX_LIBRARY_VERSION, resultlen))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Get_processor_name(name: TextOut, resultlen: Out<c_int>) -> c_int {
    call("MPI_Get_processor_name", |_| name.set(&storm_mpi::processor_name(), MAX_NAME, resultlen))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Wtime() -> f64 {
    BEGINNING.elapsed().as_secs_f64()
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Wtick() -> f64 {
    1e-9
}

/// C passes more arguments than the one declared here, which its calling conventions allow.
#[unsafe(no_mangle)]
extern "C" fn MPI_Pcontrol(_level: c_int) -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) -> c_int {
    anytime(errorclass.set(codes::class_of(errorcode).unwrap_or(errorcode)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Add_error_class(errorclass: Out<c_int>) -> c_int {
    call("MPI_Add_error_class", |_| errorclass.set(codes::add_class()))
}

fn no_such(code: c_int) -> Fault {
    Fault::new(Class::Arg, format!("error code {code}, which the program has not added"))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) -> c_int {
    call("MPI_Add_error_code", |_| {
        errorcode.set(codes::add_code(errorclass).map_err(|_| no_such(errorclass))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Add_error_string(errorcode: c_int, string: Text) -> c_int {
    call("MPI_Add_error_string", |_| {
        codes::set_text(errorcode, string.get()?).map_err(|_| no_such(errorcode))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Error_string(errorcode: c_int, string: TextOut, resultlen: Out<c_int>) -> c_int {
    let text =
        codes::describe(errorcode).unwrap_or_else(|| format!("unknown error code {errorcode}"));
    anytime(string.set(&text, crate::abi::MAX_ERROR_STRING, resultlen))
}
