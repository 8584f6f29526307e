//! Stops and resumes all processes of one pad, by whichever mechanism the node has.

use std::io;

use thiserror::Error;

use crate::switch::{CgroupFreezer, SignalFreezer};

/// The switch of one pad.
#[derive(Debug)]
pub enum Freezer {
    /// One write, whatever the number of processes.
    Cgroup(CgroupFreezer),
    /// A signal for every thread.
    Signal(SignalFreezer),
}

/// Why a pad was not stopped or resumed.
#[derive(Debug, Error)]
pub enum FreezeError {
    /// The kernel refused; most often the pad is gone.
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
    /// When a process may still be running.
    pub fn stop(&self) -> Result<(), FreezeError> {
        match self {
            Self::Cgroup(freezer) => freezer.stop(),
            Self::Signal(freezer) => freezer.stop(),
        }
    }

    /// Whether it was stopped last. Without a control group, whether anything in it is stopped: a switch
    /// that was cut short stopped a part, and a process may have stopped itself.
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
    /// When a process may still be stopped.
    pub fn resume(&self) -> Result<(), FreezeError> {
        match self {
            Self::Cgroup(freezer) => freezer.resume(),
            Self::Signal(freezer) => freezer.resume(),
        }
    }
}
