//! Submitting a job: the specification, then the files that the manager lacks.

use super::hashing::read_full;
use super::{Client, ClientError};
use crate::api::{ContentHeader, ManagerRequest, Reply, RequestLine, Service};
use std::fs::File;
use std::io::{self, Seek};
use storm_rm::{ContentHash, JobId, JobSpec};
use tokio::io::AsyncWriteExt;

/// Bytes sent at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// A job and its files.
#[derive(Debug)]
pub struct Submission {
    /// The job.
    pub spec: JobSpec,
    /// Whether to follow the job: its events follow the answer.
    pub attach: bool,
    /// The account that is charged, and the job's urgency.
    pub service: Service,
    /// The name of the reservation whose nodes the job waits for.
    pub reservation: Option<String>,
    /// The files that the specification names, open for reading.
    pub files: Vec<(ContentHash, File)>,
}

impl Submission {
    /// The request, and the files that may have to follow it.
    pub(super) fn into_request(self) -> (Vec<(ContentHash, File)>, ManagerRequest) {
        let Submission { spec, attach, service, reservation, files } = self;
        let spec = Box::new(spec);
        (files, ManagerRequest::Submit { spec, attach, service, reservation })
    }
}

/// The progress of sending files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes sent of all files.
    pub sent_bytes: u64,
    /// Bytes to send of all files.
    pub total_bytes: u64,
}

impl Client {
    /// Submits a job; returns its number. When the submission attaches, the job's events follow
    /// under the request number returned: [`split`](Self::split) the client to read them.
    ///
    /// # Errors
    /// The manager refused the job, a file could not be read, or see [`ClientError`].
    pub async fn submit(
        &mut self,
        submission: Submission,
        progress: impl FnMut(Progress),
    ) -> Result<(JobId, u64), ClientError> {
        let (files, request) = submission.into_request();
        let id = self.requests.send(request).await?;
        Ok((self.submitted(id, files, progress).await?, id))
    }

    /// Waits for the answer to the submission `id`, and sends the files that the manager lacks.
    pub(super) async fn submitted(
        &mut self,
        id: u64,
        mut files: Vec<(ContentHash, File)>,
        mut progress: impl FnMut(Progress),
    ) -> Result<JobId, ClientError> {
        match self.sent_with_files(id, &mut files, &mut progress).await? {
            Reply::Submitted { job } => Ok(job),
            _ => Err(ClientError::OutOfStep),
        }
    }

    /// Asks for a step in the place of a job, by a [`RunStep`](ManagerRequest::RunStep), and sends
    /// the files that the manager lacks. Returns the first event of the step and the number of the
    /// request; the further events follow, as those of a job.
    ///
    /// # Errors
    /// The manager refused the step, a file could not be read, or see [`ClientError`].
    pub async fn run_step(
        &mut self,
        request: ManagerRequest,
        files: &mut [(ContentHash, File)],
        mut progress: impl FnMut(Progress),
    ) -> Result<(Reply, u64), ClientError> {
        let id = self.requests.send(request).await?;
        Ok((self.sent_with_files(id, files, &mut progress).await?, id))
    }

    /// Waits for the answer to the request `id`, and sends the files that the manager lacks.
    async fn sent_with_files(
        &mut self,
        id: u64,
        files: &mut [(ContentHash, File)],
        progress: &mut impl FnMut(Progress),
    ) -> Result<Reply, ClientError> {
        let mut reply = self.replies.reply_to(id).await?;
        if let Reply::NeedFiles { hashes } = reply {
            match self.upload(&hashes, files, progress).await {
                Ok(()) => {}
                // The manager sends the reason before it closes the connection.
                Err(ClientError::Connection(error)) => {
                    return Err(match self.replies.reply_to(id).await {
                        Err(refused @ ClientError::Refused(_)) => refused,
                        Ok(_) | Err(_) => ClientError::Connection(error),
                    });
                }
                Err(error) => return Err(error),
            }
            reply = self.replies.reply_to(id).await?;
        }
        Ok(reply)
    }

    async fn upload(
        &mut self,
        hashes: &[ContentHash],
        files: &mut [(ContentHash, File)],
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), ClientError> {
        let mut state = Progress::default();
        for hash in hashes {
            state.total_bytes += size_bytes(find(files, hash)?, hash)?;
        }
        for hash in hashes {
            let file = find(files, hash)?;
            let size_bytes = size_bytes(file, hash)?;
            let header = ContentHeader { hash: *hash, size_bytes };
            self.requests.line(&RequestLine::Content(header)).await?;
            let mut buffer = vec![0; BLOCK_BYTES];
            let mut left = size_bytes;
            file.rewind().map_err(|source| ClientError::ReadFile { hash: *hash, source })?;
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
                let length = read_full(file, &mut buffer[..most])
                    .and_then(|length| match length {
                        0 => Err(io::ErrorKind::UnexpectedEof.into()),
                        length => Ok(length),
                    })
                    .map_err(|source| ClientError::ReadFile { hash: *hash, source })?;
                let block = self.requests.write.write_all(&buffer[..length]).await;
                block.map_err(ClientError::Connection)?;
                left -= length as u64;
                state.sent_bytes += length as u64;
                progress(state);
            }
        }
        self.requests.write.flush().await.map_err(ClientError::Connection)
    }
}

fn find<'a>(
    files: &'a mut [(ContentHash, File)],
    hash: &ContentHash,
) -> Result<&'a mut File, ClientError> {
    let found = files.iter_mut().find(|(known, _)| known == hash);
    found.map(|(_, file)| file).ok_or(ClientError::NoSuchFile(*hash))
}

fn size_bytes(file: &File, hash: &ContentHash) -> Result<u64, ClientError> {
    let found = file.metadata().map_err(|source| ClientError::ReadFile { hash: *hash, source })?;
    Ok(found.len())
}
