//! A content on its way into the spool.

use super::{Sums, lock};
use rustix::fs::fstatvfs;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use storm_rm::{ContentHash, Summing};
use thiserror::Error;

/// Prefix of the name of an unfinished file.
const UNFINISHED: &str = "incoming-";

/// Bytes of the file system that stay free, because the journal is in the same file system and must
/// be written. A small file system keeps a [part](RESERVED_PART) of itself free instead.
const RESERVED_BYTES: u64 = 64 << 20;
/// The divisor for that part.
const RESERVED_PART: u64 = 16;
/// Bytes between two checks of the free space, since other contents arrive at the same time.
const BETWEEN_LOOKS_BYTES: usize = 1 << 20;

/// Makes the names of unfinished files unique within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Why a content was not stored.
#[derive(Debug, Error)]
pub enum SpoolError {
    /// The received bytes have another hash than the announced one.
    #[error("the content sent is {found}, announced was {announced}")]
    WrongContent {
        /// The announced hash.
        announced: ContentHash,
        /// The hash of the received bytes.
        found: ContentHash,
    },
    /// The file exceeds the limit per file.
    #[error("a file of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes")]
    TooLarge {
        /// Its length.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The file would take the space that the journal needs.
    #[error(
        "the manager's file system has no room for a file of {size_bytes} bytes: {left_bytes} bytes are left"
    )]
    Full {
        /// Its length.
        size_bytes: u64,
        /// The space that contents may still take.
        left_bytes: u64,
    },
    /// The file system failed.
    #[error("the manager could not store the file")]
    Storage(#[source] io::Error),
}

/// A file that is being received; removed unless it is finished.
#[derive(Debug)]
pub(crate) struct Incoming {
    file: File,
    unfinished: PathBuf,
    destination: PathBuf,
    uid: u32,
    hash: ContentHash,
    hasher: blake3::Hasher,
    summing: Summing,
    /// Bytes that are still to arrive.
    missing_bytes: u64,
    /// Bytes that arrived since the last check of the free space.
    unlooked_bytes: usize,
    /// The spool's sums, where that of this file is entered.
    sums: Sums,
}

impl Incoming {
    pub(super) fn begin(
        directory: &Path,
        (uid, hash): (u32, ContentHash),
        size_bytes: u64,
        sums: Sums,
    ) -> Result<Incoming, SpoolError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = directory.join(format!("{UNFINISHED}{}-{number}", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(SpoolError::Storage)?;
        tracing::debug!(%hash, size_bytes, "receiving a file");
        let destination = directory.join(hash.to_string());
        let (hasher, summing) = Default::default();
        let (missing_bytes, unlooked_bytes) = (size_bytes, 0);
        let incoming = Incoming {
            file,
            unfinished,
            destination,
            uid,
            hash,
            hasher,
            summing,
            missing_bytes,
            unlooked_bytes,
            sums,
        };
        incoming.look_for_room()?;
        Ok(incoming)
    }

    /// Fails if there is no room for the bytes that are still to arrive.
    fn look_for_room(&self) -> Result<(), SpoolError> {
        let found = fstatvfs(&self.file).map_err(|errno| SpoolError::Storage(errno.into()))?;
        let bytes = |blocks| u64::saturating_mul(blocks, found.f_frsize);
        let reserved = RESERVED_BYTES.min(bytes(found.f_blocks) / RESERVED_PART);
        let left_bytes = bytes(found.f_bavail).saturating_sub(reserved);
        let size_bytes = self.missing_bytes;
        // Some file systems do not report their size.
        if size_bytes <= left_bytes || found.f_blocks == 0 {
            return Ok(());
        }
        Err(SpoolError::Full { size_bytes, left_bytes })
    }

    /// Appends received bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.unlooked_bytes += bytes.len();
        if self.unlooked_bytes >= BETWEEN_LOOKS_BYTES {
            self.unlooked_bytes = 0;
            self.look_for_room()?;
        }
        self.missing_bytes = self.missing_bytes.saturating_sub(bytes.len() as u64);
        self.hasher.update(bytes);
        self.summing.update(bytes);
        self.file.write_all(bytes).map_err(SpoolError::Storage)
    }

    /// Gives the file its name if its hash is the announced one.
    pub(crate) fn finish(self) -> Result<(), SpoolError> {
        let found = ContentHash(*self.hasher.finalize().as_bytes());
        if found != self.hash {
            return Err(SpoolError::WrongContent { announced: self.hash, found });
        }
        fs::rename(&self.unfinished, &self.destination).map_err(SpoolError::Storage)?;
        lock(&self.sums).insert((self.uid, self.hash), self.summing.finish());
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After `finish` renamed it there is nothing of this name to remove.
        let _ = fs::remove_file(&self.unfinished);
    }
}

/// Removes the unfinished files of an earlier process.
pub(super) fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for file in fs::read_dir(directory)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
}
