//! Who watches the server. A server that dies before its ranks takes their PMIx with it, of which most
//! libraries say nothing that explains it.

use super::ServeError;
use crate::rank::number;
use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, getppid};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use storm_mpi::pmi::wire::Request;

/// What a process is from now on.
pub(super) enum Part {
    /// The one that was started: it ends.
    Starter,
    /// The one that serves.
    Server,
    /// The server has ended, and so does this.
    Watcher,
}

/// The process's connection with the Node Manager, and the process of the rank that it belongs to.
struct Starting {
    pmi: File,
    rank: OwnedFd,
}

/// Makes the server and its watcher, children of nobody that is left. The watcher returns when
/// the server has ended.
pub(super) fn begin() -> Result<Part, ServeError> {
    let starting = starting();
    // SAFETY: the process has one thread, so the child may do anything.
    if let ForkResult::Parent { .. } = unsafe { fork() }? {
        return Ok(Part::Starter);
    }
    // SAFETY: as above.
    let ForkResult::Parent { child } = (unsafe { fork() })? else { return Ok(Part::Server) };
    let ended = loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            ended => break ended?,
        }
    };
    // Killed with the job, it is not missed.
    if !matches!(ended, WaitStatus::Exited(_, 0)) && starting.as_ref().is_none_or(rank_lives) {
        eprintln!("storm: the PMIx server of this node has died: the job cannot go on");
        if let Some(mut starting) = starting {
            // Where nobody hears it the job is over.
            let _ =
                starting.pmi.write_all(format!("{}\n", Request::Abort { exit_code: 1 }).as_bytes());
        }
    }
    Ok(Part::Watcher)
}

/// Of the rank that starts the server, which is the parent of this process.
fn starting() -> Option<Starting> {
    let fd = number("PMI_FD").ok()?;
    // SAFETY: the rank has left it open for us; borrowed for this line only.
    let pmi = unsafe { BorrowedFd::borrow_raw(fd as i32) }.try_clone_to_owned().ok()?;
    // The server gets the ranks' connections from the ranks: this one would be a second.
    // SAFETY: open, as it was just cloned, and no object owns it.
    unsafe { nix::libc::close(fd as i32) };
    let rank = pidfd_open(Pid::from_raw(getppid().as_raw())?, PidfdFlags::empty()).ok()?;
    Some(Starting { pmi: pmi.into(), rank })
}

fn rank_lives(starting: &Starting) -> bool {
    !super::ranks::has_ended(&starting.rank)
}
