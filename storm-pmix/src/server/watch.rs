//! Watches the server. A server that dies before its ranks takes their PMIx along, and most
//! libraries report nothing that explains it.
//!
//! The server shows each of its ranks to a watching process. When the server dies, the watcher asks
//! for the end of the job on the connections of ranks that are still there.

use super::ServeError;
use super::ranks::has_ended;
use crate::handover::{receive_descriptors, send_descriptors};
use crate::rank::number;
use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, getppid};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use storm_mpi::pmi::wire::Request;

/// The role of a process after the forks.
pub(super) enum Part {
    /// The started process, which ends.
    Starter,
    /// The process that serves.
    Server(Watcher),
    /// The watcher, which ends as the server has ended.
    Watcher,
}

/// The server's end of its connection to the watcher.
pub(super) struct Watcher(UnixStream);

impl Watcher {
    /// Shows a rank: its process, and its connection to the Node Manager.
    pub(super) fn see(&self, rank: u32, process: &OwnedFd, pmi: &UnixStream) {
        // If the watcher was killed, nobody watches.
        let _ = send_descriptors(&self.0, rank, &[process.as_fd(), pmi.as_fd()]);
    }
}

/// A rank that the watcher was shown.
struct Seen {
    process: OwnedFd,
    pmi: File,
}

/// Makes the server and its watcher, whose parent ends. The watcher returns when the server has
/// ended.
pub(super) fn begin() -> Result<Part, ServeError> {
    let mut ranks: BTreeMap<u32, Seen> = starting().into_iter().collect();
    // SAFETY: the process has a single thread, so the child may do anything.
    if let ForkResult::Parent { .. } = unsafe { fork() }? {
        return Ok(Part::Starter);
    }
    let (watching, watched) = UnixStream::pair()?;
    // SAFETY: as above.
    let ForkResult::Parent { child } = (unsafe { fork() })? else {
        return Ok(Part::Server(Watcher(watched)));
    };
    drop(watched);
    // Until the server has ended.
    while let Ok((rank, [process, pmi])) = receive_descriptors(&watching) {
        ranks.insert(rank, Seen { process, pmi: pmi.into() });
    }
    let ended = loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            ended => break ended?,
        }
    };
    // A server that was killed with its job is not missed: no rank is left.
    if !matches!(ended, WaitStatus::Exited(_, 0)) {
        end_job(ranks);
    }
    Ok(Part::Watcher)
}

/// Ends the job of a dead server. Every remaining rank asks, as a rank that has said `finalize`
/// cannot.
fn end_job(ranks: BTreeMap<u32, Seen>) {
    let mut left: Vec<Seen> =
        ranks.into_values().filter(|rank| !has_ended(&rank.process)).collect();
    if left.is_empty() {
        return;
    }
    eprintln!("storm: the PMIx server of this node has died: the job cannot go on");
    for rank in &mut left {
        // If nobody hears it, the job is over.
        let _ = rank.pmi.write_all(format!("{}\n", Request::Abort { exit_code: 1 }).as_bytes());
    }
}

/// The rank that starts the server, which is this process's parent: the server may die before any
/// rank asks it.
fn starting() -> Option<(u32, Seen)> {
    let fd = number("PMI_FD").ok()?;
    // SAFETY: the rank left it open for us, and the borrow lasts for this line only.
    let pmi = unsafe { BorrowedFd::borrow_raw(fd as i32) }.try_clone_to_owned().ok()?;
    // The server gets ranks' connections from the ranks, so it needs no second one.
    // SAFETY: the descriptor is open, as it was just cloned, and no object owns it.
    unsafe { nix::libc::close(fd as i32) };
    let process = pidfd_open(Pid::from_raw(getppid().as_raw())?, PidfdFlags::empty()).ok()?;
    Some((number("STORM_RANK").ok()?, Seen { process, pmi: pmi.into() }))
}
