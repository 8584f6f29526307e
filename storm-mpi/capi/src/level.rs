//! The level of thread support: which threads of the program may call the library.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use storm_mpi::{InitError, Process, Threads};

/// The rights of threads: the levels of `mpi.h`, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    Single,
    Funneled,
    Serialized,
    Multiple,
}

/// The level of the process, once it has joined.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Funneled as u8);

impl Level {
    /// The level of the process.
    pub(crate) fn now() -> Level {
        let level = LEVEL.load(Ordering::Acquire);
        Level::ALL.into_iter().find(|&known| known as u8 == level).unwrap_or(Level::Single)
    }

    const ALL: [Level; 4] = [Level::Single, Level::Funneled, Level::Serialized, Level::Multiple];

    /// The level for a program that asks for `required`: the same level. An invalid number gives
    /// the level of a program that does not ask.
    pub(crate) fn for_required(required: c_int) -> Level {
        let asked = |level: &Level| c_int::from(*level as u8) == required;
        Level::ALL.into_iter().find(asked).unwrap_or(Level::Funneled)
    }

    /// Joins the job for threads of this level. The session must be made of the process, and then
    /// shared with the threads.
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

    /// Makes this the level of the process.
    pub(crate) fn set(self) {
        LEVEL.store(self as u8, Ordering::Release);
    }
}
