//! Files in memory, as the manager's spool.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::rc::Rc;
use storm_mm::driver::Contents;
use storm_rm::file_transfer::ChunkSource;
use storm_rm::{ContentHash, Destination, FileSpec};

/// The files that clients sent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemoryContents {
    files: Rc<RefCell<BTreeMap<ContentHash, Bytes>>>,
}

impl MemoryContents {
    /// Adds a file of `len` bytes that differs from those of other seeds.
    pub(crate) fn add(&self, name: &str, len: usize, seed: u8) -> FileSpec {
        let bytes: Vec<u8> = (0..len).map(|index| (index as u8).wrapping_mul(31) ^ seed).collect();
        let hash = ContentHash::of(&bytes);
        self.files.borrow_mut().insert(hash, bytes.into());
        FileSpec {
            hash,
            size_bytes: len as u64,
            mode: 0o755,
            name: name.into(),
            destination: Destination::JobDirectory,
        }
    }
}

impl MemoryContents {
    /// Whether a content is still there.
    pub(crate) fn has(&self, file: &FileSpec) -> bool {
        self.files.borrow().contains_key(&file.hash)
    }
}

/// Room is always short, so unneeded contents are removed.
impl Contents for MemoryContents {
    type Source = FileInMemory;

    async fn open(&self, _uid: u32, hash: &ContentHash) -> io::Result<FileInMemory> {
        let rest = self.files.borrow().get(hash).cloned();
        Ok(FileInMemory { rest: rest.ok_or(io::ErrorKind::NotFound)? })
    }

    async fn make_room(&self, needed: HashSet<(u32, ContentHash)>) -> io::Result<()> {
        let is_needed = |hash: &ContentHash| needed.iter().any(|(_, needed)| needed == hash);
        self.files.borrow_mut().retain(|hash, _| is_needed(hash));
        Ok(())
    }
}

/// A file being read.
pub(crate) struct FileInMemory {
    rest: Bytes,
}

impl ChunkSource for FileInMemory {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        if self.rest.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.rest.split_to(len))
    }
}
