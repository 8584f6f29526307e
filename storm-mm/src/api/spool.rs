//! The files that clients sent, named by their content, one directory per user.
//!
//! The manager opens no path of a user: files to be shipped arrive through the socket and are kept
//! here. A file appears under its name only when it is whole and its BLAKE3 is right. From then on
//! the spool holds the file's [`ContentSum`], as long as the manager runs.
//!
//! The spool does not track which jobs need a file; the core lists the needed files when it
//! requests room.

mod incoming;

pub(super) use incoming::Incoming;
pub use incoming::SpoolError;

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use storm_rm::{ContentHash, ContentSum};

/// A file is not removed this soon after its last use: the core may not have received the job yet
/// that needs it.
const GRACE: Duration = Duration::from_secs(60);

/// A content-addressed directory.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
    file_limit_bytes: u64,
    /// Only of files that this manager has received itself.
    sums: Sums,
}

/// The sums of contents, by user and hash.
type Sums = Arc<Mutex<HashMap<(u32, ContentHash), ContentSum>>>;

impl Spool {
    /// Largest file that is taken unless configured otherwise: programs are
    /// tens of MiB, containers a few GiB.
    pub const DEFAULT_FILE_LIMIT_BYTES: u64 = 16 << 30;

    /// Uses `directory`: makes it with mode 0700 if it is missing, and removes the unfinished files
    /// of an earlier manager.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn open_directory(directory: PathBuf, file_limit_bytes: u64) -> io::Result<Spool> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        for user in fs::read_dir(&directory)? {
            let user = user?.path();
            if user.is_dir() {
                incoming::remove_unfinished(&user)?;
            }
        }
        Ok(Spool { directory, file_limit_bytes, sums: Sums::default() })
    }

    /// Length of the content in bytes, if it is here for this user.
    pub fn size_bytes(&self, uid: u32, hash: &ContentHash) -> Option<u64> {
        fs::metadata(self.path(uid, hash)).ok().map(|found| found.len())
    }

    /// Opens a content of this user for reading.
    ///
    /// # Errors
    /// The content is not here, or cannot be opened.
    pub fn open(&self, uid: u32, hash: &ContentHash) -> io::Result<File> {
        File::open(self.path(uid, hash))
    }

    /// The content's sum, if this manager has received the content and checked its hash.
    pub(crate) fn sum(&self, uid: u32, hash: &ContentHash) -> Option<ContentSum> {
        lock(&self.sums).get(&(uid, *hash)).copied()
    }

    /// Counts as a use now: see [`make_room`](Self::make_room).
    pub(super) fn touch(&self, uid: u32, hash: &ContentHash) -> io::Result<()> {
        self.open(uid, hash)?.set_modified(SystemTime::now())
    }

    /// Begins to receive a content.
    pub(super) fn receive(
        &self,
        uid: u32,
        hash: ContentHash,
        size_bytes: u64,
    ) -> Result<Incoming, SpoolError> {
        if size_bytes > self.file_limit_bytes {
            let limit_bytes = self.file_limit_bytes;
            return Err(SpoolError::TooLarge { size_bytes, limit_bytes });
        }
        let directory = self.directory.join(uid.to_string());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(SpoolError::Storage)?;
        Incoming::begin(&directory, (uid, hash), size_bytes, self.sums.clone())
    }

    /// Removes contents, the longest unused first, until all together are at most `limit_bytes`.
    /// Contents that `needed` names and those used in the last minute stay. Returns how many bytes
    /// remain.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn make_room(
        &self,
        limit_bytes: u64,
        needed: &HashSet<(u32, ContentHash)>,
    ) -> io::Result<u64> {
        let mut files = self.contents()?;
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.size_bytes).sum();
        let recent = SystemTime::now().checked_sub(GRACE).unwrap_or(SystemTime::UNIX_EPOCH);
        for file in files {
            if total <= limit_bytes {
                break;
            }
            let idle = file.used < recent && !needed.contains(&(file.uid, file.hash));
            if idle && fs::remove_file(self.path(file.uid, &file.hash)).is_ok() {
                lock(&self.sums).remove(&(file.uid, file.hash));
                total -= file.size_bytes;
            }
        }
        Ok(total)
    }

    fn contents(&self) -> io::Result<Vec<Content>> {
        let mut contents = Vec::new();
        for user in fs::read_dir(&self.directory)? {
            let user = user?;
            let Some(uid) = user.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            for file in fs::read_dir(user.path())? {
                let file = file?;
                let hash = file.file_name().to_str().and_then(|name| name.parse().ok());
                if let (Some(hash), Ok(found)) = (hash, file.metadata()) {
                    let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    contents.push(Content { uid, hash, size_bytes: found.len(), used });
                }
            }
        }
        Ok(contents)
    }

    fn path(&self, uid: u32, hash: &ContentHash) -> PathBuf {
        Path::new(&self.directory).join(uid.to_string()).join(hash.to_string())
    }
}

fn lock(sums: &Sums) -> MutexGuard<'_, HashMap<(u32, ContentHash), ContentSum>> {
    // Each change is one call, so a panic leaves the map whole.
    sums.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Content {
    uid: u32,
    hash: ContentHash,
    size_bytes: u64,
    used: SystemTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A file of this content that was last used `age` ago.
    fn store(spool: &Spool, content: &[u8], age: Duration) -> ContentHash {
        let hash = ContentHash::of(content);
        let mut incoming = spool.receive(7, hash, content.len() as u64).expect("room");
        incoming.write(content).expect("room");
        incoming.finish().expect("it is what it claims to be");
        let used = SystemTime::now() - age;
        spool.open(7, &hash).and_then(|file| file.set_modified(used)).expect("ours");
        hash
    }

    #[test]
    fn room_is_made_of_what_nobody_needs_the_longest_unused_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let spool = Spool::open_directory(directory.path().to_owned(), 100).expect("a spool");
        let needed = store(&spool, b"needed....", 4 * HOUR);
        let oldest = store(&spool, b"oldest....", 3 * HOUR);
        let older = store(&spool, b"older.....", 2 * HOUR);
        let recent = store(&spool, b"recent....", Duration::ZERO);
        let keep = HashSet::from([(7, needed)]);
        assert_eq!(spool.make_room(30, &keep).expect("readable"), 30);
        assert_eq!(spool.size_bytes(7, &oldest), None);
        assert_eq!(spool.sum(7, &oldest), None);
        assert_eq!(spool.sum(7, &older), Some(ContentSum::of(b"older.....")));
        assert_eq!(spool.sum(8, &older), None, "another user's");
        assert_eq!(spool.size_bytes(7, &older), Some(10));
        assert_eq!(spool.make_room(0, &keep).expect("readable"), 20, "two must stay");
        assert!(spool.size_bytes(7, &needed).is_some() && spool.size_bytes(7, &recent).is_some());
    }

    #[test]
    fn unfinished_files_of_an_earlier_manager_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_owned();
        let spool = Spool::open_directory(path.clone(), 100).expect("a spool");
        let incoming = spool.receive(7, ContentHash::of(b"x"), 1).expect("room");
        // The manager was killed in the middle.
        std::mem::forget(incoming);
        let count = || fs::read_dir(path.join("7")).expect("readable").count();
        assert_eq!(count(), 1);
        Spool::open_directory(path.clone(), 100).expect("a spool");
        assert_eq!(count(), 0);
    }
}
