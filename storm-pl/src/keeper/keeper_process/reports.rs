//! What the keeper tells the NM.

use super::{KeeperProcess, Kind, LOOK_AGAIN_MS, News};
use crate::ids::{Errno, PadId};
use crate::protocol::{self, PadStep, Report};
use crate::seqpacket::Wait;
use crate::shortage::Shortage;
use nix::poll::{PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Tries (some 2 s) to say what the kernel has no room for.
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
        // Else the ends of what was killed would be those of ranks that failed.
        self.tell_of_leases();
        self.send(report, descriptors);
    }

    /// Tells of the leases that have run out.
    pub(super) fn tell_of_leases(&mut self) {
        while let Some(pad) = self.leases_over.pop() {
            self.send(&Report::LeaseOver { pad }, &[]);
        }
    }

    pub(super) fn send(&mut self, report: &Report, descriptors: &[&OwnedFd]) {
        if self.is_orphan() || self.hears_last {
            // The next NM is told of what it has to know by what is kept.
            return;
        }
        let borrowed: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        let mut tries = 0;
        while tries < TRIES_MAX && !self.ended {
            // An NM that is stopped takes nothing, and the leases go on.
            match protocol::send(&self.control, report, &borrowed, Wait::No) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_room(),
                // Too many descriptors of this user are on their way, and an NM has to take some; or
                // the kernel has no memory for the message.
                Err(error) if Shortage::of(Errno::of(&error)).is_some() => {
                    let _ = poll(&mut [], PollTimeout::from(LOOK_AGAIN_MS));
                    tries += 1;
                }
                // The node's keeper may have said what comes next: it is read in its turn, and so is the
                // end of this socket.
                Err(_) if self.kind == Kind::OnePad => return,
                Err(_) => return self.lose_nm(),
            }
            if self.is_orphan() || self.hears_last {
                // It went while this waited for room.
                return;
            }
        }
        if let Report::PlReady { pad, .. } = report {
            // Its socket closes with this function; the PL sees that and exits.
            self.failed(*pad, PadStep::Handover, Errno(libc::ETOOMANYREFS));
        } else {
            // An NM that misses the end of a rank waits for it for ever.
            self.ended = true;
        }
    }
}
