//! Pieces of large transfers between members on one host. The bytes stay in sealed memory, and the
//! frame tells where they are.
//!
//! Loopback sockets copy a piece twice for every child and wake the child several times. A file in
//! memory (`memfd_create(2)`) is written once, by the root. Every other member reads it and passes
//! the reference on to its own children. The seals (`F_SEAL_WRITE`, `F_SEAL_SHRINK`) guarantee that
//! no process can change or truncate the file, not even its owner. All members therefore read the
//! same bytes.
//!
//! A member does not trust a local reference. It refuses a reference that does not lead to a sealed
//! file of the announced identity and length, and the link continues without references
//! ([`SharedMemoryError`]).

use crate::wire::MAX_PAYLOAD_BYTES;
use bytes::Bytes;
use memmap2::Mmap;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::rc::Rc;
use thiserror::Error;

/// Shorter pieces are cheaper inside their frame.
const MIN_SHARED_BYTES: usize = 32 << 10;
/// The longest piece: no larger announcement is believed.
const MAX_SHARED_BYTES: u64 = MAX_PAYLOAD_BYTES as u64;
/// The operations that are forbidden on shared memory once it is filled.
const SEALS: SealFlag = SealFlag::F_SEAL_WRITE
    .union(SealFlag::F_SEAL_SHRINK)
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_SEAL);
/// Without these seals, a member might pass on other bytes than it has read.
const NEEDED_SEALS: SealFlag = SealFlag::F_SEAL_WRITE.union(SealFlag::F_SEAL_SHRINK);

/// Identifies a host and its network namespace. Members with equal ids can open each other's files.
/// A network namespace counts as a host of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostId {
    boot: String,
    pid_namespace: u64,
    net_namespace: u64,
}

impl HostId {
    /// The id of this process's host; `None` if the system does not provide it.
    pub fn own() -> Option<HostId> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace =
            |name: &str| Some(fs::metadata(format!("/proc/self/ns/{name}")).ok()?.ino());
        Some(HostId {
            boot: boot.trim().to_owned(),
            pid_namespace: namespace("pid")?,
            net_namespace: namespace("net")?,
        })
    }
}

/// The location of a piece's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The process that has the file open, in the namespace of [`HostId`].
    pub process: u32,
    /// Its descriptor.
    pub descriptor: u32,
    /// The file's inode number: a descriptor may have been closed and reused.
    pub inode: u64,
    /// The length in bytes.
    pub len: u64,
}

/// Why a reference failed.
#[derive(Debug, Error)]
pub enum SharedMemoryError {
    /// The memory cannot be opened or read.
    #[error("the memory of process {process} cannot be opened")]
    Open {
        /// The process.
        process: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is not the announced one, or not sealed.
    #[error("the memory of process {process} differs from its announcement")]
    Other {
        /// The process.
        process: u32,
    },
}

/// The consequence of a failed reference for later references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The owner process is gone, and its bytes with it.
    OwnerGone,
    /// The process has closed its descriptor: the reference was used too late.
    Outdated,
    /// This process has no access to memory of the owner.
    Closed,
}

impl SharedMemoryError {
    /// The consequence of the error for other references to the same process.
    pub fn outlook(&self) -> Outlook {
        match self {
            SharedMemoryError::Open { process, .. } | SharedMemoryError::Other { process }
                if is_gone(*process) =>
            {
                Outlook::OwnerGone
            }
            SharedMemoryError::Open { process, source } => {
                // With any other error the owner has closed the descriptor: the number is unused,
                // or names something that cannot be opened, such as a socket.
                let barred = matches!(
                    source.raw_os_error().map(Errno::from_raw),
                    None | Some(
                        Errno::EACCES
                            | Errno::EPERM
                            | Errno::EMFILE
                            | Errno::ENFILE
                            | Errno::ENOMEM
                    )
                );
                let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
                if !barred && descriptors.is_ok() { Outlook::Outdated } else { Outlook::Closed }
            }
            SharedMemoryError::Other { .. } => Outlook::Outdated,
        }
    }
}

/// Whether a process has ended. An unreaped process counts too: it has no memory.
fn is_gone(process: u32) -> bool {
    let pid = i32::try_from(process).unwrap_or(i32::MAX);
    if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
        return true;
    }
    // The state follows the name, which may hold any characters.
    let stat = fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
    let name_ends = stat.iter().rposition(|byte| *byte == b')');
    let state = name_ends.and_then(|at| stat.get(at + 2));
    state.is_some_and(|state| matches!(state, b'Z' | b'X'))
}

/// A piece of a large transfer. Clones share the bytes.
#[derive(Clone)]
pub struct Piece {
    bytes: Bytes,
    /// The bytes again as sealed memory, made for the first child on this host. `None` if it cannot
    /// be made.
    sealed: Rc<OnceCell<Option<Sealed>>>,
}

struct Sealed {
    file: File,
    inode: u64,
}

impl Piece {
    /// Its content.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A reference by which another process of this host finds the bytes. It is valid until this
    /// piece and all its clones are dropped. `None` if sending is better.
    pub fn reference(&self) -> Option<Reference> {
        if self.bytes.len() < MIN_SHARED_BYTES {
            return None;
        }
        let sealed = self.sealed.get_or_init(|| {
            // If too many descriptors are open, the bytes are sent instead.
            seal(&self.bytes).inspect_err(|error| tracing::debug!(%error, "not shared")).ok()
        });
        let sealed = sealed.as_ref()?;
        Some(Reference {
            process: std::process::id(),
            descriptor: u32::try_from(sealed.file.as_raw_fd()).ok()?,
            inode: sealed.inode,
            len: self.bytes.len() as u64,
        })
    }

    /// Opens the piece of another member of this host.
    ///
    /// # Errors
    /// [`SharedMemoryError`].
    pub fn open(reference: &Reference) -> Result<Piece, SharedMemoryError> {
        let Reference { process, descriptor, inode, len } = *reference;
        let cannot = |source| SharedMemoryError::Open { process, source };
        let other = || SharedMemoryError::Other { process };
        // The descriptor may refer to something else by now. Opening it must not block.
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let is_it = metadata.is_file() && metadata.ino() == inode && metadata.len() == len;
        if !is_it || len > MAX_SHARED_BYTES || !is_sealed(&file) {
            return Err(other());
        }
        let bytes = map(&file).map_err(cannot)?;
        if bytes.len() as u64 != len {
            return Err(other());
        }
        let sealed = Rc::new(OnceCell::from(Some(Sealed { file, inode })));
        Ok(Piece { bytes, sealed })
    }
}

/// Maps all of a sealed file, without a copy. All members share the pages, and each reader loads
/// the bytes into its cache only once.
fn map(file: &File) -> io::Result<Bytes> {
    // SAFETY: the mapping is shared memory that no process can write to or truncate any more,
    // neither this process nor the file's maker. The file has `NEEDED_SEALS`, which cannot be taken
    // back, and `F_SEAL_WRITE` is not given while a writable mapping exists (memfd_create(2),
    // fcntl(2)). The bytes therefore do not change behind a `&[u8]`, and reading never raises
    // SIGBUS.
    let mapping = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(mapping))
}

fn is_sealed(file: &File) -> bool {
    let seals = fcntl(file, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
    seals.is_ok_and(|seals| seals.contains(NEEDED_SEALS))
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Piece {
        Piece { bytes, sealed: Rc::default() }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} bytes)", self.bytes.len())
    }
}

fn seal(bytes: &[u8]) -> io::Result<Sealed> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"storm-piece", flags)?);
    file.write_all(bytes)?;
    match fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS)) {
        Ok(_) => {}
        Err(Errno::EINVAL) => return Err(io::ErrorKind::Unsupported.into()),
        Err(errno) => return Err(errno.into()),
    }
    let inode = file.metadata()?.ino();
    Ok(Sealed { file, inode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    fn piece(len: usize) -> Piece {
        Piece::from(Bytes::from((0..len).map(|at| (at % 251) as u8).collect::<Vec<_>>()))
    }

    #[test]
    fn references_give_the_same_bytes() {
        let original = piece(100_000);
        let reference = original.reference().expect("memory");
        let opened = Piece::open(&reference).expect("it is there");
        assert_eq!(opened.bytes(), original.bytes());
        // The second member passes it to a third after the first is gone.
        drop(original);
        let passed_on = Piece::open(&opened.reference().expect("memory")).expect("it is there");
        assert_eq!(passed_on.bytes(), opened.bytes());
    }

    #[test]
    fn short_pieces_are_sent() {
        assert_eq!(piece(1000).reference(), None);
    }

    #[test]
    fn a_reference_that_is_out_of_date_or_a_lie_is_refused() {
        let original = piece(100_000);
        let reference = original.reference().expect("memory");
        let other = |change: fn(&mut Reference)| {
            let mut reference = reference.clone();
            change(&mut reference);
            Piece::open(&reference)
        };
        assert!(matches!(other(|r| r.inode += 1), Err(SharedMemoryError::Other { .. })));
        assert!(matches!(other(|r| r.len += 1), Err(SharedMemoryError::Other { .. })));
        assert!(matches!(other(|r| r.descriptor = 9999), Err(SharedMemoryError::Open { .. })));
        let mut plain = tempfile::tempfile().expect("a file");
        plain.write_all(&[7; 100_000]).expect("written");
        let lie = Reference {
            descriptor: plain.as_raw_fd() as u32,
            inode: plain.metadata().expect("it is open").ino(),
            ..reference.clone()
        };
        assert!(matches!(Piece::open(&lie), Err(SharedMemoryError::Other { .. })));
        // A pipe that is never written to must not block the reader.
        let (pipe, _writer) = nix::unistd::pipe().expect("a pipe");
        let lie = Reference { descriptor: pipe.as_raw_fd() as u32, ..reference };
        assert!(matches!(Piece::open(&lie), Err(SharedMemoryError::Other { .. })));
    }

    #[test]
    fn an_owner_that_is_dead_let_go_or_keeps_others_out_are_told_apart() {
        let original = piece(100_000);
        let reference = original.reference().expect("memory");
        drop(original);
        let outlook = |reference: &Reference| match Piece::open(reference) {
            Ok(_) => panic!("it is not there"),
            Err(error) => error.outlook(),
        };
        assert_eq!(outlook(&reference), Outlook::Outdated);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let descriptor = socket.as_raw_fd() as u32;
        let reused = Reference { descriptor, ..reference.clone() };
        assert_eq!(outlook(&reused), Outlook::Outdated, "a socket has its number");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let id = Id::Pid(Pid::from_raw(child.id() as i32));
        // The child has ended and is not reaped: its pid is still taken, its memory is gone.
        waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("a child");
        let of_child = Reference { process: child.id(), ..reference };
        assert_eq!(outlook(&of_child), Outlook::OwnerGone, "a zombie");
        child.wait().expect("a child");
        assert_eq!(outlook(&of_child), Outlook::OwnerGone);
        for errno in [Errno::EACCES, Errno::EMFILE] {
            let source = errno.into();
            let error = SharedMemoryError::Open { process: std::process::id(), source };
            assert_eq!(error.outlook(), Outlook::Closed);
        }
    }
}
