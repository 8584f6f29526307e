//! Who watches the server. A server that dies before its ranks takes their PMIx with it, of which most
//! libraries say nothing that explains it.
//!
//! The server shows each rank that it serves to the process that watches: when the server is gone, that
//! asks for the end of the job on the connection of a rank that is still there.

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

/// What a process is from now on.
pub(super) enum Part {
    /// The one that was started: it ends.
    Starter,
    /// The one that serves.
    Server(Watcher),
    /// The server has ended, and so does this.
    Watcher,
}

/// The server's end of its connection with who watches it.
pub(super) struct Watcher(UnixStream);

impl Watcher {
    /// A rank is served: its process, and its connection with the Node Manager.
    pub(super) fn see(&self, rank: u32, process: &OwnedFd, pmi: &UnixStream) {
        // Who watches may have been killed: then nobody does.
        let _ = send_descriptors(&self.0, rank, &[process.as_fd(), pmi.as_fd()]);
    }
}

/// A rank, as the watcher knows it.
struct Seen {
    process: OwnedFd,
    pmi: File,
}

/// Makes the server and its watcher, children of nobody that is left. The watcher returns when
/// the server has ended.
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
    // Killed with the job, it is not missed.
    if !matches!(ended, WaitStatus::Exited(_, 0)) {
        end_job(ranks);
    }
    Ok(Part::Watcher)
}

/// The server has died. A rank that has taken its leave cannot ask for anything: so all that are there do.
fn end_job(ranks: BTreeMap<u32, Seen>) {
    let mut left: Vec<Seen> =
        ranks.into_values().filter(|rank| !has_ended(&rank.process)).collect();
    if left.is_empty() {
        return;
    }
    eprintln!("storm: the PMIx server of this node has died: the job cannot go on");
    for rank in &mut left {
        // Where nobody hears it the job is over.
        let _ = rank.pmi.write_all(format!("{}\n", Request::Abort { exit_code: 1 }).as_bytes());
    }
}

/// The rank that starts the server, which is the parent of this process: the server may die before it is
/// asked for anything.
fn starting() -> Option<(u32, Seen)> {
    let fd = number("PMI_FD").ok()?;
    // SAFETY: the rank has left it open for us; borrowed for this line only.
    let pmi = unsafe { BorrowedFd::borrow_raw(fd as i32) }.try_clone_to_owned().ok()?;
    // The server gets the ranks' connections from the ranks: this one would be a second.
    // SAFETY: open, as it was just cloned, and no object owns it.
    unsafe { nix::libc::close(fd as i32) };
    let process = pidfd_open(Pid::from_raw(getppid().as_raw())?, PidfdFlags::empty()).ok()?;
    Some((number("STORM_RANK").ok()?, Seen { process, pmi: pmi.into() }))
}
