//! Why a PL did not become its application: the step that failed and the kernel's reason.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Errno;

/// The steps of a launch, in the order they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum LaunchStep {
    /// Receiving and decoding the launch message.
    #[error("cannot read the launch request")]
    Request,
    /// Setting a resource limit.
    #[error("cannot set a resource limit")]
    Limits,
    /// Binding to CPUs.
    #[error("cannot bind the process to its CPUs")]
    Affinity,
    /// The daemon is not root and the job belongs to another user.
    #[error("this daemon does not run as root and cannot start a process for another user")]
    OtherUser,
    /// Setting the supplementary groups.
    #[error("cannot set the supplementary groups")]
    Groups,
    /// Setting the group.
    #[error("cannot set the group")]
    Group,
    /// Setting the user.
    #[error("cannot set the user")]
    User,
    /// Binding the life of the process to its keeper's.
    #[error("the keeper of this process is gone")]
    Keeper,
    /// Entering the working directory, as the user.
    #[error("cannot enter the working directory")]
    WorkingDirectory,
    /// Opening standard input, as the user.
    #[error("cannot open standard input")]
    Stdin,
    /// Opening standard output, as the user.
    #[error("cannot open the file for standard output")]
    Stdout,
    /// Opening standard error, as the user.
    #[error("cannot open the file for standard error")]
    Stderr,
    /// Executing the program.
    #[error("cannot execute the program")]
    Program,
    /// The program exists, but not what it needs to start: the interpreter in its first line,
    /// or its dynamic loader.
    #[error("cannot execute the interpreter or loader that the program asks for")]
    Interpreter,
    /// Arguments and environment together are more than the kernel takes.
    #[error("the arguments and the environment are too large")]
    Arguments,
}

/// A launch that ended before the application's first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{step}: {errno}")]
pub struct LaunchFailure {
    /// What failed.
    pub step: LaunchStep,
    /// Why, in the kernel's words.
    pub errno: Errno,
}

impl LaunchFailure {
    pub(crate) fn new(step: LaunchStep, errno: impl Into<Errno>) -> Self {
        Self { step, errno: errno.into() }
    }

    /// As the PL said it. What makes no sense is a failure all the same.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let malformed = Self { step: LaunchStep::Request, errno: Errno(libc::EBADMSG) };
        postcard::from_bytes(bytes).unwrap_or(malformed)
    }
}
