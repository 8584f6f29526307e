//! Keepers of one pad each, on a node without cgroup v2.
//!
//! The keeper of a pad reaps the processes of the pad, so it keeps the pad's job when the NM is
//! gone. The next NM finds the node's keeper, which also enforces the bound. The node's keeper has
//! a copy of the NM's end of each pad keeper's socket. Through the copy, it reports the loss of an
//! NM and the arrival of the next NM
//! (`docs/decisions/0138-jobs-outlive-a-node-manager-without-control-groups.md`).

use super::{Child, KeeperProcess, Kind, Sizes};
use crate::ids::{Errno, PadId, ProcessId};
use crate::keeper::process_state::{PARENT_GONE, settle};
use crate::protocol::{Command, PadStep, Report};
use crate::seqpacket::{Seqpacket, Wait};
use crate::sys::{self, Forked};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::orphan::tell;

/// The keeper of a pad, as the node's keeper knows it.
pub(super) struct PadKeeper {
    pid: ProcessId,
    /// The NM's end of its control socket. The keeper ends with its job when no copy is left.
    control: Seqpacket,
}

impl PadKeeper {
    /// Makes the keeper of the pad hand over its job through a new socket.
    fn adopt(&mut self) -> io::Result<()> {
        let (ours, theirs) = Seqpacket::pair()?;
        tell(&self.control, &Command::Adopt, &[theirs.as_fd()], Wait::No)?;
        self.control = ours;
        Ok(())
    }
}

impl KeeperProcess {
    /// Forks the keeper of one pad, with a control socket of its own to the NM.
    pub(super) fn make_pad_keeper(&mut self, id: PadId, pls: u16) {
        let (ours, theirs) = match Seqpacket::pair() {
            Ok((ours, theirs)) => (OwnedFd::from(ours), theirs),
            Err(error) => return self.failed(id, PadStep::Socket, Errno::of(&error)),
        };
        let parent = nix::unistd::getpid();
        // SAFETY: the keeper has one thread.
        match unsafe { sys::fork_into(None) } {
            Ok(Forked::Child) => {
                let name = std::mem::take(&mut self.name);
                run_pad_keeper(theirs.into(), parent, (self.sizes, name), (id, pls));
                sys::exit_now(0)
            }
            Ok(Forked::Parent(pid)) => {
                self.children.insert(pid.0, Child::PadKeeper(id));
                // The copy is made before the report, which may find the NM gone. Without a copy
                // the keeper of the pad ends with the NM.
                if self.survivor.is_some()
                    && let Ok(copy) = ours.try_clone()
                {
                    self.pad_keepers.insert(id, PadKeeper { pid, control: copy.into() });
                }
                self.report(&Report::PadKeeper { pad: id, pid }, &[&ours]);
            }
            Err(error) => self.failed(id, PadStep::Fork, Errno::of(&error)),
        }
    }

    /// Handles the end of a pad's keeper. Another may have its pad by now.
    pub(super) fn pad_keeper_ended(&mut self, pad: PadId, process: ProcessId) {
        self.orphans = true;
        if self.pad_keepers.get(&pad).is_some_and(|keeper| keeper.pid == process) {
            self.pad_keepers.remove(&pad);
        }
    }

    /// Reports to the keepers of pads that the NM is gone. A keeper that cannot be reached ends
    /// with its job.
    pub(super) fn orphan_pad_keepers(&mut self) {
        self.pad_keepers
            .retain(|_, keeper| tell(&keeper.control, &Command::Orphan, &[], Wait::No).is_ok());
    }

    /// Reports to the keepers of pads that there is an NM again. A keeper that cannot be reached
    /// ends with its job.
    pub(super) fn adopt_pad_keepers(&mut self) {
        self.pad_keepers.retain(|_, keeper| keeper.adopt().is_ok());
    }

    /// Hands the sockets of the pads' keepers to the next NM.
    pub(super) fn hand_over_pad_keepers(&self, to: &Seqpacket) -> io::Result<()> {
        for (pad, PadKeeper { pid, control }) in &self.pad_keepers {
            let report = Report::PadKeeper { pad: *pad, pid: *pid };
            tell(to, &report, &[control.as_fd()], Wait::Block)?;
        }
        Ok(())
    }
}

fn run_pad_keeper(
    control: OwnedFd,
    parent: nix::unistd::Pid,
    (sizes, name): (Sizes, String),
    (id, pls): (PadId, u16),
) {
    let Ok(control) = settle(control) else { return };
    let kind = (Kind::OnePad, name);
    let Ok(mut keeper) = KeeperProcess::new(control, sizes, None, kind) else { return };
    let followed = sys::set_parent_death_signal(PARENT_GONE as i32);
    if followed.is_err() || nix::unistd::getppid() != parent {
        return;
    }
    keeper.make_pad(id, pls);
    keeper.run();
}
