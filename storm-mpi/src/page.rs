//! A file through which the ranks of a job on a node report to their Node Manager. All ranks map
//! it, and each has a place in it. Policies that decide by the behaviour of ranks read it.
//!
//! The Node Manager makes the file and passes its name to the ranks ([`VARIABLE`]). It reads the
//! file with `pread`, so it gets numbers or nothing, even if a rank writes other data or truncates
//! the file. Ranks do not rely on the file either: without it, they behave the same and report
//! nothing.

use memmap2::{MmapOptions, MmapRaw};
use nix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Variable that names the file to the ranks.
pub const VARIABLE: &str = "STORM_MPI_PAGE";
/// Variable with a rank's place among the ranks of its node.
const PLACE_VARIABLE: &str = "STORM_LOCAL_RANK";

/// Marks a file of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"STORMPG2");
/// Bytes of the header: the mark, in a cache line of its own.
const HEADER_BYTES: usize = 64;
/// A place is one cache line, so neighbours do not slow each other down.
const PLACE_BYTES: usize = 64;

/// A rank's place in the file, in this machine's byte order.
#[repr(C, align(64))]
struct Place {
    /// The rank's process.
    pid: AtomicU32,
    /// The rank's descriptor that becomes readable on news, plus 1; 0 for none.
    news_fd: AtomicU32,
    /// 1 while the rank waits for a message.
    waiting: AtomicU32,
    /// 1 while a rank of this node has sent bytes that this rank has not seen.
    unread: AtomicU32,
    /// Number of communications that could have waited, since the rank's start.
    operations: AtomicU64,
    /// Duration of all finished waits, in nanoseconds.
    waited_ns: AtomicU64,
    /// Start of the present wait, in nanoseconds of CLOCK_MONOTONIC; 0 while the rank does not
    /// wait.
    waits_since_ns: AtomicU64,
    /// The [`Way`] in which the rank waits, as set by the Node Manager.
    way: AtomicU32,
}

const WAY_OFFSET: usize = std::mem::offset_of!(Place, way);

const _: () = assert!(size_of::<Place>() == PLACE_BYTES);

/// The Node Manager's choice of the way in which a rank waits, if the user has not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The rank's own choice.
    Own,
    /// Poll until the message is there: no other process needs the processor.
    Spin,
    /// Poll for as long as two context switches take, then sleep.
    SpinBlock,
}

impl Way {
    fn encode(self) -> u32 {
        match self {
            Way::Own => 0,
            Way::Spin => 1,
            Way::SpinBlock => 2,
        }
    }

    fn decode(word: u32) -> Way {
        match word {
            1 => Way::Spin,
            2 => Way::SpinBlock,
            _ => Way::Own,
        }
    }
}

/// A rank's report. It may be false in every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankSays {
    /// The rank's process.
    pub pid: u32,
    /// A descriptor of the process that becomes readable on news.
    pub news_fd: Option<RawFd>,
    /// The rank waits for a message.
    pub waiting: bool,
    /// A message has arrived from a rank of the same node.
    pub unread: bool,
    /// Number of communications that could have waited, since the rank's start.
    pub operations: u64,
    /// Duration of all finished waits.
    pub waited: Duration,
    /// Start of the present wait, by the clock of [`monotonic_now`]; `None` while the rank does not
    /// wait.
    pub waits_since: Option<Duration>,
}

impl RankSays {
    /// Duration of all waits up to `now`, including the wait under way.
    pub fn waited_until(&self, now: Duration) -> Duration {
        let present = self.waits_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.waited.saturating_add(present)
    }
}

/// The time of CLOCK_MONOTONIC, which is the same in all processes of a host.
///
/// # Errors
/// The kernel's; a Linux kernel has none.
pub fn monotonic_now() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// The file of the ranks of a job on a node, from the Node Manager's side.
#[derive(Debug)]
pub struct RankPage {
    file: File,
    ranks: usize,
}

impl RankPage {
    /// Makes the file for `ranks` ranks. Nothing may exist under that name, not even a symlink.
    /// Only the owner may use the file.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, ranks: usize) -> io::Result<RankPage> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // The umask may have taken permissions away.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len((HEADER_BYTES + ranks * PLACE_BYTES) as u64)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        Ok(RankPage { file, ranks })
    }

    /// The file, for a process that outlives this one.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes over a file that another process has made for `ranks` ranks.
    pub fn of(file: File, ranks: usize) -> RankPage {
        RankPage { file, ranks }
    }

    /// Gives the file to a user. The change applies to the open file, even if another file has its
    /// name by now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        fchown(&self.file, Some(uid), Some(gid))
    }

    /// Sets the way in which a rank waits, from its next wait on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn tell(&self, place: usize, way: Way) -> io::Result<()> {
        if place >= self.ranks {
            return Ok(());
        }
        let offset = (HEADER_BYTES + place * PLACE_BYTES + WAY_OFFSET) as u64;
        // The write must not extend a file that a rank has shortened.
        if self.file.metadata()?.len() < offset + 4 {
            return Ok(());
        }
        self.file.write_all_at(&way.encode().to_ne_bytes(), offset)
    }

    /// Reads the report of each rank. Ranks are missing for which the file has become too short.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> io::Result<Vec<RankSays>> {
        let mut bytes = vec![0; self.ranks * PLACE_BYTES];
        let mut got = 0;
        while got < bytes.len() {
            match self.file.read_at(&mut bytes[got..], (HEADER_BYTES + got) as u64)? {
                0 => break,
                more => got += more,
            }
        }
        Ok(bytes[..got].chunks_exact(PLACE_BYTES).map(says).collect())
    }
}

fn says(place: &[u8]) -> RankSays {
    let long = |offset: usize| {
        let bytes = place.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_ne_bytes(bytes.unwrap_or_default())
    };
    let waits_since = long(std::mem::offset_of!(Place, waits_since_ns));
    let word = |index: usize| {
        let bytes = place.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.unwrap_or_default())
    };
    RankSays {
        pid: word(0),
        news_fd: word(1).checked_sub(1).and_then(|fd| RawFd::try_from(fd).ok()),
        waiting: word(2) != 0,
        unread: word(3) != 0,
        operations: long(std::mem::offset_of!(Place, operations)),
        waited: Duration::from_nanos(long(std::mem::offset_of!(Place, waited_ns))),
        waits_since: (waits_since != 0).then(|| Duration::from_nanos(waits_since)),
    }
}

/// The file from a rank's side, with the rank's own place.
pub(crate) struct OwnPlace {
    map: MmapRaw,
    ranks: usize,
    me: usize,
}

impl OwnPlace {
    /// Opens the place that the environment names. Returns `None` if there is none or it is
    /// invalid; the rank then continues without reports.
    pub(crate) fn from_environment() -> Option<OwnPlace> {
        let path = std::env::var_os(VARIABLE)?;
        let me = std::env::var(PLACE_VARIABLE).ok()?.parse().ok()?;
        Self::open(Path::new(&path), me)
    }

    fn open(path: &Path, me: usize) -> Option<OwnPlace> {
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
        let ranks = bytes.checked_sub(HEADER_BYTES)? / PLACE_BYTES;
        if me >= ranks {
            return None;
        }
        let map = MmapOptions::new().len(bytes).map_raw(&file).ok()?;
        let place = OwnPlace { map, ranks, me };
        (place.magic().load(Ordering::Acquire) == MAGIC).then_some(place)
    }

    /// Reports the process and the descriptor that becomes readable on news.
    pub(crate) fn introduce(&self, pid: u32, news_fd: RawFd) {
        let Some(own) = self.place(self.me) else { return };
        own.news_fd.store(u32::try_from(news_fd).map_or(0, |fd| fd + 1), Ordering::Relaxed);
        own.pid.store(pid, Ordering::Release);
    }

    /// Counts a communication, whether or not the rank has to wait for it.
    pub(crate) fn communicates(&self) {
        if let Some(own) = self.place(self.me) {
            // No other process writes the counter.
            let operations = own.operations.load(Ordering::Relaxed);
            own.operations.store(operations.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Reports that the rank begins to wait for a message, or has stopped waiting.
    pub(crate) fn wait(&self, waiting: bool) {
        let Some(own) = self.place(self.me) else { return };
        own.waiting.store(waiting.into(), Ordering::Relaxed);
        let Ok(now) = monotonic_now() else { return };
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let since_ns = own.waits_since_ns.load(Ordering::Relaxed);
        if waiting {
            own.waits_since_ns.store(now_ns, Ordering::Relaxed);
        } else if since_ns != 0 {
            let waited_ns = own.waited_ns.load(Ordering::Relaxed);
            let sum_ns = waited_ns.saturating_add(now_ns.saturating_sub(since_ns));
            // A reader between the two stores once sees too short a wait, but never counts a wait
            // twice.
            own.waits_since_ns.store(0, Ordering::Relaxed);
            own.waited_ns.store(sum_ns, Ordering::Release);
        }
    }

    /// The Node Manager's choice of the way to wait.
    pub(crate) fn way(&self) -> Way {
        let told = self.place(self.me).map(|own| own.way.load(Ordering::Relaxed));
        Way::decode(told.unwrap_or_default())
    }

    /// Reports that the rank has seen everything that has arrived.
    pub(crate) fn has_looked(&self) {
        if let Some(own) = self.place(self.me)
            && own.unread.load(Ordering::Relaxed) != 0
        {
            own.unread.store(0, Ordering::Relaxed);
        }
    }

    /// Reports to a rank of this node that bytes have arrived for it.
    pub(crate) fn has_sent(&self, to: usize) {
        if let Some(place) = self.place(to)
            && place.unread.load(Ordering::Relaxed) == 0
        {
            place.unread.store(1, Ordering::Relaxed);
        }
    }

    fn place(&self, index: usize) -> Option<&Place> {
        if index >= self.ranks {
            return None;
        }
        let offset = HEADER_BYTES + index * PLACE_BYTES;
        // SAFETY: `index` is within the places that fit the mapping, which lives as long as `self`.
        // The mapping is page-aligned and the offset is a multiple of 64. A place consists of
        // atomics, for which any bytes are valid.
        Some(unsafe { &*self.map.as_mut_ptr().add(offset).cast::<Place>() })
    }

    fn magic(&self) -> &AtomicU64 {
        // SAFETY: as in `place`; the mapping is longer than the header.
        unsafe { &*self.map.as_mut_ptr().cast::<AtomicU64>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn in_directory(test: impl FnOnce(&Path)) {
        let name = format!("storm-page-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        test(&path);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn entries_of_ranks_are_read() {
        in_directory(|path| {
            let page = RankPage::create(path, 2).unwrap();
            assert!(RankPage::create(path, 2).is_err(), "it is there");
            let ranks: Vec<OwnPlace> = (0..2).map(|me| OwnPlace::open(path, me).unwrap()).collect();
            ranks[1].introduce(77, 5);
            ranks[1].wait(true);
            ranks[0].has_sent(1);
            ranks[0].has_sent(2);
            let said = page.read().unwrap();
            assert_eq!(said[0], says(&[0; PLACE_BYTES]), "it is silent");
            let since = said[1].waits_since.expect("it waits");
            let mut waits = says(&[0; PLACE_BYTES]);
            (waits.pid, waits.news_fd, waits.waiting, waits.unread) = (77, Some(5), true, true);
            waits.waits_since = Some(since);
            assert_eq!(said[1], waits);
            assert!(since <= monotonic_now().unwrap());
            assert_eq!(said[1].waited_until(since + Duration::from_millis(3)).as_millis(), 3);
            ranks[1].has_looked();
            ranks[1].wait(false);
            let said = page.read().unwrap();
            assert!(!said[1].waiting && !said[1].unread);
            assert!(said[1].waits_since.is_none() && !said[1].waited.is_zero());
        });
    }

    #[test]
    fn a_rank_counts_what_it_does_and_hears_how_to_wait() {
        in_directory(|path| {
            let page = RankPage::create(path, 2).unwrap();
            let rank = OwnPlace::open(path, 1).unwrap();
            assert_eq!(rank.way(), Way::Own);
            (0..3).for_each(|_| rank.communicates());
            assert_eq!(page.read().unwrap()[1].operations, 3);
            for way in [Way::SpinBlock, Way::Spin, Way::Own] {
                page.tell(1, way).unwrap();
                assert_eq!(rank.way(), way);
            }
            page.tell(2, Way::Spin).unwrap();
            OpenOptions::new().write(true).open(path).unwrap().set_len(70).unwrap();
            page.tell(1, Way::Spin).unwrap();
            assert_eq!(std::fs::metadata(path).unwrap().len(), 70);
        });
    }

    #[test]
    fn only_the_file_that_was_made_changes_hands() {
        let name = format!("storm-page-swapped-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let (path, other) = (directory.join("page"), directory.join("other"));
        std::fs::write(&other, "").unwrap();
        std::fs::set_permissions(&other, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(RankPage::create(&path, 1).is_err(), "a symlink is not followed");
        std::fs::remove_file(&path).unwrap();
        let page = RankPage::create(&path, 1).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let before = std::fs::metadata(&other).unwrap();
        // Only root may give files away.
        let (uid, gid) = match before.uid() {
            0 => (4711, 4712),
            own => (own, before.gid()),
        };
        page.give_to(uid, gid).unwrap();
        let after = std::fs::metadata(&other).unwrap();
        assert_eq!((after.uid(), after.mode()), (before.uid(), before.mode()));
        let given = page.file.metadata().unwrap();
        assert_eq!((given.uid(), given.gid(), given.mode() & 0o777), (uid, gid, 0o600));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_file_that_is_shorter_or_says_anything_is_no_danger() {
        in_directory(|path| {
            let page = RankPage::create(path, 3).unwrap();
            assert!(OwnPlace::open(path, 3).is_none(), "no such place");
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&[0xff; HEADER_BYTES + 3 * PLACE_BYTES], 0).unwrap();
            assert!(OwnPlace::open(path, 0).is_none(), "another layout");
            let said = page.read().unwrap();
            assert!(said.iter().all(|rank| rank.news_fd.is_none() && rank.pid == u32::MAX));
            file.set_len((HEADER_BYTES + PLACE_BYTES + 7) as u64).unwrap();
            assert_eq!(page.read().unwrap().len(), 1);
            file.set_len(0).unwrap();
            assert_eq!(page.read().unwrap(), []);
        });
    }
}
