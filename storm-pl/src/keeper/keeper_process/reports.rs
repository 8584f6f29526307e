//! Reports of the keeper to the NM.

use super::{KeeperProcess, Kind, LOOK_AGAIN_MS, News};
use crate::ids::{Errno, PadId};
use crate::protocol::{self, PadStep, Report};
use crate::seqpacket::Wait;
use crate::shortage::Shortage;
use nix::poll::{PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// How often a message is tried (some 2 s) while the kernel has no room for it.
const TRIES_MAX: u32 = 1_000;

impl KeeperProcess {
    pub(super) fn tell(&mut self, untold: &mut Vec<News>) {
        for (report, command) in untold.drain(..) {
            let command: Vec<&OwnedFd> = command.iter().collect();
            self.report(&report, &command);
        }
    }

    pub(super) fn failed(&mut self, pad: PadId, step: PadStep, errno: Errno) {
        self.report(&Report::PadFailed { pad, step, errno }, &[]);
    }

    pub(super) fn report(&mut self, report: &Report, descriptors: &[&OwnedFd]) {
        // Sent first: otherwise the NM would take the ends of killed ranks for failures.
        self.tell_of_leases();
        self.send(report, descriptors);
    }

    /// Reports the leases that have run out.
    pub(super) fn tell_of_leases(&mut self) {
        while let Some(pad) = self.leases_over.pop() {
            self.send(&Report::LeaseOver { pad }, &[]);
        }
    }

    pub(super) fn send(&mut self, report: &Report, descriptors: &[&OwnedFd]) {
        if self.is_orphan() || self.hears_last {
            // The next NM gets everything from the kept jobs.
            return;
        }
        let borrowed: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        let mut tries = 0;
        while tries < TRIES_MAX && !self.ended {
            // A stopped NM takes no report, and the leases must be enforced meanwhile.
            match protocol::send(&self.control, report, &borrowed, Wait::No) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_room(),
                // Too many descriptors of this user are on their way until an NM takes some, or the
                // kernel has no memory for the message.
                Err(error) if Shortage::of(Errno::of(&error)).is_some() => {
                    let _ = poll(&mut [], PollTimeout::from(LOOK_AGAIN_MS));
                    tries += 1;
                }
                // The node's keeper may already have sent the next command. The command and the end
                // of this socket are read in their turn.
                Err(_) if self.kind == Kind::OnePad => return,
                Err(_) => return self.lose_nm(),
            }
            if self.is_orphan() || self.hears_last {
                // The NM closed its socket while this call waited for room.
                return;
            }
        }
        if let Report::PlReady { pad, .. } = report {
            // The PL's socket closes with this function; the PL sees the end and exits.
            self.failed(*pad, PadStep::Handover, Errno(libc::ETOOMANYREFS));
        } else {
            // An NM that misses the end of a rank would wait for it for ever.
            self.ended = true;
        }
    }
}
