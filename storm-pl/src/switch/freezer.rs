//! Stops and resumes all processes of one pad, by the mechanism of the node.

use std::io;

use thiserror::Error;

use crate::switch::{CgroupFreezer, SignalFreezer};

/// The switch of one pad.
#[derive(Debug)]
pub enum Freezer {
    /// One write for any number of processes.
    Cgroup(CgroupFreezer),
    /// A signal for every thread.
    Signal(SignalFreezer),
}

/// The reason why a pad was not stopped or resumed.
#[derive(Debug, Error)]
pub enum FreezeError {
    /// The kernel refused, most often because the pad is gone.
    #[error("the control group of the pad cannot be written")]
    Cgroup(#[source] io::Error),
    /// A process could not be signalled.
    #[error("a process of the pad cannot be signalled")]
    Signal(#[source] io::Error),
    /// Its processes fork faster than they can be found.
    #[error("the processes of the pad multiply faster than they can be stopped")]
    Unstable,
}

impl Freezer {
    /// Stops every thread of every process. Stopping a stopped pad changes nothing.
    ///
    /// # Errors
    /// A process may still be running.
    pub fn stop(&self) -> Result<(), FreezeError> {
        match self {
            Self::Cgroup(freezer) => freezer.stop(),
            Self::Signal(freezer) => freezer.stop(),
        }
    }

    /// Whether the pad was stopped last. Without a cgroup: whether any process in it is stopped. An
    /// interrupted switch may have stopped a part, and a process may have stopped itself.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Cgroup(freezer) => freezer.is_stopped(),
            Self::Signal(freezer) => freezer.is_stopped(),
        }
    }

    /// Lets every process run again. Resuming a running pad changes nothing.
    ///
    /// # Errors
    /// A process may still be stopped.
    pub fn resume(&self) -> Result<(), FreezeError> {
        match self {
            Self::Cgroup(freezer) => freezer.resume(),
            Self::Signal(freezer) => freezer.resume(),
        }
    }
}
