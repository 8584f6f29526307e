//! What the keeper tells the NM.

use super::{KeeperProcess, LOOK_AGAIN_MS, News};
use crate::ids::{Errno, PadId};
use crate::protocol::{self, PadStep, Report};
use crate::seqpacket::Wait;
use nix::poll::{PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Tries (some 2 s) to hand over the descriptors of a PL.
const HANDOVER_TRIES_MAX: u32 = 1_000;

impl KeeperProcess {
    pub(super) fn tell(&mut self, untold: &mut Vec<News>) {
        for (report, ends) in untold.drain(..) {
            let ends: Vec<&OwnedFd> = ends.iter().flatten().collect();
            self.report(&report, &ends);
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

    fn send(&mut self, report: &Report, descriptors: &[&OwnedFd]) {
        let borrowed: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        let mut tries = 0;
        // The next NM is told of what it has to know by what is kept.
        while tries < HANDOVER_TRIES_MAX && !self.ended && !self.is_orphan() {
            // An NM that is stopped takes nothing, and the leases go on.
            match protocol::send(&self.control, report, &borrowed, Wait::No) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_room(),
                // Too many descriptors of this user are on their way: an NM has to take some.
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    let _ = poll(&mut [], PollTimeout::from(LOOK_AGAIN_MS));
                    tries += 1;
                }
                Err(_) => return self.lose_nm(),
            }
        }
        if let Report::PlReady { pad, .. } = report {
            // Its ends close with this function; the PL sees that and exits.
            self.failed(*pad, PadStep::Handover, Errno(libc::ETOOMANYREFS));
        }
    }
}
