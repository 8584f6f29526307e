//! Prepares the process of a fresh keeper: the open descriptors and the handling of signals.

use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;

use crate::ids::Errno;
use crate::seqpacket::Seqpacket;
use crate::sys;

/// The number of every keeper's control socket.
pub(super) const CONTROL_DESCRIPTOR: RawFd = 3;
/// The signal by which a pad's own keeper gets the death of the node's keeper.
pub(super) const PARENT_GONE: Signal = Signal::SIGUSR1;

/// Leaves open only the control socket and standard error, which may carry the message of a panic.
pub(super) fn settle(control: OwnedFd) -> Result<Seqpacket, Errno> {
    // Moved away from the numbers that are about to be overwritten.
    let parked = fcntl(control.as_fd(), FcntlArg::F_DUPFD(CONTROL_DESCRIPTOR + 1))?;
    let null = open(c"/dev/null", OFlag::O_RDWR, Mode::empty())?.into_raw_fd();
    let _ = control.into_raw_fd();
    // SAFETY: no object of this process uses its low descriptors any more: it was forked, or
    // executed, to be a keeper and nothing else.
    let done = unsafe {
        libc::dup2(null, libc::STDIN_FILENO) != -1
            && libc::dup2(null, libc::STDOUT_FILENO) != -1
            && libc::dup2(parked, CONTROL_DESCRIPTOR) != -1
            && libc::fcntl(CONTROL_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) != -1
    };
    if !done {
        return Err(Errno::last());
    }
    sys::close_from(CONTROL_DESCRIPTOR + 1)?;
    // SAFETY: it was put there just above, and nothing else owns it.
    Ok(Seqpacket::from(unsafe { OwnedFd::from_raw_fd(CONTROL_DESCRIPTOR) }))
}

/// Signals that a keeper ignores but a program does not expect to find ignored. A terminal sends
/// the first three; the NM decides how to react. An unread standard error causes SIGPIPE.
pub(crate) const IGNORED: [Signal; 4] =
    [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE];

/// Makes deaths, the loss of the parent and SIGTERM readable events. SIGTERM ends a keeper without
/// an NM. Signals of [`IGNORED`] are ignored, and all others have their default action, regardless
/// of the parent's choice. A PL, forked from the keeper, therefore has to undo only the ignored
/// ones.
pub(super) fn watch_signals() -> Result<SignalFd, Errno> {
    let is_ignored = |signal: &i32| IGNORED.iter().any(|ignored| *ignored as i32 == *signal);
    sys::reset_signals((1..=sys::SIGNALS).filter(|signal| !is_ignored(signal)));
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    let deaths_only = SigAction::new(SigHandler::SigDfl, SaFlags::SA_NOCLDSTOP, SigSet::empty());
    for signal in IGNORED {
        // SAFETY: ignoring a signal runs no handler.
        unsafe { sigaction(signal, &ignore) }?;
    }
    // SAFETY: the default action of SIGCHLD runs no handler.
    unsafe { sigaction(Signal::SIGCHLD, &deaths_only) }?;
    let mask: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, PARENT_GONE].into_iter().collect();
    mask.thread_block()?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}
