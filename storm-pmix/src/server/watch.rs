//! The watcher of the server. If the server dies before its ranks, the ranks lose PMIx, and most
//! libraries then give no useful error.
//!
//! The server gives the watcher a handle on each rank that it serves. When the server is gone, the
//! watcher requests the end of the job over the connection of a rank that still exists.

use super::ServeError;
use super::ended::has_ended;
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

/// The role of a process from now on.
pub(super) enum Part {
    /// The started process, which ends.
    Starter,
    /// The process that serves.
    Server(Watcher),
    /// The watcher, after its server has ended. It must end too.
    Watcher,
}

/// The server's end of the connection with its watcher.
pub(super) struct Watcher(UnixStream);

impl Watcher {
    /// Shows a served rank to the watcher: its process, and its connection with the Node Manager.
    pub(super) fn see(&self, rank: u32, process: &OwnedFd, pmi: &UnixStream) {
        // The send fails if the watcher was killed. The server then continues without a watcher.
        let _ = send_descriptors(&self.0, rank, &[process.as_fd(), pmi.as_fd()]);
    }
}

/// The watcher's knowledge of a rank.
struct Seen {
    process: OwnedFd,
    pmi: File,
}

/// Forks the server and its watcher. The processes that fork them end. The watcher returns when the
/// server has ended.
pub(super) fn begin() -> Result<Part, ServeError> {
    let mut ranks: BTreeMap<u32, Seen> = starting().into_iter().collect();
    // SAFETY: the process has one thread, so the child may do anything.
    if let ForkResult::Parent { .. } = unsafe { fork() }? {
        return Ok(Part::Starter);
    }
    let (watching, watched) = UnixStream::pair()?;
    // SAFETY: as above.
    let ForkResult::Parent { child } = (unsafe { fork() })? else {
        return Ok(Part::Server(Watcher(watched)));
    };
    drop(watched);
    // The loop runs until the server has ended.
    while let Ok((rank, [process, pmi])) = receive_descriptors(&watching) {
        ranks.insert(rank, Seen { process, pmi: pmi.into() });
    }
    let ended = loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            ended => break ended?,
        }
    };
    // If the server was killed together with the job, there is nothing to do.
    if !matches!(ended, WaitStatus::Exited(_, 0)) {
        end_job(ranks);
    }
    Ok(Part::Watcher)
}

/// Ends the job after the server's death. A rank that has sent `finalize` cannot request it, so the
/// request is sent for all remaining ranks.
fn end_job(ranks: BTreeMap<u32, Seen>) {
    let mut left: Vec<Seen> =
        ranks.into_values().filter(|rank| !has_ended(&rank.process)).collect();
    if left.is_empty() {
        return;
    }
    eprintln!("storm: the PMIx server of this node has died: the job cannot continue");
    for rank in &mut left {
        // The write fails if the job is already over.
        let _ = rank.pmi.write_all(format!("{}\n", Request::Abort { exit_code: 1 }).as_bytes());
    }
}

/// The rank that starts the server and is the parent of this process. With its connection, the
/// watcher can end the job even if the server dies before its first request.
fn starting() -> Option<(u32, Seen)> {
    let fd = number("PMI_FD").ok()?;
    // SAFETY: the rank has left the descriptor open for this process; it is borrowed for this line
    // only.
    let pmi = unsafe { BorrowedFd::borrow_raw(fd as i32) }.try_clone_to_owned().ok()?;
    // The server receives the ranks' connections from the ranks, so this descriptor is not needed.
    // SAFETY: the descriptor is open, because it was just cloned, and no object owns it.
    unsafe { nix::libc::close(fd as i32) };
    let process = pidfd_open(Pid::from_raw(getppid().as_raw())?, PidfdFlags::empty()).ok()?;
    Some((number("STORM_RANK").ok()?, Seen { process, pmi: pmi.into() }))
}
