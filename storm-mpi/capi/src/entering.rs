//! The threads of the program that may call the library.
//!
//! Up to `MPI_THREAD_FUNNELED`, the library is a variable of the thread that called `MPI_Init`.
//! Other threads find none, and nothing is locked. From `MPI_THREAD_SERIALIZED` on, the library
//! belongs to the process, and each call enters it through a lock. With `MPI_THREAD_MULTIPLE`, the
//! lock is released while a call waits. On the lower levels, no other thread may call meanwhile.

use crate::level::Level;
use crate::library::Library;
use crate::phase::Phase;
use crate::session::die;
use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use storm_mpi::{Inside, Threads};

thread_local! {
    // The session is never dropped, because functions that run at the process's exit may still call
    // in.
    static LIBRARY: Cell<Option<&'static Library>> = const { Cell::new(None) };
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

/// State that threads share when several may call.
static SHARED: OnceLock<Shared> = OnceLock::new();

struct Shared {
    library: &'static Library,
    threads: Arc<Threads>,
}

// SAFETY: only `entered` returns the session, to a thread that is inside `threads`, for as long as
// it is inside. Threads are inside one at a time, and each sees the effects of those before it. A
// thread is outside while it waits in `storm_mpi`, where it uses nothing of the session. If it held
// a borrow there, the next thread that borrows would panic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Another thread is inside, and does not leave.
pub(crate) struct TakesTooLong;

/// A thread in a call.
pub(crate) struct Entered {
    pub(crate) library: &'static Library,
    _inside: Option<Inside<'static>>,
}

/// Makes the session available to threads. This thread is the main thread.
pub(crate) fn share(library: &'static Library, level: Level, threads: Option<Arc<Threads>>) {
    level.set();
    IS_MAIN.set(true);
    match threads {
        None => LIBRARY.set(Some(library)),
        // A process joins only once.
        Some(threads) => drop(SHARED.set(Shared { library, threads })),
    }
}

/// Ends the session.
pub(crate) fn end() {
    LIBRARY.set(None);
}

/// Whether this is the thread that called `MPI_Init`.
pub(crate) fn is_main() -> bool {
    IS_MAIN.get()
}

/// The session for a call of this thread; `None` if the thread is not, or no longer, allowed to
/// call.
#[inline]
pub(crate) fn entered() -> Option<Entered> {
    match LIBRARY.get() {
        Some(library) => Some(Entered { library, _inside: None }),
        None => entered_shared(),
    }
}

#[inline(never)]
fn entered_shared() -> Option<Entered> {
    let Shared { library, threads } = SHARED.get()?;
    let inside = threads.enter();
    // The session may have ended while this thread waited.
    (Phase::now() == Phase::Inside).then_some(Entered { library, _inside: Some(inside) })
}

/// The session for the end of the process. `Err` means that another thread does not leave it within
/// `longest`; the session is then out of reach for good. `Ok(None)` means that this thread is not,
/// or no longer, allowed to call.
pub(crate) fn entered_to_end(longest: Duration) -> Result<Option<Entered>, TakesTooLong> {
    if let Some(library) = LIBRARY.get() {
        return Ok(Some(Entered { library, _inside: None }));
    }
    let Some(Shared { library, threads }) = SHARED.get() else { return Ok(None) };
    let inside = threads.enter_within(longest).ok_or(TakesTooLong)?;
    let entered = Entered { library, _inside: Some(inside) };
    Ok((Phase::now() == Phase::Inside).then_some(entered))
}

/// The session of a call, which must come between `MPI_Init` and `MPI_Finalize`.
#[inline]
pub(crate) fn enter(name: &str) -> Entered {
    entered().unwrap_or_else(|| refuse(name))
}

#[cold]
fn refuse(name: &str) -> ! {
    match Phase::now() {
        Phase::Before => die(name, "called before MPI_Init"),
        Phase::After => die(name, "called after MPI_Finalize"),
        Phase::Inside => {
            die(name, "called from another thread than MPI_Init (MPI_THREAD_FUNNELED)")
        }
    }
}
