//! Descriptors that the parent process left open for us and named by number.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::future::pending;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The highest of the three standard descriptors.
const STDERR: RawFd = 2;

/// Takes ownership of a descriptor. Programs that we start do not inherit it.
///
/// # Errors
/// The descriptor is not open, or is one of the three standard ones.
pub(super) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number <= STDERR {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the borrow lasts for a single call, which fails with EBADF if the number is not an
    // open descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: the descriptor is open, and nothing in this process owns it. The parent made it and
    // named it on the command line, which is read once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Completes when the other end of the pipe is closed by all its holders. If a byte arrives first,
/// the holder has released us, and the future never completes.
pub(super) async fn cut(lifeline: OwnedFd) -> io::Result<()> {
    let mut receiver = pipe::Receiver::from_owned_fd(lifeline)?;
    match receiver.read(&mut [0]).await? {
        0 => Ok(()),
        _ => pending().await,
    }
}
