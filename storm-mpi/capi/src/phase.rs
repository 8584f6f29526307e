//! The phase of the process: before, inside or after its job.

use std::sync::atomic::{AtomicU8, Ordering};

/// The phase of the process, for all threads.
static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);

/// The phase of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Before,
    Inside,
    After,
}

impl Phase {
    pub(crate) fn now() -> Phase {
        match PHASE.load(Ordering::Acquire) {
            before if before == Phase::Before as u8 => Phase::Before,
            inside if inside == Phase::Inside as u8 => Phase::Inside,
            _ => Phase::After,
        }
    }

    /// Moves the process on to this phase.
    pub(crate) fn begin(self) {
        PHASE.store(self as u8, Ordering::Release);
    }
}
