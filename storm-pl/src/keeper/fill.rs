//! Makes one PL: its streams, its sockets, and the fork into the pad.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;

use crate::ids::{Errno, ProcessId};
use crate::launcher::{LaunchSockets, wait_for_launch};
use crate::protocol::PadStep;
use crate::seqpacket::{PlDescriptors, Seqpacket};
use crate::sys::{self, Forked};
use crate::title::set_title;

/// A PL just forked, with the ends that go to the NM.
pub(super) struct NewPl {
    pub(super) pid: ProcessId,
    /// Command, stdin, stdout, stderr, PMI; and the PL's own ends of the last three.
    pub(super) ends: PlDescriptors,
}

/// Forks one PL of this keeper, inside `cgroup` when there is one, on the node of this name.
pub(super) fn make_pl(
    cgroup: Option<BorrowedFd<'_>>,
    node: &str,
) -> Result<NewPl, (PadStep, Errno)> {
    let (ends, sockets) = make_streams().map_err(|error| (PadStep::Streams, Errno::of(&error)))?;
    let keeper = ProcessId(nix::unistd::getpid().as_raw());
    // SAFETY: the keeper has one thread, and the child goes straight to `wait_for_launch`, which
    // never returns and never raises a signal at itself.
    match unsafe { sys::fork_into(cgroup) } {
        Ok(Forked::Child) => {
            set_title(&format!("storm: launcher {node}"));
            wait_for_launch(&sockets, keeper)
        }
        Ok(Forked::Parent(pid)) => {
            let [command, stdin, stdout, stderr, pmi] = ends;
            let LaunchSockets { stdout: own_stdout, stderr: own_stderr, pmi: own_pmi, .. } =
                sockets;
            let ends = [command, stdin, stdout, stderr, pmi, own_stdout, own_stderr, own_pmi];
            Ok(NewPl { pid, ends })
        }
        Err(error) => Err((PadStep::Fork, Errno::of(&error))),
    }
}

/// The NM's ends do not block, because it reads them with an event loop; the PL's ends do, as
/// programs expect of their standard streams.
fn make_streams() -> io::Result<([OwnedFd; 5], LaunchSockets)> {
    let (pl_stdin, stdin) = pipe2(OFlag::O_CLOEXEC)?;
    let (stdout, pl_stdout) = pipe2(OFlag::O_CLOEXEC)?;
    let (stderr, pl_stderr) = pipe2(OFlag::O_CLOEXEC)?;
    let (pmi, pl_pmi) = nix::sys::socket::socketpair(
        nix::sys::socket::AddressFamily::Unix,
        nix::sys::socket::SockType::Stream,
        None,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
    )?;
    let (command, pl_command) = Seqpacket::pair()?;
    for end in [&stdin, &stdout, &stderr, &pmi] {
        fcntl(end.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let sockets = LaunchSockets {
        stdin: pl_stdin,
        stdout: pl_stdout,
        stderr: pl_stderr,
        pmi: pl_pmi,
        command: pl_command.into(),
    };
    Ok(([command.into(), stdin, stdout, stderr, pmi], sockets))
}
