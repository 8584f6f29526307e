//! One file on its way into the cache: written and hashed chunk by chunk on a
//! blocking thread, checked, and only then given its name.

use super::cache::{CacheError, Reservation};
use bytes::Bytes;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use storm_rm::file_transfer::ChunkSink;
use storm_rm::{ContentHash, FileSpec};
use thiserror::Error;
use tokio::task::spawn_blocking;

/// Cached content can be read and executed by whoever is given a link to it, and
/// changed by nobody.
const MODE: u32 = 0o555;

/// What came is not what was announced.
#[derive(Debug, Error)]
enum Damaged {
    #[error("{came} bytes came of {announced}")]
    Length { came: u64, announced: u64 },
    #[error("its content is damaged: its hash is {came}, not {announced}")]
    Content { came: ContentHash, announced: ContentHash },
}

/// A file of the cache while its content comes. Dropped before it is finished, it
/// leaves nothing.
#[derive(Debug)]
pub struct CacheSink {
    /// With the blocking thread while a chunk is written.
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
    hasher: blake3::Hasher,
    bytes: u64,
}

impl CacheSink {
    pub(super) fn new(
        out: File,
        temporary: PathBuf,
        path: PathBuf,
        (uid, file): (u32, FileSpec),
        room: Reservation,
    ) -> CacheSink {
        let writing = Writing { out, hasher: blake3::Hasher::new(), bytes: 0 };
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
    async fn write(&mut self, chunk: Bytes) -> io::Result<()> {
        self.on_thread("write a file", move |writing| {
            writing.hasher.update(&chunk);
            writing.bytes += chunk.len() as u64;
            writing.out.write_all(&chunk)
        })
        .await
    }

    async fn finish(&mut self) -> io::Result<()> {
        let Some(temporary) = self.temporary.clone() else { return Ok(()) };
        let (path, file) = (self.path.clone(), self.file.clone());
        self.on_thread("finish a file", move |writing| {
            let came = ContentHash(*writing.hasher.finalize().as_bytes());
            let announced = file.size_bytes;
            if writing.bytes != announced {
                let damage = Damaged::Length { came: writing.bytes, announced };
                return Err(io::Error::new(io::ErrorKind::InvalidData, damage));
            }
            if came != file.hash {
                let damage = Damaged::Content { came, announced: file.hash };
                return Err(io::Error::new(io::ErrorKind::InvalidData, damage));
            }
            writing.out.set_permissions(Permissions::from_mode(MODE))?;
            fs::rename(temporary, path)
        })
        .await?;
        // Closed before anyone can execute it: a file open for writing is busy.
        self.writing = None;
        self.temporary = None;
        self.room.fulfilled(self.uid, self.file.hash);
        Ok(())
    }
}

impl Drop for CacheSink {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // A write under way goes to the unlinked file and is lost with it.
            let _ = fs::remove_file(temporary);
        }
    }
}
