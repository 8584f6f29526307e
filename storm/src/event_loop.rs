//! The event loop of a command or daemon.

use std::io;
use std::os::unix::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// How many pairs of sockets must be possible. The event loop itself has an epoll descriptor, an
/// eventfd and a pair of sockets for signals, and copies some of them.
const PAIRS: usize = 4;

/// Builds an event loop on this thread.
///
/// # Errors
/// The kernel's, for example if this process may open no more files: tokio panics then, so room is
/// checked first.
pub(crate) fn event_loop() -> io::Result<Runtime> {
    let room = (0..PAIRS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>()?;
    drop(room);
    Builder::new_current_thread().enable_all().build()
}
