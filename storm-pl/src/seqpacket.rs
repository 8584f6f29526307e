//! A connected pair of local sockets that keeps message boundaries and carries descriptors.
//!
//! Every message between NM, keeper and PL travels over such a pair. This module does not interpret
//! the content.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use rustix::io::Errno as Interruption;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recv, recvmsg,
};

use crate::carried::CARRIED_MAX;

/// The most descriptors one message carries.
pub(crate) const DESCRIPTORS_MAX: usize = CARRIED_MAX;
/// The most descriptors that [`Seqpacket::receive_many`] takes.
pub(crate) const MANY_MAX: usize = 64;

/// How often an indispensable message is tried (some 100 ms).
const SOON_TRIES_MAX: u32 = 100;
const SOON_MS: u16 = 1;

/// Whether a call may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Sleep until the call can succeed.
    Block,
    /// Fail with `WouldBlock` instead.
    No,
}

/// One end of a pair.
#[derive(Debug)]
pub(crate) struct Seqpacket(OwnedFd);

/// One message.
#[derive(Debug)]
pub(crate) struct Received {
    /// Bytes written to the buffer; 0 means that the other end is gone.
    pub(crate) len: usize,
    /// Descriptors that arrived with the message.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// More descriptors were sent than this process may open (`EMFILE`). The kernel closed the
    /// rest.
    pub(crate) cut: bool,
}

impl Seqpacket {
    /// Makes a connected pair, closed on exec.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Self(a), Self(b)))
    }

    /// Sends one message, whole or not at all.
    pub(crate) fn send(
        &self,
        parts: &[IoSlice<'_>],
        descriptors: &[BorrowedFd<'_>],
        wait: Wait,
    ) -> io::Result<()> {
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
        let flags = MsgFlags::MSG_NOSIGNAL | wait.flags();
        loop {
            match sendmsg::<()>(self.0.as_raw_fd(), parts, control, flags, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends an indispensable message like [`send`](Self::send). Waits a little for a peer that
    /// gets no processor, and while too many descriptors of this user are on their way.
    pub(crate) fn send_soon(
        &self,
        parts: &[IoSlice<'_>],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut tries = 0;
        loop {
            let pause = match self.send(parts, descriptors, Wait::No) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => PollFlags::POLLOUT,
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    PollFlags::empty()
                }
                sent => return sent,
            };
            if tries == SOON_TRIES_MAX {
                return self.send(parts, descriptors, Wait::No);
            }
            tries += 1;
            let _ = poll(&mut [PollFd::new(self.as_fd(), pause)], PollTimeout::from(SOON_MS));
        }
    }

    /// Receives one message into `buffer`. If this process has no room for the descriptors, the
    /// message arrives without them ([`Received::cut`]).
    ///
    /// # Errors
    /// `InvalidData` if the message did not fit, or had more descriptors than one message carries.
    pub(crate) fn receive(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        self.receive_into(buffer, (&mut space, DESCRIPTORS_MAX), wait)
    }

    /// Receives a message like [`receive`](Self::receive), but with up to `MANY_MAX` descriptors.
    pub(crate) fn receive_many(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MANY_MAX))];
        self.receive_into(buffer, (&mut space, MANY_MAX), wait)
    }

    fn receive_into(
        &self,
        buffer: &mut [u8],
        (space, descriptors_max): (&mut [MaybeUninit<u8>], usize),
        wait: Wait,
    ) -> io::Result<Received> {
        let mut control = RecvAncillaryBuffer::new(space);
        let mut parts = [IoSliceMut::new(buffer)];
        let message = loop {
            match recvmsg(&self.0, &mut parts, &mut control, wait.receive_flags()) {
                Ok(message) => break message,
                Err(Interruption::INTR) => {}
                // A peer that died with unread data causes a reset. The reset is reported once,
                // before the peer's data.
                Err(Interruption::CONNRESET) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        // The descriptors of a cut message are taken too, since they are open.
        let mut descriptors = Vec::new();
        for item in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = item {
                descriptors.extend(came);
            }
        }
        let too_long = message.flags.contains(ReturnFlags::TRUNC);
        let cut = message.flags.contains(ReturnFlags::CTRUNC);
        // The space may hold more descriptors than permitted, and is full if too many were sent.
        let too_many = descriptors.len() + usize::from(cut) > descriptors_max;
        if too_long || too_many {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(Received { len: message.bytes, descriptors, cut })
    }

    /// Reads the next message into `buffer` and leaves it in the socket, for other holders of this
    /// end.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, len)) => return Ok(len.min(buffer.len())),
                Err(Interruption::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits for the next message and returns its length, or 0 if the other end is gone.
    pub(crate) fn next_len(&self) -> io::Result<usize> {
        loop {
            // SAFETY: a null buffer of length 0 is never written to.
            let result = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_PEEK | libc::MSG_TRUNC,
                )
            };
            match usize::try_from(result) {
                Ok(len) => return Ok(len),
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }

    /// Signals to the other end that no more messages follow.
    pub(crate) fn finish(&self) -> io::Result<()> {
        Ok(nix::sys::socket::shutdown(self.0.as_raw_fd(), nix::sys::socket::Shutdown::Write)?)
    }
}

impl Wait {
    fn flags(self) -> MsgFlags {
        match self {
            Self::Block => MsgFlags::empty(),
            Self::No => MsgFlags::MSG_DONTWAIT,
        }
    }

    fn receive_flags(self) -> RecvFlags {
        match self {
            Self::Block => RecvFlags::CMSG_CLOEXEC,
            Self::No => RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        }
    }
}

impl AsFd for Seqpacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Seqpacket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Seqpacket> for OwnedFd {
    fn from(socket: Seqpacket) -> Self {
        socket.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts this process's descriptors of a pipe.
    fn open_on(pipe: &io::PipeReader) -> usize {
        let link = |fd: String| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
        let own = link(pipe.as_raw_fd().to_string());
        let all = std::fs::read_dir("/proc/self/fd").expect("a list").flatten();
        all.filter(|fd| link(fd.file_name().to_string_lossy().into_owned()) == own).count()
    }

    #[test]
    fn a_message_with_too_many_descriptors_leaves_none_open() {
        let (one, other) = Seqpacket::pair().expect("a pair");
        let (reader, writer) = io::pipe().expect("a pipe");
        let send = |count: usize| {
            let descriptors = vec![writer.as_fd(); count];
            one.send(&[IoSlice::new(b"command")], &descriptors, Wait::Block).expect("sent");
        };
        let mut buffer = [0; 16];
        send(DESCRIPTORS_MAX);
        let received = other.receive(&mut buffer, Wait::No).expect("received");
        assert_eq!((received.len, received.descriptors.len()), (7, DESCRIPTORS_MAX));
        drop(received);
        for more in [1, 100] {
            send(DESCRIPTORS_MAX + more);
            let refused = other.receive(&mut buffer, Wait::No).expect_err("too many");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
        send(2);
        let refused = other.receive(&mut buffer[..3], Wait::No).expect_err("too long");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        drop(writer);
        assert_eq!(open_on(&reader), 1);
    }

    #[test]
    fn messages_of_a_peer_that_died_with_unread_ones_are_read() {
        let (one, other) = Seqpacket::pair().expect("a pair");
        other.send(&[IoSlice::new(b"unread")], &[], Wait::Block).expect("sent");
        one.send(&[IoSlice::new(b"last words")], &[], Wait::Block).expect("sent");
        drop(one);
        let mut buffer = [0; 16];
        assert_eq!(other.receive(&mut buffer, Wait::No).expect("received").len, 10);
        assert_eq!(other.receive(&mut buffer, Wait::No).expect("the end").len, 0);
    }
}
