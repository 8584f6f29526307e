//! Why cgroup v2 cannot be used on this node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Errno;

/// Why cgroup v2 cannot be used, in words an operator can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum CgroupUnusable {
    /// Not mounted anywhere this process can see.
    #[error("no cgroup v2 file system is mounted")]
    NotMounted,
    /// Mounted, but the own cgroup is outside of what is visible.
    #[error("the control group of this daemon is not visible under {mount}")]
    OwnCgroupHidden {
        /// Where cgroup v2 is mounted.
        mount: PathBuf,
    },
    /// No directory can be made there.
    #[error("cannot make a control group in {parent}: {errno} (delegate it to this user)")]
    CannotCreate {
        /// Where it was tried.
        parent: PathBuf,
        /// The reason.
        errno: Errno,
    },
    /// The kernel is older than 5.2 (freeze) or 5.14 (kill).
    #[error("this kernel has no {file} in its control groups")]
    Missing {
        /// The file that is not there.
        file: String,
    },
    /// No process can be started inside (kernels before 5.7, or a seccomp filter).
    #[error("cannot start a process inside a control group: {0}")]
    CannotEnter(Errno),
    /// Set so by the operator.
    #[error("switched off in the configuration")]
    SwitchedOff,
}
