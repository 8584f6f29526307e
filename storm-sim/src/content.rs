//! The spool of the manager of a simulated machine. Its files have a length and a name but no
//! content of their own, and are read at the speed of the manager's disk.

use crate::hosts::Hosts;
use bytes::Bytes;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use storm_mm::driver::Contents;
use storm_primitives::Runtime;
use storm_rm::file_transfer::ChunkSource;
use storm_rm::{ContentHash, Destination, FileSpec};

/// Files that contain only zeros. Clones share one chunk of them.
#[derive(Clone)]
pub(crate) struct EmptyContents<R> {
    runtime: R,
    zeros: Bytes,
    hosts: Rc<dyn Hosts>,
}

impl<R: Runtime> EmptyContents<R> {
    /// Chunks of at most `chunk_bytes`, read by these hosts.
    pub(crate) fn new(runtime: R, chunk_bytes: u32, hosts: Rc<dyn Hosts>) -> Self {
        let zeros = Bytes::from(vec![0; chunk_bytes as usize]);
        EmptyContents { runtime, zeros, hosts }
    }
}

/// The file of a simulated job. Only its name and length identify it.
pub(crate) fn file(name: &str, size_bytes: u64) -> FileSpec {
    let hash = ContentHash::of(format!("{name} of {size_bytes} bytes").as_bytes());
    let destination = Destination::JobDirectory;
    FileSpec { hash, size_bytes, mode: 0o755, name: name.into(), destination }
}

impl<R: Runtime> Contents for EmptyContents<R> {
    type Source = EmptyContents<R>;

    async fn open(&self, _uid: u32, _hash: &ContentHash) -> io::Result<EmptyContents<R>> {
        Ok(self.clone())
    }

    /// Simulated files take no room.
    async fn make_room(&self, _needed: HashSet<(u32, ContentHash)>) -> io::Result<()> {
        Ok(())
    }
}

impl<R: Runtime> ChunkSource for EmptyContents<R> {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        if len > self.zeros.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.runtime.sleep(self.hosts.read(len as u64)).await;
        Ok(self.zeros.slice(..len))
    }
}
