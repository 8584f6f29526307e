//! Opens, as the user, the files that the rank requested as its streams. The rank's pipes arrived
//! with the launch. Any other stream is already `/dev/null`.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::ftruncate;

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
        StreamKind::Truncate => (path, write),
        StreamKind::Lines => (path, write),
    };
    let file = open(path, flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY, FILE_MODE)?;
    match kind {
        // The file is opened only to find errors. From now on it exists, and the rank has its pipe.
        StreamKind::Lines if is_regular(&file)? => return Ok(()),
        StreamKind::Lines => {}
        StreamKind::Truncate => empty_if_unused(&file)?,
        StreamKind::Append => say_used(&file),
        StreamKind::Pipe | StreamKind::SameAsStdout | StreamKind::Null | StreamKind::Read => {}
    }
    move_to(file.into_raw_fd(), descriptor)
}

/// Empties an output file, unless another job is writing to it: both then append, and neither loses
/// output. A writing job holds a lock (flock(2)) as long as any of its processes has the file open.
fn empty_if_unused(file: &OwnedFd) -> Result<(), Errno> {
    // Pipes, terminals and devices cannot be emptied, and need not be.
    if !is_regular(file)? {
        return Ok(());
    }
    // On a file system without locks, other writers cannot be detected.
    let in_use = lock(file, libc::LOCK_EX) == Err(Errno(libc::EWOULDBLOCK));
    let emptied = if in_use { Ok(()) } else { ftruncate(file, 0) };
    say_used(file);
    Ok(emptied?)
}

fn is_regular(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstat(file)?.st_mode & libc::S_IFMT == libc::S_IFREG)
}

/// Makes later jobs append to the file while this job has it open.
fn say_used(file: &OwnedFd) {
    // Without the lock the job still writes to the file.
    let _ = lock(file, libc::LOCK_SH);
}

fn lock(file: &OwnedFd, operation: libc::c_int) -> Result<(), Errno> {
    // SAFETY: flock takes an open descriptor and an integer.
    match unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) } {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}

/// Copies a descriptor. The original closes at `execve`; the copy does not.
fn move_to(from: RawFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: `to` is a standard stream of this process, which no Rust object owns.
    if unsafe { libc::dup2(from, to) } == -1 { Err(Errno::last()) } else { Ok(()) }
}
