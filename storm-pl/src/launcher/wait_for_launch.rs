//! A PL before its launch. The PL moves to fixed descriptors, then waits for one message, which
//! also carries the streams of the rank.
//!
//! Every step that does not depend on the job is done here, before the launch. The code runs in a
//! child of the single-threaded keeper, so it may allocate. The code never returns, and leaves only
//! by `execve` or `_exit` (see [`crate::sys::fork_into`]).

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::carried::Carried;
use crate::ids::{Errno, ProcessId};
use crate::keeper::IGNORED;
use crate::launch_failure::{LaunchFailure, LaunchStep};
use crate::launch_spec::SPEC_MAX_BYTES;
use crate::launcher::application_state::{PMI_DESCRIPTOR, follow_keeper};
use crate::launcher::become_application::become_application;
use crate::launcher::request::Request;
use crate::seqpacket::{Received, Seqpacket, Wait};
use crate::sys;

/// The number of the command socket, which `execve` closes.
const COMMAND_DESCRIPTOR: RawFd = 4;
/// The numbers of standard output, standard error and the PMI socket. Before the launch, all are
/// copies of standard input, which is `/dev/null` (`keeper::process_state`). No descriptor of a
/// launch therefore arrives with a number to which another must be copied.
const EMPTY_DESCRIPTORS: [RawFd; 3] = [libc::STDOUT_FILENO, libc::STDERR_FILENO, PMI_DESCRIPTOR];
/// Sizes of the blocks of a launch: the message, the table of its strings, the environment.
const HEAP_BLOCKS: [usize; 3] = [4 << 10, 2 << 10, 1 << 10];
/// Exit code of a PL that could not become its application. The NM gets the reason separately.
const FAILED_EXIT_CODE: i32 = 127;

/// Waits for the launch message and becomes the application, or exits when the NM is gone. The
/// application may have `descriptors_max` descriptors open, unless its job has its own limit.
pub(crate) fn wait_for_launch(command: &Seqpacket, keeper: ProcessId, descriptors_max: u64) -> ! {
    let settled = settle(command.as_fd()).and_then(|()| limit_descriptors(descriptors_max));
    if settled.is_err() || follow_keeper(keeper).is_err() {
        sys::exit_now(FAILED_EXIT_CODE);
    }
    touch_heap();
    // SAFETY: `settle` has just put the command socket there and nothing else owns it.
    let command = Seqpacket::from(unsafe { OwnedFd::from_raw_fd(COMMAND_DESCRIPTOR) });
    match command.next_len() {
        Ok(0) => sys::exit_now(0),
        Ok(len) => {
            let failure = launch(&command, len, keeper);
            let bytes = postcard::to_stdvec(&failure).unwrap_or_default();
            // If the message cannot be sent, the NM only gets the exit code.
            let _ = command.send(&[IoSlice::new(&bytes)], &[], Wait::Block);
            sys::exit_now(FAILED_EXIT_CODE)
        }
        Err(_) => sys::exit_now(FAILED_EXIT_CODE),
    }
}

/// Prepares the heap for a launch. The first larger block makes glibc join the freed small ones,
/// whose pages are then copied on write. The block itself is in new pages. Doing both here in
/// advance covers most launches. A launch with a larger environment waits for its further pages.
fn touch_heap() {
    let blocks = HEAP_BLOCKS.map(|len| vec![1_u8; len]);
    std::hint::black_box(&blocks);
}

fn launch(command: &Seqpacket, len: usize, keeper: ProcessId) -> LaunchFailure {
    let malformed = LaunchFailure::new(LaunchStep::Request, Errno(libc::EBADMSG));
    if len > SPEC_MAX_BYTES {
        return malformed;
    }
    let mut message = vec![0; len];
    let received = match command.receive(&mut message, Wait::Block) {
        Ok(received) => received,
        Err(error) => return LaunchFailure::new(LaunchStep::Request, Errno::of(&error)),
    };
    let Received { len, descriptors, cut } = received;
    if cut {
        return LaunchFailure::new(LaunchStep::Request, Errno(libc::EMFILE));
    }
    let Some((carried, rank, inline)) = Request::open(&message[..len]) else { return malformed };
    let Some(descriptors) = carried.name(descriptors) else { return malformed };
    let from_file = match take(descriptors) {
        Ok(bytes) => bytes,
        Err(errno) => return LaunchFailure::new(LaunchStep::Request, errno),
    };
    let shared = if from_file.is_empty() { inline } else { &from_file };
    match Request::decode(rank, shared) {
        Some(request) if request.head.pmi == carried.contains(Carried::Pmi) => {
            become_application(&request, keeper)
        }
        Some(_) | None => malformed,
    }
}

/// Puts the streams in their places. Returns the content of the memory file, if there is one.
fn take(descriptors: Vec<(Carried, OwnedFd)>) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    for (name, descriptor) in descriptors {
        let place = match name {
            Carried::Stdin => libc::STDIN_FILENO,
            Carried::Stdout => libc::STDOUT_FILENO,
            Carried::Stderr => libc::STDERR_FILENO,
            Carried::Pmi => PMI_DESCRIPTOR,
            Carried::Spec => {
                bytes = read_whole(&descriptor)?;
                continue;
            }
        };
        put(descriptor.as_fd(), place, 0)?;
    }
    Ok(bytes)
}

/// Reads a memory file without moving its offset, since other PLs read it at the same time.
fn read_whole(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let size = nix::sys::stat::fstat(file)?.st_size;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > SPEC_MAX_BYTES {
        return Err(Errno(libc::EMSGSIZE));
    }
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match nix::sys::uio::pread(file, &mut bytes[done..], done as i64)? {
            0 => return Err(Errno(libc::EBADMSG)),
            more => done += more,
        }
    }
    Ok(bytes)
}

/// Puts the command socket in its place. Drops the other descriptors, the session and the ignored
/// signals of the keeper.
fn settle(command: BorrowedFd<'_>) -> Result<(), Errno> {
    // The keeper's control socket and signals have lower numbers, so this number differs.
    put(command, COMMAND_DESCRIPTOR, libc::O_CLOEXEC)?;
    for place in EMPTY_DESCRIPTORS {
        // SAFETY: a keeper has its standard input open, and a PL is forked from a keeper.
        put(unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }, place, 0)?;
    }
    sys::close_from(COMMAND_DESCRIPTOR + 1)?;
    nix::unistd::setsid()?;
    sys::reset_signals(IGNORED.map(|signal| signal as libc::c_int));
    Ok(())
}

/// Sets the limit for the application, since the keeper may have raised its own.
fn limit_descriptors(descriptors_max: u64) -> Result<(), Errno> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft != descriptors_max {
        setrlimit(Resource::RLIMIT_NOFILE, descriptors_max.min(hard), hard)?;
    }
    Ok(())
}

/// Makes `place` a copy of a descriptor.
fn put(descriptor: BorrowedFd<'_>, place: RawFd, flags: i32) -> Result<(), Errno> {
    if descriptor.as_raw_fd() == place {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: a descriptor at these low numbers belongs to the keeper that forked this process, or
    // was put there by this function. No object of this process owns it.
    match unsafe { libc::dup3(descriptor.as_raw_fd(), place, flags) } {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}
