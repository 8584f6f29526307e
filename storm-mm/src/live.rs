//! The spool as the source of contents for the nodes. Data in the page cache is read at once. Other
//! data is read from disk off the manager's thread, so that no disk delays a strobe.

use crate::api::Spool;
use crate::driver::Contents;
use bytes::Bytes;
use rustix::io::ReadWriteFlags;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use storm_rm::file_transfer::ChunkSource;
use storm_rm::{ContentHash, ContentSum};

/// The contents that clients uploaded.
pub struct SpoolContents {
    spool: Spool,
    limit_bytes: u64,
    tells_sums: bool,
}

impl SpoolContents {
    /// Serves the contents of `spool`, which is kept within `limit_bytes` as far as the waiting and
    /// running jobs need no more. With `tells_sums`, nodes get the sums of contents to check
    /// instead of the hashes. Set `tells_sums` only where nobody can change data on its way to the
    /// nodes.
    pub fn new(spool: Spool, limit_bytes: u64, tells_sums: bool) -> SpoolContents {
        SpoolContents { spool, limit_bytes, tells_sums }
    }
}

impl Contents for SpoolContents {
    type Source = SpooledFile;

    async fn open(&self, uid: u32, hash: &ContentHash) -> io::Result<SpooledFile> {
        let file = self.spool.open(uid, hash)?;
        // If the type of the file system is unknown, the file is read like one on disk.
        let in_memory = rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC);
        let sum = self.spool.sum(uid, hash).filter(|_| self.tells_sums);
        Ok(SpooledFile { file: Arc::new(file), offset: 0, in_memory, in_a_row: 0, sum })
    }

    async fn make_room(&self, needed: HashSet<(u32, ContentHash)>) -> io::Result<()> {
        let (spool, limit_bytes) = (self.spool.clone(), self.limit_bytes);
        let tidying = tokio::task::spawn_blocking(move || spool.make_room(limit_bytes, &needed));
        tidying.await.map_err(io::Error::other)?.map(|_| ())
    }
}

/// A file of the spool, read in order.
pub struct SpooledFile {
    file: Arc<File>,
    offset: u64,
    /// Whether the file is on tmpfs, which keeps all in memory and does not support RWF_NOWAIT.
    in_memory: bool,
    /// Bytes read since other tasks had their turn.
    in_a_row: usize,
    sum: Option<ContentSum>,
}

/// Bytes that are read and sent in a row before other tasks have their turn. The number bounds the
/// delay of a strobe, and spares a node a wake-up for each chunk.
const IN_A_ROW: usize = 2 << 20;

/// statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

impl SpooledFile {
    /// Reads from the page cache; returns how many bytes. A helper thread would have to wait for a
    /// processor behind the daemons, which have real-time priority.
    fn read_cached(&self, chunk: &mut [u8]) -> usize {
        let mut slices = [IoSliceMut::new(chunk)];
        // An error means that NOWAIT is not supported or nothing is cached: nothing was read.
        let how = if self.in_memory { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
        rustix::io::preadv2(&self.file, &mut slices, self.offset, how).unwrap_or(0)
    }
}

impl ChunkSource for SpooledFile {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        if self.in_a_row >= IN_A_ROW {
            self.in_a_row = 0;
            tokio::task::yield_now().await;
        }
        self.in_a_row += len;
        let mut chunk = vec![0; len];
        let cached = self.read_cached(&mut chunk);
        let (file, start) = (self.file.clone(), self.offset + cached as u64);
        self.offset += len as u64;
        if cached == len {
            return Ok(Bytes::from(chunk));
        }
        let read = tokio::task::spawn_blocking(move || {
            file.read_exact_at(&mut chunk[cached..], start)?;
            Ok(Bytes::from(chunk))
        });
        read.await.map_err(io::Error::other)?
    }

    fn sum(&self) -> Option<ContentSum> {
        self.sum
    }
}
