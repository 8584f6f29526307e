//! The spool as the source of contents for the nodes: files read off the
//! manager's thread, so that no disk delays a strobe.

use crate::api::Spool;
use crate::driver::Contents;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;
use storm_rm::ContentHash;
use storm_rm::file_transfer::ChunkSource;

/// The contents that clients uploaded.
pub struct SpoolContents {
    spool: Rc<Spool>,
}

impl SpoolContents {
    /// Serves what is in `spool`.
    pub fn new(spool: Rc<Spool>) -> SpoolContents {
        SpoolContents { spool }
    }
}

impl Contents for SpoolContents {
    type Source = SpooledFile;

    async fn open(&self, uid: u32, hash: &ContentHash) -> io::Result<SpooledFile> {
        Ok(SpooledFile { file: Arc::new(self.spool.open(uid, hash)?) })
    }
}

/// A file of the spool, read in order.
pub struct SpooledFile {
    file: Arc<File>,
}

impl ChunkSource for SpooledFile {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; len];
            (&*file).read_exact(&mut chunk)?;
            Ok(Bytes::from(chunk))
        });
        read.await.map_err(io::Error::other)?
    }
}
