//! The state that an application finds: the number of its PMI socket, and its tie to the keeper.

use std::os::fd::RawFd;

use crate::ids::{Errno, ProcessId};
use crate::sys;

/// The number of the PMI socket in the application, if it requested PMI.
pub(crate) const PMI_DESCRIPTOR: RawFd = 3;

/// Arranges to die with the keeper, and makes sure that the keeper was still alive at that moment.
pub(super) fn follow_keeper(keeper: ProcessId) -> Result<(), Errno> {
    sys::set_parent_death_signal(libc::SIGKILL)?;
    if nix::unistd::getppid().as_raw() == keeper.0 { Ok(()) } else { Err(Errno(libc::ESRCH)) }
}
