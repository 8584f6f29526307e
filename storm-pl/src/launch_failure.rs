//! Why a PL did not become its application: the step that failed and the kernel's reason.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Errno;
use std::fmt;

/// The steps of a launch, in the order they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum LaunchStep {
    /// Receiving and decoding the launch message.
    #[error("cannot read the launch request")]
    Request,
    /// Setting a resource limit.
    #[error("cannot set {0}")]
    Limit(RefusedLimit),
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
    /// Binding the process to the lifetime of its keeper.
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
    /// The program exists, but not its interpreter (named in its first line) or its dynamic loader.
    #[error("cannot execute the interpreter or loader that the program asks for")]
    Interpreter,
    /// Arguments and environment together are longer than the kernel accepts.
    #[error("the arguments and the environment are too large")]
    Arguments,
}

/// A resource limit that could not be set, not even to what this node permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedLimit {
    /// `RLIMIT_*` number.
    pub resource: u32,
    /// The soft limit that the job requests.
    pub wanted: u64,
    /// The highest permitted limit.
    pub permitted: u64,
}

impl fmt::Display for RefusedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, wanted, permitted } = *self;
        match name_of_limit(resource) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "resource limit {resource}")?,
        }
        let value = |limit: u64| match limit {
            libc::RLIM_INFINITY => "unlimited".to_owned(),
            limit => limit.to_string(),
        };
        write!(f, " to {} (this node permits {})", value(wanted), value(permitted))
    }
}

/// The name of a resource limit of Linux.
fn name_of_limit(resource: u32) -> Option<&'static str> {
    Some(match resource {
        libc::RLIMIT_CPU => "RLIMIT_CPU",
        libc::RLIMIT_FSIZE => "RLIMIT_FSIZE",
        libc::RLIMIT_DATA => "RLIMIT_DATA",
        libc::RLIMIT_STACK => "RLIMIT_STACK",
        libc::RLIMIT_CORE => "RLIMIT_CORE",
        libc::RLIMIT_RSS => "RLIMIT_RSS",
        libc::RLIMIT_NPROC => "RLIMIT_NPROC",
        libc::RLIMIT_NOFILE => "RLIMIT_NOFILE",
        libc::RLIMIT_MEMLOCK => "RLIMIT_MEMLOCK",
        libc::RLIMIT_AS => "RLIMIT_AS",
        libc::RLIMIT_LOCKS => "RLIMIT_LOCKS",
        libc::RLIMIT_SIGPENDING => "RLIMIT_SIGPENDING",
        libc::RLIMIT_MSGQUEUE => "RLIMIT_MSGQUEUE",
        libc::RLIMIT_NICE => "RLIMIT_NICE",
        libc::RLIMIT_RTPRIO => "RLIMIT_RTPRIO",
        libc::RLIMIT_RTTIME => "RLIMIT_RTTIME",
        _ => return None,
    })
}

/// A launch that ended before the application's first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{step}: {errno}")]
pub struct LaunchFailure {
    /// The step that failed.
    pub step: LaunchStep,
    /// Why, in the kernel's words.
    pub errno: Errno,
}

impl LaunchFailure {
    pub(crate) fn new(step: LaunchStep, errno: impl Into<Errno>) -> Self {
        Self { step, errno: errno.into() }
    }

    /// Decodes the message of a PL. A malformed message is a failure all the same.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let malformed = Self { step: LaunchStep::Request, errno: Errno(libc::EBADMSG) };
        postcard::from_bytes(bytes).unwrap_or(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message "cannot set a resource limit" used to name neither the limit nor the values.
    #[test]
    fn a_limit_that_cannot_be_set_is_named_with_what_is_permitted() {
        let resource = libc::RLIMIT_NOFILE;
        let of = |wanted| {
            let refused = RefusedLimit { resource, wanted, permitted: 1024 };
            LaunchFailure::new(LaunchStep::Limit(refused), Errno(libc::EPERM)).to_string()
        };
        assert_eq!(
            of(4096),
            "cannot set RLIMIT_NOFILE to 4096 (this node permits 1024): Operation not permitted"
        );
        assert!(of(u64::MAX).contains("RLIMIT_NOFILE to unlimited"));
        let strange = RefusedLimit { resource: 99, wanted: 1, permitted: 0 };
        assert_eq!(strange.to_string(), "resource limit 99 to 1 (this node permits 0)");
    }
}
