//! The memory that a rank shares with its Node Manager under buffered coscheduling. Everything that
//! the rank sends and receives passes through it, and moves when the node decides.
//!
//! Each rank has one segment: two byte rings, out of the rank and into it, and a flag that the rank
//! sleeps. The rings carry [`Frame`]s of byte streams between ranks. As over TCP, only the message
//! engine interprets the bytes. The rings also carry collectives ([`Call`]), which the node carries
//! out with the other members' nodes. A rank has one collective at a time, and waits for it.
//!
//! The node reads the rings when a slice begins. It wakes a sleeping rank by a byte through a pair
//! of sockets, and never waits for room there. While slices rest because no rank needs one, the
//! node wants to be notified of news ([`News`]). The rank rings once, by a byte through the same
//! pair, and rings again only after the node has asked again.
//!
//! The segment is an anonymous file of the node's, sealed against resizing, so no rank can make the
//! node fault. A rank gets it by a request over its PMI connection ([`hand_over`]), so no other
//! process can have it. A rank may write anything into it. The node takes only positions and frames
//! from it and checks both; an invalid one ends that rank's job.
//!
//! Layout (`layout_version!`): a page with `Header`, the ring out of the rank, the ring into it.

/// The version of the segment's layout and of its contents. It occurs in the request for a segment,
/// and in the mark of its memory.
macro_rules! layout_version {
    () => {
        "3"
    };
}

mod call;
mod frame;
mod handover;
mod node_end;
mod rank_end;

pub use call::{COLLECTIVE_MAX_BYTES, CONTEXTS_MAX, Call, CallDescriptor, MEMBERS_MAX};
pub use frame::{BadFrame, Frame, Frames};
pub use handover::{SEGMENT_REQUEST, hand_over};
pub use node_end::{CorruptSegment, NodeEnd};
pub use rank_end::RankEnd;

pub(crate) use handover::ask_for_segment;

use crate::transport::ring::{Ring, RingControl};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of each ring: four slices of a link, with room for frames.
pub const RING_BYTES: usize = 512 << 10;
/// Bytes that a rank may have under way to another before the node reports that they have left. The
/// window exceeds an eager sender's credit, so no eager message waits behind a message that is not
/// received.
pub const WINDOW_BYTES: usize = 320 << 10;
/// Names the transport of the bytes: `direct`, or `bcs` through a segment. The Node Manager sets
/// it.
pub const TRANSPORT_VARIABLE: &str = "STORM_MPI_TRANSPORT";
/// The value of [`TRANSPORT_VARIABLE`] for ranks that have a segment.
pub const TRANSPORT_BCS: &str = "bcs";

/// Marks the memory as a segment of this layout.
const MAGIC: u64 = match concat!("STORMBC", layout_version!()).as_bytes().first_chunk() {
    Some(mark) => u64::from_be_bytes(*mark),
    None => panic!("eight letters"),
};
const PAGE_BYTES: usize = 4096;
const SEGMENT_BYTES: usize = PAGE_BYTES + 2 * RING_BYTES;

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    sleeping: SleepLine,
    wanted: WantedLine,
    outward: RingControl,
    inward: RingControl,
}

#[repr(C, align(64))]
struct SleepLine {
    flag: AtomicU32,
}

/// The news of which the node wants to be notified.
#[repr(C, align(64))]
struct WantedLine {
    news: AtomicU32,
}

/// News for which a rank rings if its node has asked for it: bits of a word in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News(u32);

impl News {
    /// No news.
    pub const NONE: News = News(0);
    /// There are bytes in the ring out of the rank.
    pub const SENT: News = News(1);
    /// There is more room in the ring into the rank.
    pub const ROOM: News = News(2);
    /// The rank falls asleep.
    pub const SLEEPS: News = News(4);

    /// Both kinds of news.
    #[must_use]
    pub fn and(self, other: News) -> News {
        News(self.0 | other.0)
    }
}

const _: () = assert!(size_of::<Header>() <= PAGE_BYTES && RING_BYTES.is_power_of_two());

/// A mapped segment, at either end.
struct Segment {
    map: MmapRaw,
}

impl Segment {
    /// Maps a file, which must have the length of a segment.
    fn map(file: &File) -> io::Result<Segment> {
        if file.metadata()?.len() != SEGMENT_BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no segment of this layout"));
        }
        Ok(Segment { map: MmapOptions::new().len(SEGMENT_BYTES).map_raw(file)? })
    }

    /// The ring of bytes that the rank sends.
    fn outward(&self) -> Ring<'_> {
        // SAFETY: the ring's bytes are inside the mapping, behind the header's page, for as long as
        // `self`; its capacity is a power of two. The rank pushes, the node pops. A rank that
        // writes there at other times can only spoil its own bytes. Each end reads a position once
        // per call, checks it and takes it modulo the capacity, so nothing outside the ring is
        // touched. Bytes are copied to and from private memory and never referred to in place, and
        // copied bytes are checked afterwards.
        unsafe { Ring::new(&self.header().outward, self.at(PAGE_BYTES), RING_BYTES) }
    }

    /// The ring of bytes that the rank receives.
    fn inward(&self) -> Ring<'_> {
        // SAFETY: as `outward`, in the second half. The node pushes. The rank pops, or writes
        // anything.
        unsafe { Ring::new(&self.header().inward, self.at(PAGE_BYTES + RING_BYTES), RING_BYTES) }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < SEGMENT_BYTES);
        // SAFETY: below the length of the mapping.
        unsafe { self.map.as_mut_ptr().add(offset) }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, longer than a header, and lives as long as `self`.
        // The header consists of atomics, for which any bytes are valid.
        unsafe { &*self.map.as_mut_ptr().cast::<Header>() }
    }

    fn sleeping(&self) -> &AtomicU32 {
        &self.header().sleeping.flag
    }

    /// Asks the other end to ring for news of these kinds that is not there yet. With the fence of
    /// [`must_ring`](Self::must_ring), at least one of the two sees the other's action.
    fn want(&self, news: News) {
        self.header().wanted.news.store(news.0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether the node has asked for this news, which must be there by now. If so, the caller must
    /// ring, and the request is cleared.
    fn must_ring(&self, news: News) -> bool {
        let wanted = &self.header().wanted.news;
        fence(Ordering::SeqCst);
        wanted.load(Ordering::Relaxed) & news.0 != 0 && wanted.swap(0, Ordering::SeqCst) != 0
    }

    /// Clears the flag and returns whether it was set; the caller must then wake the rank. Call it
    /// after a push: with the rank's own fence, at least one of the two sees the other's action.
    fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping().load(Ordering::Relaxed) != 0
            && self.sleeping().swap(0, Ordering::SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the request named version 2 when the layout was version 3.
    #[test]
    fn the_request_the_memory_and_the_protocol_name_one_version() {
        let version = layout_version!();
        assert_eq!(MAGIC.to_be_bytes()[7..], *version.as_bytes());
        assert_eq!(SEGMENT_REQUEST, format!("cmd=storm_segment version={version}"));
        let protocol = include_str!("../../../docs/protocol.md");
        for named in ["`storm_segment` (`version` ", "`storm-mpi/src/segment`, version "] {
            assert!(protocol.contains(&format!("{named}{version}")), "{named}");
        }
    }
}
