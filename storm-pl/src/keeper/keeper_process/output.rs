//! Processes that write the files that ranks of a job share.

use super::{Child, KeeperProcess};
use crate::ids::{Errno, ProcessId};
use crate::keeper::process_state::CONTROL_DESCRIPTOR;
use crate::seqpacket::Seqpacket;
use crate::shared_files::{FileFailure, FileStep, FilesEnd, SharedFilesSpec, run_writer, say_end};
use crate::sys::{self, Forked};
use crate::title::set_title;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

impl KeeperProcess {
    /// Starts a writer. The writer belongs to no pad, because it writes the output that a pad
    /// leaves in its pipes.
    pub(super) fn write_files(&mut self, spec: &SharedFilesSpec, came: Vec<OwnedFd>) {
        // If the socket did not arrive, the NM reads an end of file at its own end.
        let Some(socket) = came.into_iter().next() else { return };
        // SAFETY: the keeper has one thread.
        match unsafe { sys::fork_into(None) } {
            Ok(Forked::Child) => {
                set_title(&format!("storm: output {}", self.name));
                if let Ok(socket) = settle(&socket) {
                    run_writer(spec, socket);
                }
                sys::exit_now(0)
            }
            Ok(Forked::Parent(pid)) => {
                self.children.insert(pid.0, Child::FilesWriter);
            }
            Err(error) => {
                let (step, errno) = (FileStep::Start, Errno::of(&error));
                let failure = FileFailure { step, file: 0, errno };
                say_end(&Seqpacket::from(socket), FilesEnd::Failed(failure));
            }
        }
    }

    /// The writers that live.
    pub(super) fn files_writers(&self) -> Vec<ProcessId> {
        let writers = self.children.iter().filter(|(_, child)| matches!(child, Child::FilesWriter));
        writers.map(|(pid, _)| ProcessId(*pid)).collect()
    }
}

/// Closes everything of the keeper but the writer's socket. The lock of the node's cgroup and the
/// ends of streams must not stay open here after the keeper has ended.
fn settle(socket: &OwnedFd) -> Result<Seqpacket, Errno> {
    // SAFETY: the control socket and standard error are the keeper's, of which this process uses no
    // object any more. Standard input is `/dev/null`.
    let done = unsafe {
        libc::dup2(socket.as_raw_fd(), CONTROL_DESCRIPTOR) != -1
            && libc::dup2(libc::STDIN_FILENO, libc::STDERR_FILENO) != -1
    };
    if !done {
        return Err(Errno::last());
    }
    sys::close_from(CONTROL_DESCRIPTOR + 1)?;
    // SAFETY: it was put there just above, and nothing else owns it.
    Ok(Seqpacket::from(unsafe { OwnedFd::from_raw_fd(CONTROL_DESCRIPTOR) }))
}
