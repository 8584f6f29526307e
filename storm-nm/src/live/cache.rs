//! The cache of shipped files: `cache/<uid>/<hash>`.
//!
//! A name appears there only by a rename after the content was checked, and only the daemon can
//! reach the directory. The cache's content can therefore be used after a crash of the daemon.
//! After a crash of the machine the cache starts empty, since nothing is forced to disk.
//!
//! Content is kept from a job's announcement until the job has its own link to the content. From
//! then on the job does not need the cache's link. The least recently used of the other content
//! makes room when the cache reaches its limit, or when its file system is full.

use super::cache_sink::{CacheSink, Check};
use super::job_directory;
use nix::sys::statvfs::statvfs;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use storm_rm::{ContentHash, ContentSum, FileSpec, Owner};
use thiserror::Error;
use tokio::task::spawn_blocking;

/// How long content is kept for a job that does not claim it: the job was cancelled, or its manager
/// is gone. A job that is launched later than this after its file arrived may find the file
/// evicted. The job then fails.
const CLAIMED: Duration = Duration::from_secs(600);
/// The most that a cache takes by default: a few programs of the size of real applications.
const DEFAULT_BYTES: u64 = 2 << 30;
/// Where the kernel names its present boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Why the cache failed.
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
    /// Converts it to an I/O error of the same kind.
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
    capacity_bytes: Cell<u64>,
    /// Whether the capacity was not configured.
    by_itself: bool,
    available: Available,
    contents: RefCell<BTreeMap<(u32, ContentHash), Entry>>,
    /// Bytes of files that are being written.
    reserved: Cell<u64>,
    /// The part of `reserved` that the file system still counts as free.
    unwritten: Cell<u64>,
    next_temporary: Cell<u64>,
}

/// Bytes that a file system has free for this daemon.
type Available = fn(&Path) -> io::Result<u64>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    size_bytes: u64,
    used: Option<Instant>,
    /// Jobs that have announced the content and have no link of their own to it yet.
    claims: u32,
}

impl Entry {
    /// Whether a job may be about to need it.
    fn is_claimed(&self) -> bool {
        self.claims > 0 && self.used.is_some_and(|used| used.elapsed() < CLAIMED)
    }
}

impl Cache {
    /// Opens the cache at `root`, with the content of a former daemon if it can be trusted. Without
    /// `capacity_bytes`, the cache takes half of the space that its file system has left, now or
    /// later. In this case the cache takes at most 2 GiB.
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
            job_directory::remove(&root).map_err(at("remove what an earlier boot left"))?;
        }
        make_private(&root).map_err(at("make a directory"))?;
        fs::write(&marker, &boot).map_err(at("write"))?;
        let contents = scan(&root).map_err(at("look for content"))?;
        let by_itself = capacity_bytes.is_none();
        let capacity_bytes = match capacity_bytes {
            Some(told) => told,
            None => share(&contents, available(&root).map_err(at("look for free space"))?),
        };
        let inner = Inner {
            root,
            capacity_bytes: Cell::new(capacity_bytes),
            by_itself,
            available,
            contents: RefCell::new(contents),
            reserved: Cell::new(0),
            unwritten: Cell::new(0),
            next_temporary: Cell::new(0),
        };
        Ok(Cache { inner: Rc::new(inner) })
    }

    /// Most bytes of content.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes.get()
    }

    /// Raises a capacity that was not configured, if the file system has more space. The file
    /// system may have been full when the daemon started.
    fn grow(&self, available: u64) {
        if self.inner.by_itself {
            let share = share(&self.inner.contents.borrow(), available);
            self.inner.capacity_bytes.set(share.max(self.capacity_bytes()));
        }
    }

    /// Whether the content is there. If the content is there, it is not evicted until
    /// [`linked`](Self::linked).
    pub(super) async fn has(&self, owner: Owner, file: &FileSpec) -> bool {
        let key = (owner.uid, file.hash);
        if !self.inner.contents.borrow().contains_key(&key) {
            return false;
        }
        // Claim it first, so that nothing evicts it during the check.
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
        sum: Option<ContentSum>,
    ) -> Result<CacheSink, CacheError> {
        let (root, available) = (self.inner.root.clone(), self.inner.available);
        // Bytes that are written while the file system is queried count as not written.
        let before = self.inner.unwritten.get();
        // If the file system does not report its space, the write will fail instead.
        let free = spawn_blocking(move || available(&root).unwrap_or(u64::MAX)).await;
        let others = before.max(self.inner.unwritten.get());
        let evicted = self.evict_for(file.size_bytes, free.unwrap_or(u64::MAX), others)?;
        let reservation = Reservation::new(self.clone(), file.size_bytes);
        let number = self.inner.next_temporary.get();
        self.inner.next_temporary.set(number + 1);
        let path = self.path(owner, file.hash);
        let temporary = path.with_file_name(format!("{}.{number}.part", file.hash));
        let (making, bytes) = (temporary.clone(), file.size_bytes);
        let root = self.inner.root.clone();
        let failed = |path: &Path, source| CacheError::File {
            action: "create a file",
            path: path.to_owned(),
            source,
        };
        let made = spawn_blocking(move || {
            let left = || available(&root).map(|available| available.saturating_sub(others));
            if let Some(available) = short_after(&evicted, bytes, left) {
                return Err(CacheError::NoSpace { bytes, available });
            }
            let directory = making.parent().map_or(Ok(()), make_private);
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            directory.and_then(|()| options.open(&making)).map_err(|error| failed(&making, error))
        });
        let interrupted = |_| Err(failed(&temporary, io::ErrorKind::Interrupted.into()));
        let out = made.await.unwrap_or_else(interrupted)?;
        let check = Check::begin(file, sum);
        Ok(CacheSink::new((out, check), temporary, path, (owner.uid, file.clone()), reservation))
    }

    /// The path of content, whether it is there or not.
    pub(super) fn path(&self, owner: Owner, hash: ContentHash) -> PathBuf {
        self.inner.root.join(owner.uid.to_string()).join(hash.to_string())
    }

    /// Removes the whole cache.
    pub(super) fn remove(&self) -> io::Result<()> {
        job_directory::remove(&self.inner.root)
    }

    /// Drops a job's claim: the job has a link or copy of its own, or will not have any.
    pub(super) fn linked(&self, owner: Owner, hash: ContentHash) {
        self.touch((owner.uid, hash), |claims| claims.saturating_sub(1));
    }

    fn touch(&self, key: (u32, ContentHash), claims: impl Fn(u32) -> u32) {
        if let Some(entry) = self.inner.contents.borrow_mut().get_mut(&key) {
            // A new claim does not revive claims that have expired.
            let former = if entry.is_claimed() { entry.claims } else { 0 };
            entry.used = Some(Instant::now());
            entry.claims = claims(former);
        }
    }

    fn used_bytes(&self) -> u64 {
        let contents: u64 = self.inner.contents.borrow().values().map(|e| e.size_bytes).sum();
        contents + self.inner.reserved.get()
    }

    /// Forgets the least recently used content until `bytes` fit. The file system has `free` bytes,
    /// and files on their way need `others` of them. Returns the paths to remove. If the bytes
    /// cannot fit, forgets nothing.
    fn evict_for(&self, bytes: u64, free: u64, others: u64) -> Result<Vec<PathBuf>, CacheError> {
        self.grow(free);
        let available = free.saturating_sub(others);
        let capacity_bytes = self.capacity_bytes();
        // A default capacity bounds only the content that is kept: a job may use all free space
        // now.
        let is_bound = !self.inner.by_itself;
        if is_bound && bytes > capacity_bytes {
            return Err(CacheError::TooLarge { bytes, capacity_bytes });
        }
        let beyond = (self.used_bytes() + bytes).saturating_sub(capacity_bytes);
        let short = bytes.saturating_sub(available);
        let mut contents = self.inner.contents.borrow_mut();
        let mut idle: Vec<_> = contents.iter().filter(|(_, entry)| !entry.is_claimed()).collect();
        idle.sort_by_key(|(_, entry)| entry.used);
        let idle_bytes: u64 = idle.iter().map(|(_, entry)| entry.size_bytes).sum();
        if is_bound && idle_bytes < beyond {
            return Err(CacheError::Full { capacity_bytes });
        }
        if idle_bytes < short {
            return Err(CacheError::NoSpace { bytes, available });
        }
        let mut excess = beyond.min(idle_bytes).max(short);
        let mut victims = Vec::new();
        for (key, entry) in idle {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(entry.size_bytes);
            victims.push(*key);
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
    unwritten: Cell<u64>,
}

impl Reservation {
    fn new(cache: Cache, bytes: u64) -> Reservation {
        let Inner { reserved, unwritten, .. } = &*cache.inner;
        reserved.set(reserved.get() + bytes);
        unwritten.set(unwritten.get() + bytes);
        Reservation { cache, bytes, unwritten: Cell::new(bytes) }
    }

    /// Notes that `bytes` of the file are being written: the file system counts them from now on.
    pub(super) fn writes(&self, bytes: u64) {
        // A sender may send more than it announced. A file with more bytes than announced is
        // refused at the end.
        let counted = bytes.min(self.unwritten.get());
        self.unwritten.set(self.unwritten.get() - counted);
        let all = &self.cache.inner.unwritten;
        all.set(all.get().saturating_sub(counted));
    }

    /// Records the complete file.
    pub(super) fn fulfilled(&self, uid: u32, hash: ContentHash) {
        let mut contents = self.cache.inner.contents.borrow_mut();
        // Another job's copy of the same content may have arrived first.
        let claims = contents.get(&(uid, hash)).map_or(0, |entry| entry.claims).saturating_add(1);
        let entry = Entry { size_bytes: self.bytes, used: Some(Instant::now()), claims };
        contents.insert((uid, hash), entry);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &self.cache.inner.reserved;
        reserved.set(reserved.get().saturating_sub(self.bytes));
        self.writes(self.bytes);
    }
}

/// Removes these files. Returns how much is free then, if it is less than `bytes`: content that
/// running jobs have links to still takes its room.
fn short_after(
    evicted: &[PathBuf],
    bytes: u64,
    available: impl Fn() -> io::Result<u64>,
) -> Option<u64> {
    for path in evicted {
        // The file may be gone already.
        let _ = fs::remove_file(path);
    }
    let is_looked_at = !evicted.is_empty();
    is_looked_at.then(available)?.ok().filter(|available| *available < bytes)
}

/// Finds checked content, and removes files that are not complete.
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

/// The default capacity, given the free space of the file system.
fn share(contents: &BTreeMap<(u32, ContentHash), Entry>, available: u64) -> u64 {
    let held: u64 = contents.values().map(|entry| entry.size_bytes).sum();
    (held.saturating_add(available) / 2).min(DEFAULT_BYTES)
}

fn available(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    // A file system without a limit, such as `ramfs` or `tmpfs` with `size=0`, has no blocks to
    // count (simple_statfs and shmem_statfs of Linux). Such a file system is not full.
    if found.blocks() == 0 {
        return Ok(u64::MAX);
    }
    // Their widths differ between systems.
    #[allow(clippy::useless_conversion, reason = "not on each of them")]
    let (blocks, block_bytes) =
        (u64::from(found.blocks_available()), u64::from(found.fragment_size()));
    Ok(blocks.saturating_mul(block_bytes))
}

/// Makes a directory that only the daemon can enter. The parent of the directory exists.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests;
