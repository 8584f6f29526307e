//! The context switch of a node: it stops every process of one job and resumes those of another.
//!
//! The NM calls [`switch()`] on its real-time path when a strobe arrives. The switch is local to
//! each node (paper, section 4). The call does not wait until all threads have stopped. The last
//! one stops microseconds later, when it leaves the kernel.

mod cgroup_freezer;
mod freezer;
mod signal_freezer;

use std::io;

use thiserror::Error;

pub use cgroup_freezer::CgroupFreezer;
pub use freezer::{FreezeError, Freezer};
pub use signal_freezer::SignalFreezer;

/// A failure of a switch. The other jobs were still switched.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// A job of the old row may still be running.
    #[error("a job could not be stopped")]
    Stop(#[source] FreezeError),
    /// A job of the new row may still be stopped.
    #[error("a job could not be resumed")]
    Resume(#[source] FreezeError),
}

/// Stops all jobs of `from`, then resumes all of `to`.
///
/// # Errors
/// The first failure. The rest of the work is still done: if a job cannot be stopped, other jobs
/// must still run.
pub fn switch<'a>(
    from: impl IntoIterator<Item = &'a Freezer>,
    to: impl IntoIterator<Item = &'a Freezer>,
) -> Result<(), SwitchError> {
    let mut first = Ok(());
    for job in from {
        if let Err(error) = job.stop() {
            first = first.and(Err(SwitchError::Stop(error)));
        }
    }
    for job in to {
        if let Err(error) = job.resume() {
            first = first.and(Err(SwitchError::Resume(error)));
        }
    }
    first
}

/// An I/O error with the kernel's number.
fn io_error(errno: crate::ids::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}
