//! Keepers of one pad each, on a node without cgroup v2.

use super::{Child, KeeperProcess, Kind, Sizes};
use crate::ids::{Errno, PadId};
use crate::keeper::process_state::{PARENT_GONE, settle};
use crate::protocol::{PadStep, Report};
use crate::seqpacket::Seqpacket;
use crate::sys::{self, Forked};
use std::os::fd::OwnedFd;

impl KeeperProcess {
    /// Forks the keeper of one pad. It gets its own control socket to the NM.
    pub(super) fn make_pad_keeper(&mut self, id: PadId, pls: u16) {
        let (ours, theirs) = match Seqpacket::pair() {
            Ok(pair) => pair,
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
                self.children.insert(pid.0, Child::PadKeeper);
                self.report(&Report::PadKeeper { pad: id, pid }, &[&ours.into()]);
            }
            Err(error) => self.failed(id, PadStep::Fork, Errno::of(&error)),
        }
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
