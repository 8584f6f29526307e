//! The life of a PL before its launch: settle on fixed descriptors, then wait for one message.
//!
//! All that can be done before the job is known is done here, off the critical path. Runs in a
//! child forked by the single-threaded keeper, so it may allocate; it never returns, and leaves
//! only by `execve` or `_exit` (see [`crate::sys::fork_into`]).

use std::io::IoSlice;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::ids::{Errno, ProcessId};
use crate::launch_failure::{LaunchFailure, LaunchStep};
use crate::launch_spec::SPEC_MAX_BYTES;
use crate::launcher::become_application::become_application;
use crate::launcher::request::Request;
use crate::seqpacket::{Seqpacket, Wait};
use crate::sys;

/// Where the PMI socket is in the application, if it asked for one.
pub(crate) const PMI_DESCRIPTOR: RawFd = 3;
/// Where the command socket is until `execve` closes it.
const COMMAND_DESCRIPTOR: RawFd = 4;
/// Descriptors are first moved above this, so that putting one in place overwrites no other.
const PARKING_DESCRIPTOR: RawFd = 10;
/// Sizes of blocks as a launch asks for them: the message, its strings' places, the environment.
const HEAP_BLOCKS: [usize; 5] = [16 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10];
/// Exit code of a PL that could not become its application; the NM hears the reason apart.
const FAILED_EXIT_CODE: i32 = 127;

/// The PL's ends, in the order of their final descriptors 0 to 4.
pub(crate) struct LaunchSockets {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) pmi: OwnedFd,
    pub(crate) command: OwnedFd,
}

/// Waits for the launch message and becomes the application, or exits when the NM is gone.
pub(crate) fn wait_for_launch(sockets: &LaunchSockets, keeper: ProcessId) -> ! {
    if settle(sockets).is_err() || follow_keeper(keeper).is_err() {
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
            // If even this cannot be sent, the exit code is all the NM gets.
            let _ = command.send(&[IoSlice::new(&bytes)], &[], Wait::Block);
            sys::exit_now(FAILED_EXIT_CODE)
        }
        Err(_) => sys::exit_now(FAILED_EXIT_CODE),
    }
}

/// Asks to die with the keeper, and makes sure that it was still alive when that took effect.
pub(super) fn follow_keeper(keeper: ProcessId) -> Result<(), Errno> {
    sys::set_parent_death_signal(libc::SIGKILL)?;
    if nix::unistd::getppid().as_raw() == keeper.0 { Ok(()) } else { Err(Errno(libc::ESRCH)) }
}

/// Makes the heap ready for what a launch takes of it. This process got its heap from the Node Manager
/// that the keeper was forked from: the first larger block that is asked for makes glibc join all
/// small ones that were freed, all over a heap whose every page is copied when it is written to, and
/// the block itself is in new pages. That is a third of what this process does in a launch, and is done
/// before there is one.
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
    let Some((rank, inline)) = Request::split(&message[..received.len]) else { return malformed };
    let from_file = match received.descriptors.first() {
        None => Vec::new(),
        Some(file) => match read_whole(file) {
            Ok(bytes) => bytes,
            Err(errno) => return LaunchFailure::new(LaunchStep::Request, errno),
        },
    };
    drop(received);
    let shared = if from_file.is_empty() { inline } else { &from_file };
    match Request::decode(rank, shared) {
        Some(request) => become_application(&request, keeper),
        None => malformed,
    }
}

/// Reads a memory file that other PLs read at the same time, so without moving its offset.
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

/// Puts every end at its final descriptor, closes all others, and drops what was inherited.
fn settle(sockets: &LaunchSockets) -> Result<(), Errno> {
    let LaunchSockets { stdin, stdout, stderr, pmi, command } = sockets;
    let mut parked = [0; 5];
    for (place, end) in parked.iter_mut().zip([stdin, stdout, stderr, pmi, command]) {
        // SAFETY: F_DUPFD on a descriptor that `sockets` keeps open.
        *place = check(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_DUPFD, PARKING_DESCRIPTOR) })?;
    }
    for (target, &from) in parked.iter().enumerate() {
        // SAFETY: whatever was at these low numbers belongs to the keeper this was forked from;
        // this process uses none of it any more.
        check(unsafe { libc::dup2(from, target as RawFd) })?;
    }
    // SAFETY: sets a flag of a descriptor that was made just above.
    check(unsafe { libc::fcntl(COMMAND_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    sys::close_from(COMMAND_DESCRIPTOR + 1)?;
    nix::unistd::setsid()?;
    sys::reset_signals();
    Ok(())
}

fn check(result: i32) -> Result<i32, Errno> {
    if result == -1 { Err(Errno::last()) } else { Ok(result) }
}
