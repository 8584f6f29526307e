//! Descriptors that the parent left open for us and named by number.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::future::pending;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Highest descriptor that belongs to the process itself.
const STDERR: RawFd = 2;

/// Takes over a descriptor, which no program that we start will inherit.
///
/// # Errors
/// It is not open, or is one of the three standard ones.
pub(super) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number <= STDERR {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: borrowed for this one call, which fails with EBADF when the
    // number is not an open descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: it is open, and nothing in this process owns it: it was made by
    // the parent and named on the command line, which is read once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Waits until nobody holds the other end of the pipe. Whoever does may let go of us before with a
/// byte: then it never completes.
pub(super) async fn cut(lifeline: OwnedFd) -> io::Result<()> {
    let mut receiver = pipe::Receiver::from_owned_fd(lifeline)?;
    match receiver.read(&mut [0]).await? {
        0 => Ok(()),
        _ => pending().await,
    }
}
