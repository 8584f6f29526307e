//! The socket at which the next Node Manager of a node finds the keeper of the previous one.
//!
//! Keeper and Node Manager may be of different versions. The first message of each side therefore
//! never changes its form: [`MAGIC`], a version and a process, four bytes each, little-endian.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt,
    listen, socket,
};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::ids::ProcessId;
use crate::protocol::KEEPER_VERSION;
use crate::seqpacket::{Seqpacket, Wait};

const MAGIC: [u8; 8] = *b"STORMkpr";
const GREETING_BYTES: usize = 16;
/// A greeting follows the connection at once, so a late greeting never arrives.
const GREETING_TIMEOUT_MS: u16 = 1_000;
/// How many Node Managers may wait to connect. In practice there is one.
const BACKLOG: i32 = 4;

/// The first message of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) version: u32,
    pub(crate) pid: ProcessId,
}

impl Greeting {
    /// The greeting of this process.
    pub(crate) fn own() -> Self {
        Self { version: KEEPER_VERSION, pid: ProcessId(nix::unistd::getpid().as_raw()) }
    }

    pub(crate) fn send(self, socket: &Seqpacket) -> io::Result<()> {
        let (version, pid) = (self.version.to_le_bytes(), self.pid.0.to_le_bytes());
        let parts = [IoSlice::new(&MAGIC), IoSlice::new(&version), IoSlice::new(&pid)];
        socket.send(&parts, &[], Wait::No)
    }

    /// Reads the greeting of the other side. Waits for it up to `timeout`.
    pub(crate) fn receive(socket: &Seqpacket, timeout: PollTimeout) -> io::Result<Self> {
        let mut source = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        while let Err(errno) = poll(&mut source, timeout) {
            if errno != nix::errno::Errno::EINTR {
                return Err(errno.into());
            }
        }
        let mut buffer = [0; GREETING_BYTES];
        let received = socket.receive(&mut buffer, Wait::No)?;
        Self::decode(&buffer[..received.len]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, pid) = bytes.strip_prefix(&MAGIC)?.split_first_chunk()?;
        let pid = i32::from_le_bytes(pid.try_into().ok()?);
        Some(Self { version: u32::from_le_bytes(*version), pid: ProcessId(pid) })
    }
}

/// The socket of a keeper. Dropping it removes its name.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
    socket: OwnedFd,
}

impl Door {
    /// Makes the socket. An old one belongs to a keeper that has ended, since the Node Manager that
    /// starts this keeper holds the lock on the directory.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        with_short_name(path, |address| Ok(bind(socket.as_raw_fd(), address)?))?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok(Self { path: path.to_owned(), socket })
    }

    /// Accepts the next connection, if it is of the same user and sends a valid greeting.
    pub(crate) fn admit(&self) -> Option<(Seqpacket, Greeting)> {
        let fd = accept4(self.socket.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: the kernel has just made this descriptor for this process.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let peer = getsockopt(&socket, PeerCredentials).ok()?;
        if peer.uid() != nix::unistd::geteuid().as_raw() {
            return None;
        }
        let socket = Seqpacket::from(socket);
        let greeting = Greeting::receive(&socket, GREETING_TIMEOUT_MS.into()).ok()?;
        Some((socket, greeting))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // A name that stays behind leads to no keeper, so a failure does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the keeper that listens at `path`. Returns `None` if no keeper is there.
pub(crate) fn knock(path: &Path) -> io::Result<Option<Seqpacket>> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    let connected = with_short_name(path, |address| Ok(connect(socket.as_raw_fd(), address)?));
    match connected {
        Ok(()) => {}
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let socket = Seqpacket::from(socket);
    match Greeting::own().send(&socket) {
        Ok(()) => Ok(Some(socket)),
        Err(error) if error.raw_os_error() == Some(libc::EPIPE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process that listens at this door, if any. The keeper does not notice, and continues.
///
/// # Errors
/// The connection fails, or too many callers wait at the door.
pub fn keeper_at(door: &Path) -> io::Result<Option<ProcessId>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    match with_short_name(door, |address| Ok(connect(socket.as_raw_fd(), address)?)) {
        Ok(()) => Ok(Some(ProcessId(getsockopt(&socket, PeerCredentials)?.pid()))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The name of a socket has at most 107 bytes. A longer path is opened relative to its directory.
fn with_short_name<T>(path: &Path, act: impl FnOnce(&UnixAddr) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = (OFlag::O_DIRECTORY | OFlag::O_PATH).bits();
    let directory = File::options().read(true).custom_flags(flags).open(directory)?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    act(&UnixAddr::new(&short)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_knocks_is_let_in_and_both_know_the_versions() {
        let directory = tempfile::tempdir().expect("room");
        let deep = directory.path().join("d".repeat(120));
        fs::create_dir(&deep).expect("made");
        let path = deep.join("keeper");
        assert!(knock(&path).expect("no error").is_none(), "nobody is there");
        let door = Door::open(&path).expect("opened");
        let knocked = knock(&path).expect("no error").expect("a door");
        let (admitted, greeting) = door.admit().expect("it has greeted");
        assert_eq!(greeting, Greeting::own());
        Greeting { version: 77, pid: ProcessId(5) }.send(&admitted).expect("sent");
        let heard = Greeting::receive(&knocked, PollTimeout::from(1_000u16)).expect("heard");
        assert_eq!((heard.version, heard.pid), (77, ProcessId(5)));
        drop(door);
        assert!(knock(&path).expect("no error").is_none(), "the name is gone");
    }

    #[test]
    fn a_look_at_a_door_tells_whose_it_is_and_lets_nobody_in() {
        let directory = tempfile::tempdir().expect("room");
        let path = directory.path().join("keeper");
        assert_eq!(keeper_at(&path).expect("no error"), None);
        let door = Door::open(&path).expect("opened");
        let own = Greeting::own().pid;
        assert_eq!(keeper_at(&path).expect("no error"), Some(own));
        assert!(door.admit().is_none(), "nobody has greeted");
        // A killed keeper leaves its socket behind in the same way.
        let left = directory.path().join("left");
        fs::hard_link(&path, &left).expect("linked");
        drop(door);
        assert_eq!(keeper_at(&left).expect("no error"), None);
    }

    #[test]
    fn a_daemon_without_a_greeting_is_not_let_in() {
        let directory = tempfile::tempdir().expect("room");
        let path = directory.path().join("keeper");
        let door = Door::open(&path).expect("opened");
        let flags = SockFlag::SOCK_CLOEXEC;
        let stranger = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("one");
        with_short_name(&path, |at| Ok(connect(stranger.as_raw_fd(), at)?)).expect("connected");
        let stranger = Seqpacket::from(stranger);
        stranger.send(&[IoSlice::new(b"let me in")], &[], Wait::No).expect("sent");
        assert!(door.admit().is_none());
    }
}
