//! Makes one PL: its command socket, and the fork into the pad.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::ids::{Errno, ProcessId};
use crate::launcher::wait_for_launch;
use crate::protocol::PadStep;
use crate::seqpacket::Seqpacket;
use crate::sys::{self, Forked};
use crate::title::set_title;

/// A PL just forked, with the end of its socket for the NM.
pub(super) struct NewPl {
    pub(super) pid: ProcessId,
    /// The NM's end of its command socket.
    pub(super) command: OwnedFd,
}

/// Forks one PL of this keeper on the node `node`, inside `cgroup` if there is one. The PL may have
/// `descriptors_max` descriptors open.
pub(super) fn make_pl(
    cgroup: Option<BorrowedFd<'_>>,
    descriptors_max: u64,
    node: &str,
) -> Result<NewPl, (PadStep, Errno)> {
    let (command, theirs) =
        Seqpacket::pair().map_err(|error| (PadStep::Socket, Errno::of(&error)))?;
    let keeper = ProcessId(nix::unistd::getpid().as_raw());
    // SAFETY: the keeper has one thread, and the child calls `wait_for_launch` at once, which never
    // returns and never raises a signal at itself.
    match unsafe { sys::fork_into(cgroup) } {
        Ok(Forked::Child) => {
            set_title(&format!("storm: launcher {node}"));
            wait_for_launch(&theirs, keeper, descriptors_max)
        }
        Ok(Forked::Parent(pid)) => Ok(NewPl { pid, command: command.into() }),
        Err(error) => Err((PadStep::Fork, Errno::of(&error))),
    }
}
