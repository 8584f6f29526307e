//! The modelled file cache: its contents, the time to write, and its faults.

use super::Activity;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Runtime};
use storm_rm::file_transfer::ChunkSink;
use storm_rm::{ContentHash, FileSpec, Owner};

#[derive(Debug)]
pub(super) struct Disk {
    contents: RefCell<BTreeMap<(u32, ContentHash), Cached>>,
    /// Whether writes fail.
    pub(super) full: Cell<bool>,
    pub(super) write_time_per_byte: Cell<Duration>,
    capacity_bytes: u64,
    pub(super) check_content: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    size_bytes: u64,
    used: Instant,
}

impl Disk {
    pub(super) fn new(capacity_bytes: u64, write_time_per_byte: Duration, check: bool) -> Disk {
        Disk {
            contents: RefCell::default(),
            full: Cell::new(false),
            write_time_per_byte: Cell::new(write_time_per_byte),
            capacity_bytes,
            check_content: check,
        }
    }

    /// Whether the content is there. The content counts as used now.
    pub(super) fn has(&self, owner: Owner, hash: ContentHash, now: Instant) -> bool {
        let mut contents = self.contents.borrow_mut();
        let found = contents.get_mut(&(owner.uid, hash));
        found.map(|cached| cached.used = now).is_some()
    }

    /// Evicts the least recently used contents until the file fits.
    pub(super) fn make_room(&self, size_bytes: u64) -> io::Result<()> {
        if self.full.get() || size_bytes > self.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut contents = self.contents.borrow_mut();
        let mut used: u64 = contents.values().map(|cached| cached.size_bytes).sum();
        while used + size_bytes > self.capacity_bytes {
            let oldest = contents.iter().min_by_key(|(_, cached)| cached.used).map(|(k, _)| *k);
            let Some(cached) = oldest.and_then(|key| contents.remove(&key)) else { break };
            used -= cached.size_bytes;
        }
        Ok(())
    }
}

/// A modelled file of the cache while its content arrives.
pub struct ModelledSink<R> {
    pub(super) runtime: R,
    pub(super) disk: Rc<Disk>,
    pub(super) owner: Owner,
    pub(super) file: FileSpec,
    pub(super) extra: Rc<dyn Fn(Activity) -> Duration>,
    /// `None` if the content is not checked: the hasher takes 2 KiB per node.
    pub(super) hasher: Option<Box<blake3::Hasher>>,
}

impl<R> std::fmt::Debug for ModelledSink<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelledSink").field("file", &self.file).finish_non_exhaustive()
    }
}

impl<R: Runtime> ChunkSink for ModelledSink<R> {
    async fn write(&mut self, chunks: Vec<Bytes>) -> io::Result<()> {
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let extra = (self.extra)(Activity::Write { bytes });
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.runtime.sleep(self.disk.write_time_per_byte.get() * bytes + extra).await;
        if self.disk.full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(hasher) = &mut self.hasher {
            for chunk in &chunks {
                hasher.update(chunk);
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        let came = self.hasher.as_ref().map(|hasher| ContentHash(*hasher.finalize().as_bytes()));
        if came.is_some_and(|came| came != self.file.hash) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the content is damaged"));
        }
        let cached = Cached { size_bytes: self.file.size_bytes, used: self.runtime.now() };
        self.disk.contents.borrow_mut().insert((self.owner.uid, self.file.hash), cached);
        Ok(())
    }
}
