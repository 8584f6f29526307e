//! Kills pads whose lease from the NM has run out: see [`crate::keeper::leases`].

use super::{KeeperProcess, LOOK_AGAIN_MS};
use crate::host_time::HostTime;
use crate::ids::PadId;
use crate::protocol::Command;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The longest sleep while there is a lease. While the host is suspended, the clock of a sleep
/// stops, but the clock of leases does not.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How many commands are read before their turn. An NM never has so many on their way.
const EARLY_MAX: usize = 1024;

impl KeeperProcess {
    /// Lets the pads' processes run until `until`. A pad whose lease has run out gets no new lease.
    pub(super) fn hold_leases(&mut self, pads: &[PadId], until: HostTime) {
        for id in pads {
            let held = |pad: &&super::Pad| pad.draining.is_none() && !pad.condemned;
            if self.pads.get(id).filter(held).is_some() {
                self.leases.hold(*id, until);
            }
        }
    }

    /// How long the keeper may sleep before a lease or the wait for the next NM runs out.
    pub(super) fn next_look(&self) -> PollTimeout {
        if self.pads.values().any(|pad| pad.condemned) {
            return LOOK_AGAIN_MS.into();
        }
        let of_leases = self.leases.next();
        let of_leases = of_leases.map(|until| until.0.saturating_sub(HostTime::now().0));
        let next = of_leases.into_iter().chain(self.orphan_timeout()).min();
        let Some(left) = next.map(|left| left.min(LONGEST_SLEEP)) else { return PollTimeout::NONE };
        // Rounded up, so that the keeper does not wake again and again just before the time.
        let left = left.as_micros().div_ceil(1_000);
        u16::try_from(left).map_or(PollTimeout::MAX, PollTimeout::from)
    }

    /// Whether the keeper must not sleep for long, because it has leases to watch.
    pub(super) fn must_look(&self) -> bool {
        self.leases.next().is_some() || self.pads.values().any(|pad| pad.condemned)
    }

    /// Kills the pads whose lease has run out, and reports them.
    pub(super) fn look_at_leases(&mut self) {
        if !self.must_look() {
            return;
        }
        // The keeper may have been without a processor, so an extension that was sent in time may
        // still be unread.
        while self.leases.are_over(HostTime::now()) && !self.ended && self.take_command() {}
        self.end_leases();
        self.tell_of_leases();
    }

    /// Kills the pads whose lease has run out. Sends no report, because sending may have to wait.
    fn end_leases(&mut self) {
        for id in self.leases.take_over(HostTime::now()) {
            let Some(pad) = self.pads.get_mut(&id) else { continue };
            pad.kill_everything();
            pad.condemned = true;
            self.leases_over.push(id);
            self.kept.on(id).for_each(|job| job.lease_over = true);
        }
        self.pads.values_mut().filter(|pad| pad.condemned).for_each(super::Pad::look_at_condemned);
    }

    /// Waits until the NM takes reports again, or a lease needs attention. Commands about leases
    /// that the NM sent before it stopped reading count at once; others have their turn later.
    pub(super) fn await_room(&mut self) {
        let mut wanted = PollFlags::POLLOUT;
        wanted.set(PollFlags::POLLIN, self.may_read_ahead());
        let mut room = [PollFd::new(self.control.as_fd(), wanted)];
        if poll(&mut room, self.next_look()) == Ok(0) {
            return self.end_leases();
        }
        let has_said = room[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
        match has_said.then(|| self.receive()).flatten() {
            Some((Command::Lease { pads, until }, _)) => self.hold_leases(&pads, until),
            Some((command, came)) => self.put_off(command, came),
            None => {}
        }
    }

    /// Whether a command may be read before its turn.
    pub(super) fn may_read_ahead(&self) -> bool {
        // After the end of an NM, only the socket of the next NM arrives, and nothing after the
        // socket.
        !self.hears_last && !self.is_orphan() && self.early.len() < EARLY_MAX
    }

    /// Stores a command that was read before its turn.
    pub(super) fn put_off(&mut self, command: Command, came: Vec<OwnedFd>) {
        // No process reads the present report any more.
        self.hears_last |= matches!(command, Command::Orphan);
        self.early.push_back((command, came));
    }
}
