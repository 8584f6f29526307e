//! The life of a PL before its launch: settle on fixed descriptors, then wait for one message.
//!
//! All that can be done before the job is known is done here, off the critical path. Runs in a
//! child forked by the single-threaded keeper, so it may allocate; it never returns, and leaves
//! only by `execve` or `_exit` (see [`crate::sys::fork_into`]).

use std::io::IoSlice;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::ids::{Errno, ProcessId};
use crate::keeper::IGNORED;
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
/// A descriptor with one of the final numbers is first moved above this, so that putting one in
/// place overwrites no other. A keeper has others there, so that none is.
const PARKING_DESCRIPTOR: RawFd = 10;
/// Sizes of blocks as a launch asks for them: the message, its strings' places, the environment.
const HEAP_BLOCKS: [usize; 3] = [4 << 10, 2 << 10, 1 << 10];
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

/// Makes the heap ready for what a launch takes of it: the first larger block that is asked for makes
/// glibc join the small ones that were freed, in pages that are copied when they are written to, and
/// the block itself is in new pages. That is done before there is a launch, and for as much as most
/// launches need: who has a larger environment waits for the pages that it takes.
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
    let mut ends = [stdin, stdout, stderr, pmi, command].map(AsRawFd::as_raw_fd);
    for end in ends.iter_mut().filter(|end| **end <= COMMAND_DESCRIPTOR) {
        // SAFETY: F_DUPFD on a descriptor that `sockets` keeps open.
        *end = check(unsafe { libc::fcntl(*end, libc::F_DUPFD, PARKING_DESCRIPTOR) })?;
    }
    for (target, from) in (0..).zip(ends) {
        let flags = if target == COMMAND_DESCRIPTOR { libc::O_CLOEXEC } else { 0 };
        // SAFETY: whatever was at these low numbers belongs to the keeper this was forked from, or
        // was copied away just above; this process uses none of it any more.
        check(unsafe { libc::dup3(from, target, flags) })?;
    }
    sys::close_from(COMMAND_DESCRIPTOR + 1)?;
    nix::unistd::setsid()?;
    sys::reset_signals(IGNORED.map(|signal| signal as libc::c_int));
    Ok(())
}

fn check(result: i32) -> Result<i32, Errno> {
    if result == -1 { Err(Errno::last()) } else { Ok(result) }
}
