//! A rank's shared memory: one ring per rank of its node, the set of ranks that poke its owner, and
//! the `sleeping` flag.
//!
//! The memory is an anonymous file (`memfd`), sealed against resizing so that neither its owner nor
//! a peer can make another fault. The others open it through `/proc/<pid>/fd/<n>`, so nothing is
//! left behind, whichever rank dies. The file is sparse: rings that are never used cost no memory.
//!
//! A rank pokes another by setting its bit in `pending`. It does so when it sends to the other for
//! the first time, and when it has made space for a waiting sender. From the first poke on, the
//! owner polls the ring itself. So a message makes the two write no common line except the ring's
//! own.
//!
//! Waking, and why no wake-up is lost. A sender publishes in the ring or sets its bit in `pending`
//! (`fetch_or`), fences, and reads `sleeping`. The owner stores `sleeping`, fences, and reads
//! `pending` and the rings that it knows; only if there is nothing does it sleep in the kernel.
//! Both fences are SeqCst. So either the owner sees the news and does not sleep, or the sender sees
//! `sleeping` and rings the doorbell.
//!
//! The sender that clears `sleeping` is the sender that rings. If it is stopped in between, the
//! owner sleeps until that sender runs again (a job is stopped and resumed as a whole). A bit that
//! was already set needs no second check of `sleeping`: the setter has checked, and the owner
//! cannot sleep before it takes the bit.

use super::records::{RecordControl, Records, Shape};
use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Most ranks on one node: the size of the `pending` set.
pub(super) const MAX_LOCAL_RANKS: usize = 64 * PENDING_WORDS;

const PENDING_WORDS: usize = 16;
/// Marks the memory as an inbox of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"STORMPI3");
const PAGE_BYTES: usize = 4096;

/// A rank's place among the ranks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalIndex(pub(super) usize);

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    ranks: AtomicU32,
    owner: AtomicU32,
    sleeping: SleepLine,
    pending: [AtomicU64; PENDING_WORDS],
}

#[repr(C, align(64))]
struct SleepLine {
    flag: AtomicU32,
}

/// A mapped inbox, this rank's own or a peer's.
pub(super) struct Inbox {
    map: MmapRaw,
    ranks: usize,
    shape: Shape,
    /// Offset of the first ring.
    data: usize,
}

impl Inbox {
    /// Makes the inbox of the `owner`-th of `ranks` ranks. The file is what peers open.
    pub(super) fn create(ranks: usize, owner: LocalIndex) -> io::Result<(Self, File)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(c"storm-mpi-inbox", flags)?);
        file.set_len(inbox_bytes(ranks) as u64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let inbox = Self::map(&file, ranks)?;
        let header = inbox.header();
        header.ranks.store(ranks as u32, Ordering::Relaxed);
        header.owner.store(owner.0 as u32, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok((inbox, file))
    }

    /// Maps a peer's inbox after checking its layout, its owner, its length, and that the length is
    /// sealed.
    pub(super) fn attach(file: &File, ranks: usize, owner: LocalIndex) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not the inbox of that rank");
        // The seal is checked first: from then on the length holds. Files other than a memfd have
        // no seals.
        let seals = fcntl(file, FcntlArg::F_GET_SEALS).map_err(|_| wrong())?;
        let sealed = SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK);
        if !sealed || file.metadata()?.len() != inbox_bytes(ranks) as u64 {
            return Err(wrong());
        }
        let inbox = Self::map(file, ranks)?;
        let header = inbox.header();
        let expected = (MAGIC, ranks as u32, owner.0 as u32);
        let found = (
            header.magic.load(Ordering::Acquire),
            header.ranks.load(Ordering::Relaxed),
            header.owner.load(Ordering::Relaxed),
        );
        if found == expected { Ok(inbox) } else { Err(wrong()) }
    }

    fn map(file: &File, ranks: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(inbox_bytes(ranks)).map_raw(file)?;
        Ok(Inbox { map, ranks, shape: ring_shape(ranks), data: data_offset(ranks) })
    }

    /// The ring from `source` to this inbox's owner.
    #[inline]
    pub(super) fn ring(&self, source: LocalIndex) -> Records<'_> {
        assert!(source.0 < self.ranks, "local index out of the node");
        let base = self.map.as_mut_ptr();
        let control = size_of::<Header>() + source.0 * size_of::<RecordControl>();
        let data = self.data + source.0 * self.shape.memory_bytes();
        // SAFETY: both lie inside the mapping (`inbox_bytes` is their sum and `source` is in
        // range), which lives as long as `self` and cannot shrink. `control` is aligned: the
        // mapping is page-aligned, and both sizes are multiples of 64, as is the ring's. `control`
        // consists of atomics, for which any bytes are valid. Only `source` pushes and only the
        // owner takes.
        unsafe {
            Records::new(&*base.add(control).cast::<RecordControl>(), base.add(data), self.shape)
        }
    }

    /// Makes the owner poll `source`. Returns true if the owner sleeps and this caller must ring
    /// its doorbell.
    #[must_use]
    pub(super) fn poke(&self, source: LocalIndex) -> bool {
        let header = self.header();
        let bit = 1 << (source.0 % 64);
        if header.pending[source.0 / 64].fetch_or(bit, Ordering::SeqCst) & bit != 0 {
            return false;
        }
        self.rouse()
    }

    /// Called after bytes were put into a ring that the owner polls. Returns true if the owner
    /// sleeps and this caller must ring its doorbell.
    #[must_use]
    #[inline]
    pub(super) fn rouse(&self) -> bool {
        fence(Ordering::SeqCst);
        let sleeping = &self.header().sleeping.flag;
        sleeping.load(Ordering::Relaxed) != 0 && sleeping.swap(0, Ordering::SeqCst) != 0
    }

    /// Takes the set of sources that have poked and passes each to `each`. Owner only.
    pub(super) fn take_pending(&self, mut each: impl FnMut(LocalIndex)) {
        for (w, word) in self.pending_words().iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // AcqRel with the senders' `fetch_or`: everything that they published before is visible
            // after.
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let source = w * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if source < self.ranks {
                    each(LocalIndex(source));
                }
            }
        }
    }

    /// Whether any source has poked. Owner only.
    pub(super) fn has_pending(&self) -> bool {
        self.pending_words().iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Announces that the owner is about to sleep. Returns false if there is news in the rings that
    /// the owner polls (`in_rings`) or elsewhere. It must not sleep then.
    #[must_use]
    pub(super) fn fall_asleep(&self, in_rings: impl FnOnce() -> bool) -> bool {
        self.header().sleeping.flag.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_pending() || in_rings() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Records that the owner is awake again.
    pub(super) fn wake_up(&self) {
        self.header().sleeping.flag.store(0, Ordering::Relaxed);
    }

    fn pending_words(&self) -> &[AtomicU64] {
        &self.header().pending[..self.ranks.div_ceil(64)]
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, longer than a header, and lives as long as `self`.
        // The header consists of atomics, for which any bytes are valid.
        unsafe { &*self.map.as_mut_ptr().cast::<Header>() }
    }
}

/// Ring size by the number of ranks on the node. A node full of pairs that all talk stays within
/// about 1 GiB. A ring of 64 KiB keeps a pair's data in the L2 cache; 16 KiB still hold one eager
/// message, in pieces.
fn ring_shape(ranks: usize) -> Shape {
    Shape::of(match ranks {
        0..=32 => 64 << 10,
        33..=64 => 32 << 10,
        _ => 16 << 10,
    })
}

fn data_offset(ranks: usize) -> usize {
    (size_of::<Header>() + ranks * size_of::<RecordControl>()).next_multiple_of(PAGE_BYTES)
}

fn inbox_bytes(ranks: usize) -> usize {
    data_offset(ranks) + ranks * ring_shape(ranks).memory_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::ends::{ConsumerEnd, ProducerEnd};
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_peer_sees_what_the_owner_made() {
        let (own, file) = Inbox::create(3, LocalIndex(1)).unwrap();
        let peer = Inbox::attach(&file, 3, LocalIndex(1)).unwrap();
        let mut end = ProducerEnd::default();
        assert_eq!(end.push(&peer.ring(LocalIndex(2)), [b"hello", b"!"]), Ok(6));
        assert!(!peer.poke(LocalIndex(2)), "the owner is awake");
        assert!(!own.fall_asleep(|| false), "there is news");
        let mut sources = Vec::new();
        own.take_pending(|source| sources.push(source));
        assert_eq!(sources, [LocalIndex(2)]);
        let mut text = [0; 6];
        let mut end = ConsumerEnd::default();
        assert_eq!(end.unread(&own.ring(LocalIndex(2))), Ok(6));
        end.copy(&own.ring(LocalIndex(2)), 0, &mut text);
        assert_eq!(&text, b"hello!");
    }

    #[test]
    fn only_the_first_poke_of_a_sleeper_rings() {
        let (own, file) = Inbox::create(130, LocalIndex(0)).unwrap();
        let peer = Inbox::attach(&file, 130, LocalIndex(0)).unwrap();
        assert!(!own.fall_asleep(|| true), "there is news in a ring");
        assert!(!peer.rouse(), "the owner is awake");
        assert!(own.fall_asleep(|| false));
        assert!(peer.rouse() && !peer.rouse());
        assert!(own.fall_asleep(|| false));
        assert!(peer.poke(LocalIndex(129)));
        assert!(!peer.poke(LocalIndex(129)));
        assert!(!peer.poke(LocalIndex(5)));
        own.wake_up();
        let mut sources = Vec::new();
        own.take_pending(|source| sources.push(source.0));
        assert_eq!(sources, [5, 129]);
    }

    #[test]
    fn the_wrong_file_is_refused() {
        let (_own, file) = Inbox::create(2, LocalIndex(0)).unwrap();
        assert!(Inbox::attach(&file, 2, LocalIndex(1)).is_err(), "another owner");
        assert!(Inbox::attach(&file, 3, LocalIndex(0)).is_err(), "another size");
        assert!(file.set_len(1).is_err(), "sealed");
    }

    #[test]
    fn an_inbox_that_its_owner_could_make_shorter_is_refused() {
        let (own, _) = Inbox::create(2, LocalIndex(0)).unwrap();
        let mut bytes = vec![0; inbox_bytes(2)];
        // SAFETY: the mapping has this length, lives as long as `own`, and no process writes to it
        // here.
        let made = unsafe { std::slice::from_raw_parts(own.map.as_ptr(), bytes.len()) };
        bytes.copy_from_slice(made);
        let memory =
            File::from(memfd_create(c"storm-mpi-inbox", MFdFlags::MFD_ALLOW_SEALING).unwrap());
        memory.write_all_at(&bytes, 0).unwrap();
        assert!(Inbox::attach(&memory, 2, LocalIndex(0)).is_err(), "it can be shortened");
        fcntl(&memory, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        assert!(Inbox::attach(&memory, 2, LocalIndex(0)).is_ok());
    }
}
