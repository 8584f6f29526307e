//! The reasons why cgroup v2 cannot be used on this node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Errno;

/// The reason why cgroup v2 cannot be used, as a text for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum CgroupUnusable {
    /// Cgroup v2 is not mounted anywhere that this process can see.
    #[error("no cgroup v2 file system is mounted")]
    NotMounted,
    /// Cgroup v2 is mounted, but the own cgroup is outside of the visible part.
    #[error("the control group of this daemon is not visible under {mount}")]
    OwnCgroupHidden {
        /// The mount point of cgroup v2.
        mount: PathBuf,
    },
    /// No directory can be made there.
    #[error("cannot make a control group in {parent}: {errno} (delegate it to this user)")]
    CannotCreate {
        /// The directory that was tried.
        parent: PathBuf,
        /// The reason.
        errno: Errno,
    },
    /// The kernel is older than 5.2 (freeze) or 5.14 (kill).
    #[error("this kernel has no {file} in its control groups")]
    Missing {
        /// The missing file.
        file: String,
    },
    /// No process can be started inside (kernels before 5.7, or a seccomp filter).
    #[error("cannot start a process inside a control group: {0}")]
    CannotEnter(Errno),
    /// The operator has switched cgroups off.
    #[error("switched off in the configuration")]
    SwitchedOff,
}
