//! The client side, for the command line and any other Rust program.

mod hashing;
mod submission;

pub use hashing::hash_file;
pub use submission::{Progress, Submission};

use super::halves::{ReadHalf, WriteHalf, local_halves, remote_halves};
use super::{
    API_VERSION, ApiError, ErrorCode, Hello, LineError, LineReader, MAX_REPLY_LINE_BYTES,
    ManagerRequest, Reply, ReplyLine, RequestLine,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use storm_rm::{ContentHash, JobId};
use storm_session::{ClientKey, ClientSessionError, connect_client};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// A peer that sends no hello for this long hangs, or is no manager.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of a connection's first request.
const FIRST_ID: u64 = 1;
/// The longest request that is sent before the manager's hello has arrived. A Unix socket takes a
/// request of this length whole, so the write cannot block on a peer that never reads.
const MAX_EARLY_BYTES: usize = 64 << 10;

/// Why a request failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No manager answers at the socket.
    #[error("cannot connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No manager answers at the address, or manager and user do not trust each other.
    #[error("cannot connect to {address}")]
    ConnectRemote {
        /// The address, as it was given.
        address: String,
        /// Why.
        #[source]
        source: ClientSessionError,
    },
    /// The manager received the request and did not answer in time. The manager may still carry out
    /// the request.
    #[error("the manager received the request and does not answer")]
    Unanswered,
    /// The manager uses another version of the protocol.
    #[error("the manager speaks version {0} of the protocol, this program version {API_VERSION}")]
    Version(u32),
    /// The manager refused.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The connection failed.
    #[error("the connection to the manager failed")]
    Connection(#[source] io::Error),
    /// The manager closed the connection.
    #[error("the manager closed the connection")]
    Closed,
    /// The manager's line is not valid in the protocol.
    #[error("the manager sent a message that cannot be decoded")]
    Garbled(#[source] serde_json::Error),
    /// The reply answers another request.
    #[error("the manager's reply does not answer the request")]
    OutOfStep,
    /// A file to be sent could not be read.
    #[error("cannot read the file to send ({hash})")]
    ReadFile {
        /// Its content, as it was hashed.
        hash: ContentHash,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The manager requests a file that the submission does not have.
    #[error("the manager asks for {0}, which this job does not have")]
    NoSuchFile(ContentHash),
}

impl From<LineError> for ClientError {
    fn from(error: LineError) -> ClientError {
        match error {
            LineError::Truncated => ClientError::Closed,
            LineError::TooLong { .. } => ClientError::OutOfStep,
            LineError::Io(error) => ClientError::Connection(error),
        }
    }
}

/// A connection to a manager.
#[derive(Debug)]
pub struct Client {
    requests: ClientRequests,
    replies: ClientReplies,
    server: Hello,
}

impl Client {
    /// Connects, and checks that client and manager use the same version.
    ///
    /// # Errors
    /// Nobody listens at `path`, or the manager uses another version.
    pub async fn connect(path: &Path) -> Result<Client, ClientError> {
        let connect_error = |source| ClientError::Connect { path: path.to_owned(), source };
        let stream = UnixStream::connect(path).await.map_err(connect_error)?;
        let client = Client::over(local_halves(stream), &[], connect_error).await?;
        client.unless_refused().await
    }

    /// Connects as [`connect`](Self::connect) does and submits a job at once. The request is sent
    /// with our hello, so the manager wakes only once. Returns the same as
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    /// Those of `connect` and of `submit`.
    pub async fn connect_and_submit(
        path: &Path,
        submission: Submission,
        progress: impl FnMut(Progress),
    ) -> Result<(Client, JobId, u64), ClientError> {
        let connect_error = |source| ClientError::Connect { path: path.to_owned(), source };
        let (files, request) = submission.into_request();
        let line = RequestLine::Manager(FIRST_ID, request);
        let encoded = line.encode().map_err(ClientError::Garbled)?;
        // A request that the socket may not hold is sent after the manager's hello.
        let early = if encoded.len() <= MAX_EARLY_BYTES { encoded.as_slice() } else { &[] };
        let stream = UnixStream::connect(path).await.map_err(connect_error)?;
        let mut client = Client::over(local_halves(stream), early, connect_error).await?;
        client.requests.next_id += 1;
        if early.is_empty() {
            client = client.unless_refused().await?;
            client.requests.encoded(&encoded).await?;
        }
        let job = client.submitted(FIRST_ID, files, progress).await?;
        Ok((client, job, FIRST_ID))
    }

    /// Connects to a manager on another host, `HOST:PORT`, as the user of `key`.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), or the manager refuses the key.
    pub async fn connect_remote(address: &str, key: &ClientKey) -> Result<Client, ClientError> {
        let session_error =
            |source| ClientError::ConnectRemote { address: address.to_owned(), source };
        let session = timeout(HELLO_TIMEOUT, connect_client(address, key)).await;
        let session =
            session.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        let halves = remote_halves(session.map_err(session_error)?);
        Client::over(halves, &[], |error| session_error(error.into())).await
    }

    /// Makes a client of an open connection; `early` is sent right after the hello.
    async fn over(
        (read, mut write): (ReadHalf, WriteHalf),
        early: &[u8],
        connect_error: impl Fn(io::Error) -> ClientError,
    ) -> Result<Client, ClientError> {
        let mut hello = serde_json::to_vec(&Hello::ours()).map_err(ClientError::Garbled)?;
        hello.push(b'\n');
        hello.extend_from_slice(early);
        // A manager with too many clients has refused us and hung up; its refusal is read below.
        let said = match write.write_all(&hello).await {
            Ok(()) => write.flush().await,
            Err(error) => Err(error),
        };
        if let Err(error) = said
            && !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
        {
            return Err(connect_error(error));
        }
        let mut reader = LineReader::new(read, MAX_REPLY_LINE_BYTES);
        let line = timeout(HELLO_TIMEOUT, reader.line())
            .await
            .map_err(|_| match early {
                [] => connect_error(io::ErrorKind::TimedOut.into()),
                _ => ClientError::Unanswered,
            })??
            .ok_or(ClientError::Closed)?;
        let server: Hello = serde_json::from_slice(&line).map_err(ClientError::Garbled)?;
        if server.storm_api != API_VERSION {
            return Err(ClientError::Version(server.storm_api));
        }
        let requests = ClientRequests { write, next_id: FIRST_ID };
        Ok(Client { requests, replies: ClientReplies { reader }, server })
    }

    /// This client, if the manager did not refuse it. A manager of this host writes a refusal
    /// together with its hello and hangs up, so a request would only find a broken connection.
    async fn unless_refused(mut self) -> Result<Client, ClientError> {
        if self.replies.reader.has_line() {
            // Every other line answers a request, and none was sent.
            self.replies.reply_to(0).await?;
        }
        Ok(self)
    }

    /// The manager's hello.
    pub fn server(&self) -> &Hello {
        &self.server
    }

    /// Sends a request and waits for the whole answer. Not for use while a job is followed:
    /// [`split`](Self::split) the client first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn call(&mut self, request: ManagerRequest) -> Result<Reply, ClientError> {
        match self.requests.send(request).await {
            Ok(id) => self.answer(id).await,
            // The manager may have sent the reason before it closed the connection.
            Err(error @ ClientError::Connection(_)) => match self.replies.next().await {
                Ok(Some(ReplyLine { reply: Reply::Error { error }, .. })) => Err(error.into()),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// The two directions, to follow a job and send requests meanwhile.
    pub fn split(self) -> (ClientRequests, ClientReplies) {
        (self.requests, self.replies)
    }

    /// Waits for the answer to `id`.
    async fn answer(&mut self, id: u64) -> Result<Reply, ClientError> {
        let mut listed = Vec::new();
        loop {
            match self.replies.reply_to(id).await? {
                Reply::Jobs { mut jobs, more } => {
                    listed.append(&mut jobs);
                    if !more {
                        return Ok(Reply::Jobs { jobs: listed, more });
                    }
                }
                other => return Ok(other),
            }
        }
    }
}

/// The direction to the manager.
#[derive(Debug)]
pub struct ClientRequests {
    write: WriteHalf,
    next_id: u64,
}

impl ClientRequests {
    /// Sends a request; returns the number under which it is answered.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn send(&mut self, request: ManagerRequest) -> Result<u64, ClientError> {
        let id = self.next_id;
        self.next_id += 1;
        self.line(&RequestLine::Manager(id, request)).await?;
        Ok(id)
    }

    async fn line(&mut self, line: &RequestLine) -> Result<(), ClientError> {
        self.encoded(&line.encode().map_err(ClientError::Garbled)?).await
    }

    async fn encoded(&mut self, line: &[u8]) -> Result<(), ClientError> {
        self.write.write_all(line).await.map_err(ClientError::Connection)?;
        self.write.flush().await.map_err(ClientError::Connection)
    }
}

/// The direction from the manager.
#[derive(Debug)]
pub struct ClientReplies {
    reader: LineReader<ReadHalf>,
}

impl ClientReplies {
    /// The next reply or event; `None` when the manager closed the connection.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn next(&mut self) -> Result<Option<ReplyLine>, ClientError> {
        match self.reader.line().await? {
            Some(line) => serde_json::from_slice(&line).map(Some).map_err(ClientError::Garbled),
            None => Ok(None),
        }
    }

    /// The next reply, which must answer `id`; a refusal is an error.
    async fn reply_to(&mut self, id: u64) -> Result<Reply, ClientError> {
        let line = self.next().await?.ok_or(ClientError::Closed)?;
        match line.reply {
            // A refusal of the whole connection has the number 0.
            Reply::Error { error } if line.id == id || line.id == 0 => Err(error.into()),
            Reply::Error { .. } => Err(ClientError::OutOfStep),
            reply if line.id == id => Ok(reply),
            _ => Err(ClientError::OutOfStep),
        }
    }
}

impl ClientError {
    /// Whether a later try may succeed: no manager answered, or the connection was lost.
    pub fn may_pass(&self) -> bool {
        match self {
            ClientError::Connect { .. } | ClientError::Closed | ClientError::Connection(_) => true,
            ClientError::ConnectRemote { source, .. } => {
                matches!(source, ClientSessionError::Io(_) | ClientSessionError::Closed)
            }
            ClientError::Refused(error) => error.code == ErrorCode::ManagerAway,
            _ => false,
        }
    }

    /// Whether the manager has as many clients, clients of this user, or waiting steps of a job, as
    /// it takes: a place comes free when one of them leaves.
    pub fn is_full(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::TooManyClients | ErrorCode::QueueFull))
    }

    /// The code of a refusal.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused(error) => Some(error.code),
            _ => None,
        }
    }
}
