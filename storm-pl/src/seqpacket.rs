//! A connected pair of local sockets that keeps message boundaries and carries descriptors.
//!
//! Every message between NM, keeper and PL travels on one. It does not know what is in them.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

/// The most descriptors one message carries: command, stdin, stdout, stderr, PMI.
pub(crate) const DESCRIPTORS_MAX: usize = 5;

/// Whether a call may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Sleep until it can be done.
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
    /// Descriptors that came with it.
    pub(crate) descriptors: Vec<OwnedFd>,
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

    /// Receives one message into `buffer`.
    ///
    /// # Errors
    /// `InvalidData` when the message or its descriptors did not fit.
    pub(crate) fn receive(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Received> {
        let mut space = cmsg_space!([RawFd; DESCRIPTORS_MAX]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | wait.flags();
        let mut parts = [IoSliceMut::new(buffer)];
        let message = loop {
            match recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags) {
                Ok(message) => break message,
                Err(Errno::EINTR) => {}
                // A peer that died with unread data resets; for us that is the same as closed.
                Err(Errno::ECONNRESET) => {
                    return Ok(Received { len: 0, descriptors: Vec::new() });
                }
                Err(errno) => return Err(errno.into()),
            }
        };
        let cut = message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
        let len = message.bytes;
        let mut descriptors = Vec::new();
        if let Ok(control) = message.cmsgs() {
            for item in control {
                if let ControlMessageOwned::ScmRights(raw) = item {
                    // SAFETY: the kernel has just installed these descriptors for this process and
                    // nothing else knows them.
                    descriptors.extend(raw.iter().map(|&fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                }
            }
        }
        if cut {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(Received { len, descriptors })
    }

    /// Waits for the next message and tells its length, 0 when the other end is gone.
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

    /// Tells the other end that nothing more will come.
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
