//! The ranks of one node: this rank's inbox and doorbell, and those of its neighbours.

use super::directory::Card;
use super::doorbell::{BellName, Doorbell};
use super::inbox::{Inbox, LocalIndex, MAX_LOCAL_RANKS};
use super::poller::{Poller, Watched};
use crate::error::InitError;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::SocketAddr;

/// Shared memory of this rank with its neighbours.
pub(super) struct Local {
    me: LocalIndex,
    inbox: Inbox,
    /// Kept open: neighbours open the inbox through this descriptor.
    file: File,
    bell: Doorbell,
    neighbours: Vec<Option<Neighbour>>,
}

struct Neighbour {
    inbox: Inbox,
    bell: SocketAddr,
}

impl Local {
    /// Makes the inbox and the doorbell of the `me`-th of `ranks` ranks.
    pub(super) fn open(
        me: LocalIndex,
        ranks: usize,
        bell: BellName,
        poller: &Poller,
    ) -> Result<Self, InitError> {
        if ranks > MAX_LOCAL_RANKS {
            return Err(InitError::TooManyLocalRanks { ranks, limit: MAX_LOCAL_RANKS });
        }
        let (inbox, file) =
            Inbox::create(ranks, me).map_err(InitError::os("making shared memory"))?;
        let bell = Doorbell::hang(bell).map_err(InitError::os("making a doorbell socket"))?;
        poller.watch(&bell, Watched::Bell, false).map_err(InitError::os("epoll"))?;
        let neighbours = (0..ranks).map(|_| None).collect();
        Ok(Local { me, inbox, file, bell, neighbours })
    }

    /// The descriptor by which neighbours find the inbox.
    pub(super) fn inbox_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(super) fn knows(&self, peer: LocalIndex) -> bool {
        self.neighbours[peer.0].is_some()
    }

    /// Opens a neighbour's inbox, as its card says.
    pub(super) fn attach(&mut self, peer: LocalIndex, card: &Card) -> io::Result<()> {
        let path = format!("/proc/{}/fd/{}", card.pid, card.inbox_fd);
        let file = File::options().read(true).write(true).open(path)?;
        let inbox = Inbox::attach(&file, self.neighbours.len(), peer)?;
        self.neighbours[peer.0] = Some(Neighbour { inbox, bell: card.bell.address()? });
        Ok(())
    }

    /// Puts as much as fits into the neighbour's ring. When that is not all, the neighbour pokes
    /// this rank once there is space.
    pub(super) fn send(&self, peer: LocalIndex, buffers: [&[u8]; 2]) -> io::Result<usize> {
        let Some(neighbour) = &self.neighbours[peer.0] else { return Ok(0) };
        let ring = neighbour.inbox.ring(self.me);
        let total = buffers[0].len() + buffers[1].len();
        let mut sent = 0;
        // Ends: each turn either sends a byte or leaves on a full ring.
        while sent < total {
            let first = sent.min(buffers[0].len());
            let rest = [&buffers[0][first..], &buffers[1][sent - first..]];
            match ring.push(rest).map_err(corrupt)? {
                0 if ring.ask_for_space().map_err(corrupt)? => {}
                0 => break,
                n => {
                    sent += n;
                    self.poke(peer)?;
                }
            }
        }
        Ok(sent)
    }

    /// Takes up to `into.len()` bytes of what the neighbour has sent.
    pub(super) fn read(&self, peer: LocalIndex, into: &mut [u8]) -> io::Result<Taken> {
        let ring = self.inbox.ring(peer);
        let bytes = ring.pop(into).map_err(corrupt)?;
        let space_wanted = bytes > 0 && ring.space_wanted().map_err(corrupt)?;
        Ok(Taken { bytes, space_wanted })
    }

    /// Tells a neighbour to look at this rank's ring and at the space in its own.
    pub(super) fn poke(&self, peer: LocalIndex) -> io::Result<()> {
        match &self.neighbours[peer.0] {
            Some(n) if n.inbox.poke(self.me) => self.bell.ring(&n.bell),
            _ => Ok(()),
        }
    }

    /// Called when the doorbell has rung.
    pub(super) fn answer_bell(&self) {
        self.bell.silence();
    }
}

/// What [`Local::read`] did.
pub(super) struct Taken {
    pub(super) bytes: usize,
    /// The neighbour waits for space: it is to be poked.
    pub(super) space_wanted: bool,
}

fn corrupt(error: super::ring::CorruptRing) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
