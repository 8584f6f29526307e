//! Opens the files that the rank asked for as its streams, as the user. Its pipes came with the
//! launch; a stream that is neither is `/dev/null` since before.

use std::ffi::CStr;
use std::os::fd::{IntoRawFd, RawFd};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use crate::ids::Errno;
use crate::launch_failure::{LaunchFailure, LaunchStep};
use crate::launch_spec::StreamKind;
use crate::launcher::request::Request;

/// Permissions of a new output file before the mask, as shells create them.
const FILE_MODE: Mode = Mode::from_bits_truncate(0o666);

/// Sets standard input, output and error.
pub(super) fn redirect(request: &Request<'_>) -> Result<(), LaunchFailure> {
    let Request { rank, stdin, stdout, stderr, .. } = request;
    let streams = [
        (LaunchStep::Stdin, rank.stdin, *stdin),
        (LaunchStep::Stdout, rank.stdout, *stdout),
        (LaunchStep::Stderr, rank.stderr, *stderr),
    ];
    for (descriptor, (step, kind, path)) in streams.into_iter().enumerate() {
        replace(descriptor as RawFd, kind, path)
            .map_err(|errno| LaunchFailure::new(step, errno))?;
    }
    Ok(())
}

fn replace(descriptor: RawFd, kind: StreamKind, path: &CStr) -> Result<(), Errno> {
    let write = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND;
    let (path, flags) = match kind {
        StreamKind::Pipe | StreamKind::Null => return Ok(()),
        StreamKind::SameAsStdout => return move_to(libc::STDOUT_FILENO, descriptor),
        StreamKind::Read => (path, OFlag::O_RDONLY),
        StreamKind::Append => (path, write),
        StreamKind::Truncate => (path, write | OFlag::O_TRUNC),
    };
    let file = open(path, flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY, FILE_MODE)?.into_raw_fd();
    move_to(file, descriptor)
}

/// The original closes at `execve`; the copy does not.
fn move_to(from: RawFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: `to` is a standard stream of this process, which no Rust object owns.
    if unsafe { libc::dup2(from, to) } == -1 { Err(Errno::last()) } else { Ok(()) }
}
