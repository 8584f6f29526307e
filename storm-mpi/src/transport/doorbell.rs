//! The doorbell of a sleeping rank: an abstract Unix datagram socket. `epoll` waits on it together
//! with the TCP connections.
//!
//! The name is random and vanishes with its owner. A datagram only means "check again", so a
//! datagram from an unknown process costs one wake-up and nothing else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The random part of a doorbell's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BellName(pub(super) u128);

impl BellName {
    pub(super) fn address(self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(format!("storm-mpi-{:032x}", self.0))
    }
}

/// A rank's doorbell. The rank also uses it to ring the doorbells of others.
pub(super) struct Doorbell {
    socket: UnixDatagram,
}

impl Doorbell {
    pub(super) fn hang(name: BellName) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name.address()?)?;
        socket.set_nonblocking(true)?;
        Ok(Doorbell { socket })
    }

    /// Wakes the owner of `bell`. A full queue counts as success: the owner is already being woken.
    ///
    /// # Errors
    /// `ConnectionRefused` when the owner is gone.
    pub(super) fn ring(&self, bell: &SocketAddr) -> io::Result<()> {
        loop {
            match self.socket.send_to_addr(&[1], bell) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Discards the rings so far.
    pub(super) fn silence(&self) {
        // Any failure means that no datagram is left, or that another call will report the cause.
        while self.socket.recv(&mut [0; 8]).is_ok() {}
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_never_refused_for_their_number() {
        let name = BellName(u128::from(std::process::id()) << 32 | 0xbe11);
        let bell = Doorbell::hang(name).unwrap();
        let other = Doorbell::hang(BellName(name.0 + 1)).unwrap();
        for _ in 0..1000 {
            other.ring(&name.address().unwrap()).unwrap();
        }
        bell.silence();
        drop(bell);
        let gone = other.ring(&name.address().unwrap()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
    }
}
