//! What the ranks of a job on one node tell its node manager: a file that all of them map, with a
//! place for each, under policies that decide by what ranks do.
//!
//! The node manager makes the file and names it to the ranks ([`VARIABLE`]). It reads it with
//! `pread`: whatever a rank writes there, or if it makes the file shorter, comes out as numbers or
//! as nothing. Ranks believe it as little; without it they do the same, untold.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Names the file, to the ranks.
pub const VARIABLE: &str = "STORM_MPI_PAGE";
/// Names a rank's place among those of its node.
const PLACE_VARIABLE: &str = "STORM_LOCAL_RANK";

/// Marks the file as one of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"STORMPG1");
/// The mark, in a line of its own.
const HEADER_BYTES: usize = 64;
/// A place is a line of the cache: neighbours do not slow each other down.
const PLACE_BYTES: usize = 64;

/// A rank's place, as it lies in the file; of this machine's byte order.
#[repr(C, align(64))]
struct Place {
    /// The process.
    pid: AtomicU32,
    /// One more than its descriptor that is readable when something has come; 0 for none.
    news_fd: AtomicU32,
    /// It waits for a message.
    waiting: AtomicU32,
    /// A rank of this node has sent something that it has not looked at.
    unread: AtomicU32,
}

const _: () = assert!(size_of::<Place>() == PLACE_BYTES);

/// What a rank says of itself: nothing of it needs to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankSays {
    /// Its process.
    pub pid: u32,
    /// A descriptor of that process, readable when something has come.
    pub news_fd: Option<RawFd>,
    /// It waits for a message.
    pub waiting: bool,
    /// One has come from a rank of its node.
    pub unread: bool,
}

/// The file for the ranks of a job on a node, as its node manager has it.
#[derive(Debug)]
pub struct RankPage {
    file: File,
    ranks: usize,
}

impl RankPage {
    /// Makes the file, which must not exist (nor a symlink of that name), for so many ranks;
    /// nobody but its owner may use it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path, ranks: usize) -> io::Result<RankPage> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // Whatever the umask took away.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len((HEADER_BYTES + ranks * PLACE_BYTES) as u64)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        Ok(RankPage { file, ranks })
    }

    /// Gives the file to a user: the one that was made, whatever has its name by now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        fchown(&self.file, Some(uid), Some(gid))
    }

    /// What each rank says; nothing of those for which the file has become too short.
    ///
    /// # Errors
    /// When it cannot be read.
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
    let word = |index: usize| {
        let bytes = place.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.unwrap_or_default())
    };
    RankSays {
        pid: word(0),
        news_fd: word(1).checked_sub(1).and_then(|fd| RawFd::try_from(fd).ok()),
        waiting: word(2) != 0,
        unread: word(3) != 0,
    }
}

/// The file as a rank has it.
pub(crate) struct OwnPlace {
    map: MmapRaw,
    ranks: usize,
    me: usize,
}

impl OwnPlace {
    /// As the environment names it; `None` where there is none, or none that is right: a rank
    /// that cannot tell goes on untold.
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

    /// This is the process, and this descriptor of its tells of news.
    pub(crate) fn introduce(&self, pid: u32, news_fd: RawFd) {
        let Some(own) = self.place(self.me) else { return };
        own.news_fd.store(u32::try_from(news_fd).map_or(0, |fd| fd + 1), Ordering::Relaxed);
        own.pid.store(pid, Ordering::Release);
    }

    /// It begins to wait for a message, or has it.
    pub(crate) fn wait(&self, waiting: bool) {
        if let Some(own) = self.place(self.me) {
            own.waiting.store(waiting.into(), Ordering::Relaxed);
        }
    }

    /// It has looked at all that has come.
    pub(crate) fn has_looked(&self) {
        if let Some(own) = self.place(self.me)
            && own.unread.load(Ordering::Relaxed) != 0
        {
            own.unread.store(0, Ordering::Relaxed);
        }
    }

    /// Something has come for a rank of this node.
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
        // SAFETY: `index` is within the places that the mapping was long enough for, which lives as
        // long as `self`; it is page-aligned and the offset a multiple of 64; a place consists of
        // atomics, for which any bytes are valid.
        Some(unsafe { &*self.map.as_mut_ptr().add(offset).cast::<Place>() })
    }

    fn magic(&self) -> &AtomicU64 {
        // SAFETY: as in `place`; a mapping is longer than the header.
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
    fn what_ranks_say_is_read() {
        in_directory(|path| {
            let page = RankPage::create(path, 2).unwrap();
            assert!(RankPage::create(path, 2).is_err(), "it is there");
            let ranks: Vec<OwnPlace> = (0..2).map(|me| OwnPlace::open(path, me).unwrap()).collect();
            ranks[1].introduce(77, 5);
            ranks[1].wait(true);
            ranks[0].has_sent(1);
            ranks[0].has_sent(2);
            let said = page.read().unwrap();
            let silent = RankSays { pid: 0, news_fd: None, waiting: false, unread: false };
            let waits = RankSays { pid: 77, news_fd: Some(5), waiting: true, unread: true };
            assert_eq!(said, [silent, waits]);
            ranks[1].has_looked();
            ranks[1].wait(false);
            let said = page.read().unwrap();
            assert!(!said[1].waiting && !said[1].unread);
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
