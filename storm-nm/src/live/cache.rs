//! The cache of shipped files: `cache/<uid>/<hash>`.
//!
//! A name appears there only by a rename after the content was checked, and
//! nobody but the daemon can reach the directory; so what is found there after a
//! crash of the daemon can be used. After a crash of the machine it cannot, as
//! nothing is forced to disk: the cache then starts empty.
//!
//! Content is kept from when a job announces it until that job has its own link to it; from then
//! on the job does not need the cache's. What is used least recently of the rest makes room, when
//! the cache has as much as it may, or its file system no more.

use super::cache_sink::CacheSink;
use nix::sys::statvfs::statvfs;
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

/// How long content is kept for a job that does not come for it: it was cancelled, or its manager is
/// gone. Others start within a time slice of the last of their files.
const CLAIMED: Duration = Duration::from_secs(600);
/// What a cache may have by itself: a few programs of the size of real applications.
const DEFAULT_BYTES: u64 = 2 << 30;
/// Where the kernel names its present boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What went wrong with the cache.
#[derive(Debug, Error)]
pub(super) enum CacheError {
    #[error("the file cache is full of files in use ({capacity_bytes} bytes)")]
    Full { capacity_bytes: u64 },
    #[error(
        "a file of {bytes} bytes is larger than the file cache ({capacity_bytes} bytes; cache-bytes of \
         the configuration, or --cache-bytes of the node)"
    )]
    TooLarge { bytes: u64, capacity_bytes: u64 },
    #[error(
        "a file of {bytes} bytes does not fit the file system of the cache ({available} are free)"
    )]
    NoSpace { bytes: u64, available: u64 },
    #[error("cannot {action} in the file cache {path}")]
    File { action: &'static str, path: PathBuf, source: io::Error },
}

impl CacheError {
    /// As an I/O error of the same kind.
    pub(super) fn into_io(self) -> io::Error {
        let kind = match &self {
            CacheError::Full { .. } | CacheError::NoSpace { .. } => io::ErrorKind::StorageFull,
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
    available: Available,
    contents: RefCell<BTreeMap<(u32, ContentHash), Entry>>,
    /// Bytes of files that are being written.
    reserved: Cell<u64>,
    next_temporary: Cell<u64>,
}

/// Bytes that a file system has free for this daemon.
type Available = fn(&Path) -> io::Result<u64>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    size_bytes: u64,
    used: Option<Instant>,
    /// Jobs that have announced it and have no link of their own to it yet.
    claims: u32,
}

impl Entry {
    /// A job may be about to need it.
    fn is_claimed(&self) -> bool {
        self.claims > 0 && self.used.is_some_and(|used| used.elapsed() < CLAIMED)
    }
}

impl Cache {
    /// Opens the cache at `root`, with what a former daemon left if that can be
    /// trusted. Without `capacity_bytes`, half of what its file system has left for it, and
    /// 2 GiB at most.
    pub(super) fn open(root: PathBuf, capacity_bytes: Option<u64>) -> Result<Cache, CacheError> {
        Cache::open_on(root, capacity_bytes, available)
    }

    fn open_on(
        root: PathBuf,
        capacity_bytes: Option<u64>,
        available: Available,
    ) -> Result<Cache, CacheError> {
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
        let capacity_bytes = match capacity_bytes {
            Some(told) => told,
            None => {
                let held: u64 = contents.values().map(|entry| entry.size_bytes).sum();
                let free = available(&root).map_err(at("look for free space"))?;
                (held.saturating_add(free) / 2).min(DEFAULT_BYTES)
            }
        };
        let inner = Inner {
            root,
            capacity_bytes,
            available,
            contents: RefCell::new(contents),
            reserved: Cell::new(0),
            next_temporary: Cell::new(0),
        };
        Ok(Cache { inner: Rc::new(inner) })
    }

    /// Most bytes of content.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes
    }

    /// Whether the content is there; if so it is not evicted until [`linked`](Self::linked).
    pub(super) async fn has(&self, owner: Owner, file: &FileSpec) -> bool {
        let key = (owner.uid, file.hash);
        if !self.inner.contents.borrow().contains_key(&key) {
            return false;
        }
        // Now, so that nothing evicts it while it is looked at.
        self.touch(key, |claims| claims.saturating_add(1));
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

    /// A job that announced the content has a link or copy of its own, or will not have one.
    pub(super) fn linked(&self, owner: Owner, hash: ContentHash) {
        self.touch((owner.uid, hash), |claims| claims.saturating_sub(1));
    }

    fn touch(&self, key: (u32, ContentHash), claims: impl Fn(u32) -> u32) {
        if let Some(entry) = self.inner.contents.borrow_mut().get_mut(&key) {
            entry.used = Some(Instant::now());
            entry.claims = claims(entry.claims);
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
        // Where the file system does not say, writing does.
        let available = (self.inner.available)(&self.inner.root).unwrap_or(u64::MAX);
        let beyond = (self.used_bytes() + bytes).saturating_sub(capacity_bytes);
        let mut excess = beyond.max(bytes.saturating_sub(available));
        let mut contents = self.inner.contents.borrow_mut();
        let mut idle: Vec<_> = contents.iter().filter(|(_, entry)| !entry.is_claimed()).collect();
        idle.sort_by_key(|(_, entry)| entry.used);
        let idle_bytes: u64 = idle.iter().map(|(_, entry)| entry.size_bytes).sum();
        let mut victims = Vec::new();
        for (key, entry) in idle {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(entry.size_bytes);
            victims.push(*key);
        }
        if idle_bytes < beyond {
            return Err(CacheError::Full { capacity_bytes });
        }
        if excess > 0 {
            return Err(CacheError::NoSpace { bytes, available });
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
        let mut contents = self.cache.inner.contents.borrow_mut();
        // Another job's copy of the same content may have come first.
        let claims = contents.get(&(uid, hash)).map_or(0, |entry| entry.claims).saturating_add(1);
        let entry = Entry { size_bytes: self.bytes, used: Some(Instant::now()), claims };
        contents.insert((uid, hash), entry);
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
                    let size_bytes = file.metadata()?.len();
                    let entry = Entry { size_bytes, used: None, claims: 0 };
                    contents.insert((uid, hash), entry);
                }
                None => fs::remove_file(file.path())?,
            }
        }
    }
    Ok(contents)
}

fn available(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    // Their widths differ between systems.
    #[allow(clippy::useless_conversion, reason = "not on each of them")]
    let (blocks, block_bytes) =
        (u64::from(found.blocks_available()), u64::from(found.fragment_size()));
    Ok(blocks.saturating_mul(block_bytes))
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
        let cache = Cache::open(root.clone(), Some(1000)).unwrap();
        assert!(!cache.has(OWNER, &file(b"program")).await);
        add(&cache, b"program").await.unwrap();
        let unfinished = cache.create(OWNER, &file(b"unfinished")).await.unwrap();
        std::mem::forget(unfinished);
        let next = Cache::open(root.clone(), Some(1000)).unwrap();
        assert!(next.has(OWNER, &file(b"program")).await);
        assert_eq!(fs::read_dir(root.join("7")).unwrap().count(), 1);
        assert!(!next.has(Owner { uid: 8, gid: 8 }, &file(b"program")).await, "another's cache");
    }

    #[tokio::test]
    async fn content_of_an_earlier_boot_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let cache = Cache::open(root.clone(), Some(1000)).unwrap();
        add(&cache, b"program").await.unwrap();
        fs::write(root.join("boot"), "another boot").unwrap();
        let next = Cache::open(root, Some(1000)).unwrap();
        assert!(!next.has(OWNER, &file(b"program")).await);
    }

    #[tokio::test]
    async fn damaged_and_short_content_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().join("cache"), Some(1000)).unwrap();
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
        add(&Cache::open(root.clone(), Some(12)).unwrap(), b"old data").await.unwrap();
        let cache = Cache::open(root, Some(12)).unwrap();
        add(&cache, b"new data").await.unwrap();
        assert!(!cache.has(OWNER, &file(b"old data")).await, "evicted");
        let full = add(&cache, b"more data").await.unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
        assert!(cache.has(OWNER, &file(b"new data")).await, "just used");
    }

    #[tokio::test]
    async fn what_a_job_has_a_link_to_makes_room_and_what_another_waits_for_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().join("cache"), Some(12)).unwrap();
        add(&cache, b"program").await.unwrap();
        assert!(cache.has(OWNER, &file(b"program")).await, "for a second job");
        let hash = ContentHash::of(b"program");
        for _ in 0..2 {
            let full = add(&cache, b"another").await.unwrap_err();
            assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
            cache.linked(OWNER, hash);
        }
        add(&cache, b"another").await.unwrap();
        assert!(!cache.has(OWNER, &file(b"program")).await, "evicted at once");
    }

    #[tokio::test]
    async fn a_file_system_with_little_room_bounds_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let open = |available| Cache::open_on(root.clone(), None, available).unwrap();
        assert_eq!(open(|_| Ok(100)).capacity_bytes(), 50);
        assert_eq!(open(|_| Ok(1 << 40)).capacity_bytes(), DEFAULT_BYTES);
        assert!(available(dir.path()).unwrap() > 0);
        add(&open(|_| Ok(100)), b"old data").await.unwrap();
        assert_eq!(open(|_| Ok(100)).capacity_bytes(), 54, "what it holds is its own");
        // Others have filled it since: the cache gives what it can, or says why not.
        let cache = Cache::open_on(root.clone(), Some(1000), |_| Ok(4)).unwrap();
        let refused = add(&cache, b"much more than that").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains("(4 are free)"), "{refused}");
        add(&cache, b"new data").await.unwrap();
        assert!(!cache.has(OWNER, &file(b"old data")).await, "evicted");
    }

    #[tokio::test]
    async fn what_cannot_fit_evicts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        add(&Cache::open(root.clone(), Some(12)).unwrap(), b"old").await.unwrap();
        let cache = Cache::open(root, Some(12)).unwrap();
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
