//! Receiving the files of a job before the core receives the job.

use super::connection::Connection;
use super::long_lines::SHORT_BYTES;
use crate::api::halves::ReadHalf;
use crate::api::lines::LineStart;
use crate::api::{
    ApiError, ContentHeader, ErrorCode, LineError, LineReader, Reply, ReplySink, RequestLine,
    SpoolError,
};
use std::collections::BTreeMap;
use storm_rm::{ContentHash, Program, StepSpec};
use thiserror::Error;
use tokio::time::timeout;

/// Bytes of a file read at a time: as much as a Unix socket usually holds.
const BLOCK_BYTES: usize = 256 << 10;

/// Why the files of a job did not arrive.
#[derive(Debug, Error)]
pub(super) enum UploadError {
    #[error("{hash} has {found_bytes} bytes here, the job says {said_bytes}")]
    Size { hash: ContentHash, said_bytes: u64, found_bytes: u64 },
    #[error("the manager did not ask for {0} with that size")]
    NotAskedFor(ContentHash),
    #[error("a file is expected")]
    NotAFile,
    #[error(transparent)]
    NotStored(SpoolError),
    #[error("a file arrived, but was not accepted")]
    NotTaken(#[source] SpoolError),
    #[error("no data arrived for too long")]
    Idle,
    #[error(transparent)]
    Line(#[from] LineError),
}

impl UploadError {
    /// Whether the next byte begins a line, so that the client can continue.
    pub(super) fn is_in_step(&self) -> bool {
        match self {
            UploadError::Size { .. } | UploadError::NotTaken(_) => true,
            UploadError::NotAskedFor(_)
            | UploadError::NotAFile
            | UploadError::NotStored(_)
            | UploadError::Idle
            | UploadError::Line(_) => false,
        }
    }

    /// The refusal that the client gets.
    pub(super) fn to_api(&self) -> ApiError {
        match self {
            UploadError::NotStored(error) | UploadError::NotTaken(error) => spool_refusal(error),
            UploadError::Size { .. }
            | UploadError::NotAskedFor(_)
            | UploadError::NotAFile
            | UploadError::Idle
            | UploadError::Line(_) => ApiError::new(ErrorCode::BadRequest, self.to_string()),
        }
    }
}

/// The hint for a file that cannot be stored.
const WHERE_FILES_ARE: &str = "the manager keeps files below its `state-dir` (for `storm up`, in \
                               /dev/shm) and leaves room for its journal; a file that is on every \
                               node needs no copy: --no-bcast";

fn spool_refusal(error: &SpoolError) -> ApiError {
    match error {
        SpoolError::WrongContent { .. } => {
            ApiError::new(ErrorCode::WrongContent, error.to_string())
                .hint("the file may have changed while it was sent: submit again")
        }
        SpoolError::TooLarge { .. } => ApiError::new(ErrorCode::TooLarge, error.to_string())
            .hint("put the file on every node and use --no-bcast"),
        SpoolError::Storage(cause) => ApiError::new(ErrorCode::Storage, error.to_string())
            .why(cause.to_string())
            .hint(WHERE_FILES_ARE),
        SpoolError::Full { .. } => {
            ApiError::new(ErrorCode::Storage, error.to_string()).hint(WHERE_FILES_ARE)
        }
    }
}

impl Connection {
    /// Requests the missing files from the client and stores them.
    pub(super) async fn receive_files(
        &self,
        spec: &StepSpec,
        reader: &mut LineReader<ReadHalf>,
        sink: &ReplySink,
    ) -> Result<(), UploadError> {
        let mut missing = self.missing(spec)?;
        if missing.is_empty() {
            return Ok(());
        }
        let hashes = missing.keys().copied().collect();
        if sink.send(Reply::NeedFiles { hashes }).is_err() {
            return Err(LineError::Truncated.into());
        }
        while !missing.is_empty() {
            let start = timeout(self.limits.upload_timeout, reader.line_start(SHORT_BYTES));
            let line = match start.await.map_err(|_| UploadError::Idle)?? {
                LineStart::Whole(line) => line,
                LineStart::Long => return Err(UploadError::NotAFile),
                LineStart::End => return Err(LineError::Truncated.into()),
            };
            let Ok(RequestLine::Content(header)) = RequestLine::parse(&line) else {
                return Err(UploadError::NotAFile);
            };
            if missing.remove(&header.hash) != Some(header.size_bytes) {
                return Err(UploadError::NotAskedFor(header.hash));
            }
            self.receive_file(header, reader).await?;
        }
        Ok(())
    }

    /// The contents that the spool lacks, with their lengths.
    fn missing(&self, spec: &StepSpec) -> Result<BTreeMap<ContentHash, u64>, UploadError> {
        let program = match &spec.program {
            Program::Shipped(file) => Some(file),
            Program::OnNodes(_) => None,
        };
        let mut missing = BTreeMap::new();
        for file in program.into_iter().chain(&spec.files) {
            match self.spool.size_bytes(self.peer.uid, &file.hash) {
                Some(found_bytes) if found_bytes != file.size_bytes => {
                    let (hash, said_bytes) = (file.hash, file.size_bytes);
                    return Err(UploadError::Size { hash, said_bytes, found_bytes });
                }
                Some(_) if self.spool.touch(self.peer.uid, &file.hash).is_ok() => {}
                Some(_) | None => {
                    missing.insert(file.hash, file.size_bytes);
                }
            }
        }
        Ok(missing)
    }

    async fn receive_file(
        &self,
        header: ContentHeader,
        reader: &mut LineReader<ReadHalf>,
    ) -> Result<(), UploadError> {
        let mut incoming = self
            .spool
            .receive(self.peer.uid, header.hash, header.size_bytes)
            .map_err(UploadError::NotStored)?;
        let mut left = header.size_bytes;
        let at_most =
            |bytes: u64| usize::try_from(bytes).map_or(BLOCK_BYTES, |b| b.min(BLOCK_BYTES));
        let mut block = vec![0; at_most(left)];
        while left > 0 {
            let next = reader.raw(&mut block[..at_most(left)]);
            let length = timeout(self.limits.upload_timeout, next)
                .await
                .map_err(|_| UploadError::Idle)??;
            incoming.write(&block[..length]).map_err(UploadError::NotStored)?;
            left -= length as u64;
        }
        incoming.finish().map_err(UploadError::NotTaken)
    }
}
