//! Stops a pad by signals, for nodes without cgroup v2.
//!
//! SIGSTOP is sent to every thread, not to the process. A signal to the process would reach one
//! thread. The others would run until their next tick, which is 8 to 14 % of a short quantum. The
//! cgroup is better in two ways. With signals, a parent sees its children stop and continue. A
//! process that had stopped itself is resumed with the rest.

use std::collections::HashSet;

use crate::ids::{Errno, ProcessId};
use crate::process_tree::{descendants, is_stopped, threads};
use crate::switch::{FreezeError, io_error};
use crate::sys::signal_thread;

/// Passes over the process tree before giving up. A pass finds the processes that were forked
/// during the previous one. A thread with SIGSTOP pending cannot fork, so a well-behaved job needs
/// two or three.
const PASSES_MAX: u32 = 64;

/// Stops and resumes all descendants of one process, the pad's own keeper. The keeper, as their
/// subreaper, always stays their ancestor.
#[derive(Debug)]
pub struct SignalFreezer {
    root: ProcessId,
}

impl SignalFreezer {
    /// A freezer of the descendants of `root`, without `root` itself.
    #[must_use]
    pub fn new(root: ProcessId) -> Self {
        Self { root }
    }

    /// Stops all descendants.
    ///
    /// # Errors
    /// A process may not be signalled, or new ones keep appearing.
    pub fn stop(&self) -> Result<(), FreezeError> {
        let mut stopped = HashSet::new();
        for _ in 0..PASSES_MAX {
            let before = stopped.len();
            for process in descendants(self.root) {
                for thread in threads(process) {
                    if stopped.insert((process, thread)) {
                        signal(signal_thread(process, thread, libc::SIGSTOP))?;
                    }
                }
            }
            if stopped.len() == before {
                return Ok(());
            }
        }
        Err(FreezeError::Unstable)
    }

    /// Whether any descendant is stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        descendants(self.root).into_iter().any(is_stopped)
    }

    /// Resumes all descendants. One pass is enough, since a stopped process does not fork.
    ///
    /// # Errors
    /// A process may not be signalled.
    pub fn resume(&self) -> Result<(), FreezeError> {
        for process in descendants(self.root) {
            // SAFETY: kill takes two integers.
            let result = unsafe { libc::kill(process.0, libc::SIGCONT) };
            signal(if result == -1 { Err(Errno::last()) } else { Ok(()) })?;
        }
        Ok(())
    }
}

/// Ignores the error of a process that has ended meanwhile.
fn signal(result: Result<(), Errno>) -> Result<(), FreezeError> {
    match result {
        Ok(()) | Err(Errno(libc::ESRCH)) => Ok(()),
        Err(errno) => Err(FreezeError::Signal(io_error(errno))),
    }
}
