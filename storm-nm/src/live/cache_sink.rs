//! One file on its way into the cache. The file is written and summed up chunk by chunk on a
//! blocking thread, checked, and only then given its name.

use super::cache::{CacheError, Reservation};
use bytes::Bytes;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use storm_rm::file_transfer::ChunkSink;
use storm_rm::{ContentHash, ContentSum, FileSpec, Summing};
use thiserror::Error;
use tokio::task::spawn_blocking;

/// The users that have a link to cached content can read and execute it. Nobody can change it.
const MODE: u32 = 0o555;

/// Since Linux 6.14, a `tmpfs` that may have large pages uses a page as large as each write. The
/// kernel keeps free pages up to this size for each processor, like single pages
/// (`PAGE_ALLOC_COSTLY_ORDER`). Larger pages are made of memory that was free for longest, which a
/// virtual machine may have given back.
const PIECE_BYTES: usize = 32 << 10;

/// How much of a file is written together: all of it, unless the file system is in memory.
fn piece_bytes(file: &File) -> usize {
    let is_in_memory = fstatfs(file).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC);
    if is_in_memory { PIECE_BYTES } else { usize::MAX }
}

/// The content differs from the announced content.
#[derive(Debug, Error)]
enum Damaged {
    #[error("{came} bytes came of {announced}")]
    Length { came: u64, announced: u64 },
    #[error("its content is damaged: its hash is {came}, not {announced}")]
    Content { came: ContentHash, announced: ContentHash },
    #[error("its content is damaged: its sum is {came}, not {announced}")]
    Sum { came: ContentSum, announced: ContentSum },
}

/// Checks whether the content is the announced content.
#[derive(Debug)]
pub(super) enum Check {
    /// The sender has checked the hash, so the sum only finds damage on the way.
    Sum { so_far: Box<Summing>, announced: ContentSum },
    /// Nobody has checked the hash.
    Hash { so_far: Box<blake3::Hasher>, announced: ContentHash },
}

impl Check {
    pub(super) fn begin(file: &FileSpec, sum: Option<ContentSum>) -> Check {
        match sum {
            Some(announced) => Check::Sum { so_far: Box::default(), announced },
            None => Check::Hash { so_far: Box::default(), announced: file.hash },
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Check::Sum { so_far, .. } => so_far.update(bytes),
            Check::Hash { so_far, .. } => drop(so_far.update(bytes)),
        }
    }

    fn finish(&self) -> Result<(), Damaged> {
        match self {
            Check::Sum { so_far, announced } => {
                let (came, announced) = (so_far.finish(), *announced);
                if came == announced { Ok(()) } else { Err(Damaged::Sum { came, announced }) }
            }
            Check::Hash { so_far, announced } => {
                let (came, announced) = (ContentHash(*so_far.finalize().as_bytes()), *announced);
                if came == announced { Ok(()) } else { Err(Damaged::Content { came, announced }) }
            }
        }
    }
}

/// A file of the cache while its content arrives. If the file is dropped before it is finished, it
/// leaves nothing.
#[derive(Debug)]
pub struct CacheSink {
    /// `None` while the blocking thread writes a chunk.
    writing: Option<Writing>,
    temporary: Option<PathBuf>,
    path: PathBuf,
    uid: u32,
    file: FileSpec,
    room: Reservation,
}

#[derive(Debug)]
struct Writing {
    out: File,
    check: Check,
    bytes: u64,
    /// How much is written together.
    piece_bytes: usize,
}

impl Writing {
    /// Checks that all content has arrived, as it was announced.
    fn check(&self, file: &FileSpec) -> io::Result<()> {
        let (came, announced) = (self.bytes, file.size_bytes);
        let whole =
            if came == announced { Ok(()) } else { Err(Damaged::Length { came, announced }) };
        let damaged = |damage| io::Error::new(io::ErrorKind::InvalidData, damage);
        whole.and_then(|()| self.check.finish()).map_err(damaged)
    }
}

impl CacheSink {
    pub(super) fn new(
        (out, check): (File, Check),
        temporary: PathBuf,
        path: PathBuf,
        (uid, file): (u32, FileSpec),
        room: Reservation,
    ) -> CacheSink {
        let piece_bytes = piece_bytes(&out);
        let writing = Writing { out, check, bytes: 0, piece_bytes };
        let (writing, temporary) = (Some(writing), Some(temporary));
        CacheSink { writing, temporary, path, uid, file, room }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> io::Error {
        CacheError::File { action, path: self.path.clone(), source }.into_io()
    }

    /// Does blocking work on the file.
    async fn on_thread(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&mut Writing) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let Some(mut writing) = self.writing.take() else {
            return Err(self.failed(action, io::ErrorKind::BrokenPipe.into()));
        };
        let done = spawn_blocking(move || {
            let result = work(&mut writing);
            (writing, result)
        });
        match done.await {
            Ok((writing, result)) => {
                self.writing = Some(writing);
                result.map_err(|error| self.failed(action, error))
            }
            Err(_) => Err(self.failed(action, io::ErrorKind::Interrupted.into())),
        }
    }
}

impl ChunkSink for CacheSink {
    async fn write(&mut self, chunks: Vec<Bytes>) -> io::Result<()> {
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let written = self.on_thread("write a file", move |writing| {
            for chunk in chunks {
                writing.check.update(&chunk);
                writing.bytes += chunk.len() as u64;
                chunk
                    .chunks(writing.piece_bytes)
                    .try_for_each(|piece| writing.out.write_all(piece))?;
            }
            Ok(())
        });
        written.await?;
        // Not earlier: the file system counts the bytes as free until they are written.
        self.room.writes(bytes);
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        let Some(temporary) = self.temporary.clone() else { return Ok(()) };
        let Some(writing) = self.writing.take() else {
            return Err(self.failed("finish a file", io::ErrorKind::BrokenPipe.into()));
        };
        let (path, file) = (self.path.clone(), self.file.clone());
        let done = spawn_blocking(move || {
            writing.check(&file)?;
            writing.out.set_permissions(Permissions::from_mode(MODE))?;
            // Close the file first: a file open for writing is busy and cannot be executed. A job
            // that waited for another copy of the content may execute it as soon as it has its
            // name.
            drop(writing);
            fs::rename(temporary, path)
        });
        let done = done.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        done.map_err(|error| self.failed("finish a file", error))?;
        self.temporary = None;
        self.room.fulfilled(self.uid, self.file.hash);
        Ok(())
    }
}

impl Drop for CacheSink {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // A write under way reaches the unlinked file and is lost with the file.
            let _ = fs::remove_file(temporary);
        }
    }
}
