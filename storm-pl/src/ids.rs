//! Identities used between the NM and its keeper. These identities mean nothing outside one node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place on this node where one job can run; see [`crate::KeeperHandle::make_pads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PadId(pub u16);

/// The position of one PL in its pad, from 0 to the capacity of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlIndex(pub u16);

/// A process of this node, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId(pub i32);

/// Names one file placement, from the command to its [`crate::Event::Placed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlaceId(pub u64);

/// An error number of the kernel, as it crosses a process boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Errno(pub i32);

impl Errno {
    /// The error number of an [`std::io::Error`]; `EIO` when it carries none.
    #[must_use]
    pub fn of(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// The error number of the last failed call of this thread.
    #[must_use]
    pub fn last() -> Self {
        Self::of(&std::io::Error::last_os_error())
    }
}

impl From<nix::errno::Errno> for Errno {
    fn from(errno: nix::errno::Errno) -> Self {
        Self(errno as i32)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(nix::errno::Errno::from_raw(self.0).desc())
    }
}

impl fmt::Display for PadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pad {}", self.0)
    }
}

impl fmt::Display for PlIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PL {}", self.0)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
