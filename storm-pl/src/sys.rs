//! The few system calls that `nix` does not wrap, each behind a function with its safety argument.
//!
//! Nothing else is here: the callers decide what to do when a call fails.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::ids::{Errno, ProcessId};

/// `CLONE_INTO_CGROUP` of `linux/sched.h`; libc's constant has too narrow a type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Signals of Linux (`_NSIG` but on MIPS).
pub(crate) const SIGNALS: libc::c_int = 64;
/// The size of the kernel's set of signals.
const SIGNAL_SET_BYTES: usize = 8;

/// The side of a fork on which the caller is.
pub(crate) enum Forked {
    /// The caller, with its new child.
    Parent(ProcessId),
    /// The child.
    Child,
}

/// Forks; the child starts inside `cgroup` when one is given, which costs no migration.
///
/// # Safety
/// The calling process must be single-threaded. The child then allocates and runs ordinary code.
/// This code is sound only if no other thread could hold a lock at the instant of the fork. With a
/// cgroup the fork handlers of libc do not run in the child, so its cached thread id is stale. The
/// child must therefore not call `raise` or `abort`, and must leave by `execve` or `_exit`.
pub(crate) unsafe fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let result = match cgroup {
        None => {
            // SAFETY: single-threaded by this function's contract.
            i64::from(unsafe { libc::fork() })
        }
        Some(directory) => {
            // SAFETY: `clone_args` is plain integers, for which all-zero is a valid value.
            let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
            args.flags = CLONE_INTO_CGROUP;
            args.exit_signal = libc::SIGCHLD as u64;
            args.cgroup = directory.as_raw_fd() as u64;
            // SAFETY: without CLONE_VM this is a fork: the child has a copy of this address space
            // and returns here on its own stack. `args` exists during the call; the size is that of
            // `args`.
            unsafe {
                libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>())
            }
        }
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(ProcessId(pid as i32))),
    }
}

/// Leaves at once, without destructors or exit handlers of the program that was forked.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: the callers own every descriptor of the process and use none of these afterwards.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0)
    };
    if result == -1 { Err(Errno::last()) } else { Ok(()) }
}

/// Makes the kernel send `signal` to this process when its parent dies.
pub(crate) fn set_parent_death_signal(signal: i32) -> Result<(), Errno> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) };
    if result == -1 { Err(Errno::last()) } else { Ok(()) }
}

/// Makes orphaned descendants of this process its children instead of init's.
pub(crate) fn become_subreaper() -> Result<(), Errno> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong) };
    if result == -1 { Err(Errno::last()) } else { Ok(()) }
}

/// Sends a signal to one thread of one process.
pub(crate) fn signal_thread(process: ProcessId, thread: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: tgkill takes three integers and touches no memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process.0, thread, signal) };
    if result == -1 { Err(Errno::last()) } else { Ok(()) }
}

/// Puts these signals back to their default actions, and unblocks all signals.
pub(crate) fn reset_signals(signals: impl IntoIterator<Item = libc::c_int>) {
    /// `struct sigaction` of the kernel: handler, flags, restorer, mask. Zeros are SIG_DFL.
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in signals {
        // Not through libc, which reserves signals 32 and 33: if the caller ignored them, every job
        // would ignore them.
        // SAFETY: the kernel reads 32 bytes; the default action runs no handler. SIGKILL and
        // SIGSTOP are refused by an error, as they should be.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<libc::c_void>(),
                SIGNAL_SET_BYTES,
            )
        };
    }
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// How many bytes sent on a local stream socket its peer has not read.
///
/// # Errors
/// The kernel's.
pub fn unread_by_peer(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one integer; the descriptor is open.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as usize) }
}

/// Pins a process: the descriptor never names another process, even after its number is reused.
pub(crate) fn open_process(process: ProcessId) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_open takes two integers.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, process.0, 0) };
    if raw == -1 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel has just made this descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
}

/// Kills a pinned process. Returns no result, because a process that has already ended is not a
/// failure.
pub(crate) fn kill_process(pinned: &OwnedFd) {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: pidfd_send_signal without a siginfo acts like kill.
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pinned.as_raw_fd(), libc::SIGKILL, no_info, 0)
    };
}
