//! Detects the end of a process that is not a child.

use std::os::fd::{AsFd, OwnedFd};

/// Whether a process has ended. Its descriptor is readable from then on.
pub(super) fn has_ended(process: &OwnedFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}
