//! The cache of shipped files: `cache/<uid>/<hash>`.
//!
//! A name appears there only by a rename after the content was checked, and
//! nobody but the daemon can reach the directory; so what is found there after a
//! crash of the daemon can be used. After a crash of the machine it cannot, as
//! nothing is forced to disk: the cache then starts empty.

use super::cache_sink::CacheSink;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use storm_rm::{ContentHash, FileSpec, Owner};
use thiserror::Error;
use tokio::task::spawn_blocking;

/// Content used this recently is not evicted: a job may be about to need it.
const PINNED: Duration = Duration::from_secs(60);
/// Where the kernel names its present boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What went wrong with the cache.
#[derive(Debug, Error)]
pub(super) enum CacheError {
    #[error("the file cache is full of files in use ({capacity_bytes} bytes)")]
    Full { capacity_bytes: u64 },
    #[error("a file of {bytes} bytes is larger than the file cache ({capacity_bytes} bytes)")]
    TooLarge { bytes: u64, capacity_bytes: u64 },
    #[error("cannot {action} in the file cache {path}")]
    File { action: &'static str, path: PathBuf, source: io::Error },
}

impl CacheError {
    /// As an I/O error of the same kind.
    pub(super) fn into_io(self) -> io::Error {
        let kind = match &self {
            CacheError::Full { .. } => io::ErrorKind::StorageFull,
            CacheError::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            CacheError::File { source, .. } => source.kind(),
        };
        io::Error::new(kind, self)
    }
}

/// The index of one node's cache. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    capacity_bytes: u64,
    contents: RefCell<BTreeMap<(u32, ContentHash), Entry>>,
    /// Bytes of files that are being written.
    reserved: Cell<u64>,
    next_temporary: Cell<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    size_bytes: u64,
    used: Option<Instant>,
}

impl Cache {
    /// Opens the cache at `root`, with what a former daemon left if that can be
    /// trusted.
    pub(super) fn open(root: PathBuf, capacity_bytes: u64) -> Result<Cache, CacheError> {
        let at = |action| {
            let path = root.clone();
            move |source| CacheError::File { action, path, source }
        };
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
        let marker = root.join("boot");
        if boot.is_empty() || fs::read_to_string(&marker).is_ok_and(|found| found != boot) {
            remove_tree(&root).map_err(at("remove what an earlier boot left"))?;
        }
        make_private(&root).map_err(at("make a directory"))?;
        fs::write(&marker, &boot).map_err(at("write"))?;
        let contents = scan(&root).map_err(at("look for content"))?;
        let inner = Inner {
            root,
            capacity_bytes,
            contents: RefCell::new(contents),
            reserved: Cell::new(0),
            next_temporary: Cell::new(0),
        };
        Ok(Cache { inner: Rc::new(inner) })
    }

    /// Whether the content is there; if so it is not evicted for a while.
    pub(super) async fn has(&self, owner: Owner, file: &FileSpec) -> bool {
        let key = (owner.uid, file.hash);
        if !self.inner.contents.borrow().contains_key(&key) {
            return false;
        }
        // Now, so that nothing evicts it while it is looked at.
        self.touch(key);
        let (path, size) = (self.path(owner, file.hash), file.size_bytes);
        let sound = spawn_blocking(move || fs::metadata(path).is_ok_and(|meta| meta.len() == size));
        let sound = sound.await.unwrap_or(false);
        if !sound {
            self.inner.contents.borrow_mut().remove(&key);
        }
        sound
    }

    /// Makes room for a file and starts to write it.
    pub(super) async fn create(
        &self,
        owner: Owner,
        file: &FileSpec,
    ) -> Result<CacheSink, CacheError> {
        let evicted = self.evict_for(file.size_bytes)?;
        let reservation = Reservation::new(self.clone(), file.size_bytes);
        let number = self.inner.next_temporary.get();
        self.inner.next_temporary.set(number + 1);
        let path = self.path(owner, file.hash);
        let temporary = path.with_file_name(format!("{}.{number}.part", file.hash));
        let making = temporary.clone();
        let made = spawn_blocking(move || {
            for path in evicted {
                // Gone already is as good.
                let _ = fs::remove_file(path);
            }
            if let Some(directory) = making.parent() {
                make_private(directory)?;
            }
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(making)
        });
        let made = made.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        match made {
            Ok(out) => {
                Ok(CacheSink::new(out, temporary, path, (owner.uid, file.clone()), reservation))
            }
            Err(source) => {
                Err(CacheError::File { action: "create a file", path: temporary, source })
            }
        }
    }

    /// Where content is, or would be.
    pub(super) fn path(&self, owner: Owner, hash: ContentHash) -> PathBuf {
        self.inner.root.join(owner.uid.to_string()).join(hash.to_string())
    }

    /// Removes the whole cache.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove_tree(&self.inner.root)
    }

    fn touch(&self, key: (u32, ContentHash)) {
        if let Some(entry) = self.inner.contents.borrow_mut().get_mut(&key) {
            entry.used = Some(Instant::now());
        }
    }

    fn used_bytes(&self) -> u64 {
        let contents: u64 = self.inner.contents.borrow().values().map(|e| e.size_bytes).sum();
        contents + self.inner.reserved.get()
    }

    /// Forgets what was used least recently until `bytes` fit; their paths. Forgets nothing when
    /// they cannot.
    fn evict_for(&self, bytes: u64) -> Result<Vec<PathBuf>, CacheError> {
        let capacity_bytes = self.inner.capacity_bytes;
        if bytes > capacity_bytes {
            return Err(CacheError::TooLarge { bytes, capacity_bytes });
        }
        let mut excess = (self.used_bytes() + bytes).saturating_sub(capacity_bytes);
        let mut contents = self.inner.contents.borrow_mut();
        let free = |entry: &Entry| entry.used.is_none_or(|used| used.elapsed() > PINNED);
        let mut idle: Vec<_> = contents.iter().filter(|(_, entry)| free(entry)).collect();
        idle.sort_by_key(|(_, entry)| entry.used);
        let mut victims = Vec::new();
        for (key, entry) in idle {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(entry.size_bytes);
            victims.push(*key);
        }
        if excess > 0 {
            return Err(CacheError::Full { capacity_bytes });
        }
        contents.retain(|key, _| !victims.contains(key));
        let path = |(uid, hash): (u32, ContentHash)| {
            self.inner.root.join(uid.to_string()).join(hash.to_string())
        };
        Ok(victims.into_iter().map(path).collect())
    }
}

/// Room in the cache for a file that is being written; given back when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    cache: Cache,
    bytes: u64,
}

impl Reservation {
    fn new(cache: Cache, bytes: u64) -> Reservation {
        cache.inner.reserved.set(cache.inner.reserved.get() + bytes);
        Reservation { cache, bytes }
    }

    /// The file is there.
    pub(super) fn fulfilled(&self, uid: u32, hash: ContentHash) {
        let entry = Entry { size_bytes: self.bytes, used: Some(Instant::now()) };
        self.cache.inner.contents.borrow_mut().insert((uid, hash), entry);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &self.cache.inner.reserved;
        reserved.set(reserved.get().saturating_sub(self.bytes));
    }
}

/// Finds checked content and removes what was being written.
fn scan(root: &Path) -> io::Result<BTreeMap<(u32, ContentHash), Entry>> {
    let mut contents = BTreeMap::new();
    for directory in fs::read_dir(root)? {
        let directory = directory?;
        let Some(uid) = directory.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        for file in fs::read_dir(directory.path())? {
            let file = file?;
            match file.file_name().to_str().and_then(|name| name.parse::<ContentHash>().ok()) {
                Some(hash) => {
                    let entry = Entry { size_bytes: file.metadata()?.len(), used: None };
                    contents.insert((uid, hash), entry);
                }
                None => fs::remove_file(file.path())?,
            }
        }
    }
    Ok(contents)
}

/// A directory that only the daemon can enter.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use storm_rm::file_transfer::ChunkSink;
    use storm_rm::{Destination, OsBytes};

    const OWNER: Owner = Owner { uid: 7, gid: 7 };

    fn file(content: &[u8]) -> FileSpec {
        FileSpec {
            hash: ContentHash::of(content),
            size_bytes: content.len() as u64,
            mode: 0o755,
            name: OsBytes::from("f"),
            destination: Destination::JobDirectory,
        }
    }

    async fn add(cache: &Cache, content: &'static [u8]) -> io::Result<()> {
        let mut sink = cache.create(OWNER, &file(content)).await.map_err(CacheError::into_io)?;
        for chunk in content.chunks(3) {
            sink.write(vec![Bytes::from_static(chunk)]).await?;
        }
        sink.finish().await
    }

    #[tokio::test]
    async fn content_is_found_again_by_the_next_daemon_and_remains_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let cache = Cache::open(root.clone(), 1000).unwrap();
        assert!(!cache.has(OWNER, &file(b"program")).await);
        add(&cache, b"program").await.unwrap();
        let unfinished = cache.create(OWNER, &file(b"unfinished")).await.unwrap();
        std::mem::forget(unfinished);
        let next = Cache::open(root.clone(), 1000).unwrap();
        assert!(next.has(OWNER, &file(b"program")).await);
        assert_eq!(fs::read_dir(root.join("7")).unwrap().count(), 1);
        assert!(!next.has(Owner { uid: 8, gid: 8 }, &file(b"program")).await, "another's cache");
    }

    #[tokio::test]
    async fn content_of_an_earlier_boot_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let cache = Cache::open(root.clone(), 1000).unwrap();
        add(&cache, b"program").await.unwrap();
        fs::write(root.join("boot"), "another boot").unwrap();
        let next = Cache::open(root, 1000).unwrap();
        assert!(!next.has(OWNER, &file(b"program")).await);
    }

    #[tokio::test]
    async fn damaged_and_short_content_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().join("cache"), 1000).unwrap();
        for came in [&b"progrbm"[..], b"prog"] {
            let mut sink = cache.create(OWNER, &file(b"program")).await.unwrap();
            sink.write(vec![Bytes::copy_from_slice(came)]).await.unwrap();
            assert!(sink.finish().await.is_err());
            drop(sink);
            assert_eq!(fs::read_dir(dir.path().join("cache/7")).unwrap().count(), 0);
        }
        assert_eq!(cache.used_bytes(), 0);
    }

    #[tokio::test]
    async fn room_is_made_only_from_what_is_not_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        add(&Cache::open(root.clone(), 12).unwrap(), b"old data").await.unwrap();
        let cache = Cache::open(root, 12).unwrap();
        add(&cache, b"new data").await.unwrap();
        assert!(!cache.has(OWNER, &file(b"old data")).await, "evicted");
        let full = add(&cache, b"more data").await.unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
        assert!(cache.has(OWNER, &file(b"new data")).await, "just used");
    }

    #[tokio::test]
    async fn what_cannot_fit_evicts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        add(&Cache::open(root.clone(), 12).unwrap(), b"old").await.unwrap();
        let cache = Cache::open(root, 12).unwrap();
        add(&cache, b"in use").await.unwrap();
        for (content, kind) in [
            (&b"too much now"[..], io::ErrorKind::StorageFull),
            (&b"more than ever fits"[..], io::ErrorKind::FileTooLarge),
        ] {
            let refused = cache.create(OWNER, &file(content)).await.unwrap_err().into_io();
            assert_eq!(refused.kind(), kind, "{refused}");
        }
        assert!(cache.has(OWNER, &file(b"old")).await, "what is on the disk is counted");
    }
}
