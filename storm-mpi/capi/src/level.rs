//! The threads of the program that may call the library.
//!
//! Up to `MPI_THREAD_FUNNELED` the session is a variable of the thread that called `MPI_Init`.
//! Other threads find none, and nothing is locked. From `MPI_THREAD_SERIALIZED` on the session is
//! the process's, and each call comes in through a lock. With `MPI_THREAD_MULTIPLE` the lock is
//! given up when a call waits; on the lower levels nobody else may call meanwhile.

use crate::session::{Phase, Session, die};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use storm_mpi::{InitError, Inside, Process, Threads};

/// The rights of threads: the levels of `mpi.h`, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    Single,
    Funneled,
    Serialized,
    Multiple,
}

thread_local! {
    // The session is never dropped, because functions that run at the process's exit may still call
    // in.
    static SESSION: Cell<Option<&'static Session>> = const { Cell::new(None) };
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

/// The level of the process, once it has joined.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Funneled as u8);

/// State that threads share when several may call.
static SHARED: OnceLock<Shared> = OnceLock::new();

struct Shared {
    session: &'static Session,
    threads: Arc<Threads>,
}

// SAFETY: only `entered` gives out the session, to a thread that is inside of `threads`, for as
// long as it is inside. Threads are inside one at a time, and each sees the effects of those before
// it. A thread is outside while it waits in `storm_mpi`, where it uses nothing of the session. If
// it held a borrow there, the next thread that borrows would panic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Another thread is inside, and does not leave.
pub(crate) struct TakesTooLong;

/// A thread in a call.
pub(crate) struct Entered {
    pub(crate) session: &'static Session,
    _inside: Option<Inside<'static>>,
}

impl Level {
    /// The level of the process.
    pub(crate) fn now() -> Level {
        let level = LEVEL.load(Ordering::Acquire);
        Level::ALL.into_iter().find(|&known| known as u8 == level).unwrap_or(Level::Single)
    }

    const ALL: [Level; 4] = [Level::Single, Level::Funneled, Level::Serialized, Level::Multiple];

    /// The level for a program that asks for `required`: that level. An invalid number gives the
    /// level of a program that does not ask.
    pub(crate) fn for_required(required: c_int) -> Level {
        let asked = |level: &Level| c_int::from(*level as u8) == required;
        Level::ALL.into_iter().find(asked).unwrap_or(Level::Funneled)
    }

    /// Joins the job for threads of this level. The session must be made of the process, and then
    /// [shared](share).
    pub(crate) fn join(self) -> Result<(Process, Option<Arc<Threads>>), InitError> {
        if self < Level::Serialized {
            return Ok((Process::join()?, None));
        }
        let what = "making what threads wake each other by";
        let threads = Threads::new().map_err(|source| InitError::Os { what, source })?;
        let threads = Arc::new(threads);
        let process = match self {
            Level::Multiple => Process::join_with(&threads)?,
            Level::Single | Level::Funneled | Level::Serialized => Process::join()?,
        };
        Ok((process, Some(threads)))
    }
}

/// Makes the session available to threads. This thread is the main thread.
pub(crate) fn share(session: &'static Session, level: Level, threads: Option<Arc<Threads>>) {
    LEVEL.store(level as u8, Ordering::Release);
    IS_MAIN.set(true);
    match threads {
        None => SESSION.set(Some(session)),
        // A process joins only once.
        Some(threads) => drop(SHARED.set(Shared { session, threads })),
    }
}

/// Ends the session.
pub(crate) fn end() {
    SESSION.set(None);
}

/// Whether this is the thread that called `MPI_Init`.
pub(crate) fn is_main() -> bool {
    IS_MAIN.get()
}

/// The session for a call of this thread; `None` if the thread may not call, or no longer.
#[inline]
pub(crate) fn entered() -> Option<Entered> {
    match SESSION.get() {
        Some(session) => Some(Entered { session, _inside: None }),
        None => entered_shared(),
    }
}

#[inline(never)]
fn entered_shared() -> Option<Entered> {
    let Shared { session, threads } = SHARED.get()?;
    let inside = threads.enter();
    // The session may have ended while this thread waited.
    (Phase::now() == Phase::Inside).then_some(Entered { session, _inside: Some(inside) })
}

/// The session for the end of the process. `Err` means that another thread does not leave it within
/// `longest`; it is then out of reach for good. `Ok(None)` means that this thread may not call, or
/// no longer.
pub(crate) fn entered_to_end(longest: Duration) -> Result<Option<Entered>, TakesTooLong> {
    if let Some(session) = SESSION.get() {
        return Ok(Some(Entered { session, _inside: None }));
    }
    let Some(Shared { session, threads }) = SHARED.get() else { return Ok(None) };
    let inside = threads.enter_within(longest).ok_or(TakesTooLong)?;
    let entered = Entered { session, _inside: Some(inside) };
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
