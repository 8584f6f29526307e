//! The node's end of a segment.

use super::frame::{Frame, HEAD_BYTES};
use super::{Frames, MAGIC, News, RING_BYTES, SEGMENT_BYTES, Segment};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{MsgFlags, send};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// A rank wrote positions into its segment that no ring can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a rank's shared memory holds impossible positions")]
pub struct CorruptSegment;

/// A segment, from the Node Manager's side.
pub struct NodeEnd {
    segment: Segment,
    memory: File,
    /// The node's own socket of a pair. Nothing that a rank does to its socket makes the node wait.
    bell: UnixDatagram,
    /// The rank's socket, of which the rank gets a copy.
    rank_bell: UnixDatagram,
}

impl NodeEnd {
    /// Makes the segment of one rank. Memory is allocated as it is written.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> io::Result<NodeEnd> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let memory = File::from(memfd_create(c"storm-bcs", flags)?);
        memory.set_len(SEGMENT_BYTES as u64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&memory, FcntlArg::F_ADD_SEALS(seals))?;
        let segment = Segment::map(&memory)?;
        segment.header().magic.store(MAGIC, Ordering::Release);
        // Datagram sockets do not report the end of the other side. A stream would ring for ever.
        let (bell, rank_bell) = UnixDatagram::pair()?;
        bell.set_nonblocking(true)?;
        rank_bell.set_nonblocking(true)?;
        Ok(NodeEnd { segment, memory, bell, rank_bell })
    }

    /// The segment of a rank that another process of this node's made, and left as
    /// [`parts`](Self::parts).
    ///
    /// # Errors
    /// The memory is no segment of this layout, is not sealed, or cannot be mapped.
    pub fn adopt([memory, bell, rank_bell]: [OwnedFd; 3]) -> io::Result<NodeEnd> {
        let memory = File::from(memory);
        let seals = SealFlag::from_bits_truncate(fcntl(&memory, FcntlArg::F_GET_SEALS)?);
        let segment = Segment::map(&memory)?;
        let is_sealed = seals.contains(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW);
        if !is_sealed || segment.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no segment of this layout"));
        }
        let (bell, rank_bell) = (UnixDatagram::from(bell), UnixDatagram::from(rank_bell));
        Ok(NodeEnd { segment, memory, bell, rank_bell })
    }

    /// The descriptors with which another process of this node's can continue: the memory, the
    /// node's end of the bell, and the rank's.
    pub fn parts(&self) -> [BorrowedFd<'_>; 3] {
        [self.memory.as_fd(), self.bell.as_fd(), self.rank_bell.as_fd()]
    }

    /// The memory and the bell, for the rank.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.memory.as_fd(), self.rank_bell.as_fd()]
    }

    /// Takes the bytes that the rank has sent: no more than a ring holds, whatever the rank does
    /// meanwhile.
    ///
    /// # Errors
    /// [`CorruptSegment`].
    pub fn take(&self, into: &mut Frames) -> Result<(), CorruptSegment> {
        let ring = self.segment.outward();
        let into = into.buffer();
        let used = RING_BYTES - ring.free().map_err(|_| CorruptSegment)?;
        let start = into.len();
        into.resize(start + used, 0);
        let popped = ring.pop(&mut into[start..]).map_err(|_| CorruptSegment)?;
        into.truncate(start + popped);
        if popped > 0 && ring.space_wanted().map_err(|_| CorruptSegment)? {
            self.wake();
        }
        Ok(())
    }

    /// Gives the rank a frame if there is room for all of it. Returns whether there was.
    /// [`wake`](Self::wake) informs the rank.
    ///
    /// # Errors
    /// [`CorruptSegment`].
    pub fn give(&self, frame: Frame<'_>) -> Result<bool, CorruptSegment> {
        let (head, payload) = frame.parts();
        let ring = self.segment.inward();
        if ring.free().map_err(|_| CorruptSegment)? < HEAD_BYTES + payload.len() {
            return Ok(false);
        }
        let pushed = ring.push([&head, payload]).map_err(|_| CorruptSegment)?;
        // Only the rank could have reduced the room since.
        if pushed == HEAD_BYTES + payload.len() { Ok(true) } else { Err(CorruptSegment) }
    }

    /// Wakes the rank if it sleeps.
    pub fn wake(&self) {
        if self.segment.must_wake() {
            // A full socket has woken the rank, and a closed socket has no rank to wake.
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let _ = send(self.bell.as_raw_fd(), &[1], flags);
        }
    }

    /// Asks the rank to ring once for news of these kinds that is not there yet. The caller must
    /// check afterwards for news that is there.
    pub fn want(&self, news: News) {
        self.segment.want(news);
    }

    /// Number of bytes that the rank has sent and that were not taken.
    ///
    /// # Errors
    /// [`CorruptSegment`].
    pub fn sent(&self) -> Result<usize, CorruptSegment> {
        Ok(RING_BYTES - self.segment.outward().free().map_err(|_| CorruptSegment)?)
    }

    /// Bytes of room in the ring into the rank.
    ///
    /// # Errors
    /// [`CorruptSegment`].
    pub fn room(&self) -> Result<usize, CorruptSegment> {
        self.segment.inward().free().map_err(|_| CorruptSegment)
    }

    /// The node's end of the bell, which is readable when the rank has rung. It does not block.
    ///
    /// # Errors
    /// The system's.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.bell.as_fd().try_clone_to_owned()
    }

    /// Whether the rank reports that it waits for its messages.
    pub fn waits(&self) -> bool {
        self.segment.sleeping().load(Ordering::Relaxed) != 0
    }
}

impl std::fmt::Debug for NodeEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeEnd").field("waits", &self.waits()).finish_non_exhaustive()
    }
}
