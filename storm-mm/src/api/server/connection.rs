//! One client: reads its requests, passes them on, writes the replies.

use super::ServerLimits;
use super::long_lines::{LongLines, SHORT_BYTES, Turn};
use super::upload::UploadError;
use super::writer::write_replies;
use crate::api::halves::{ReadHalf, WriteHalf};
use crate::api::lines::LineStart;
use crate::api::outgoing::{Answer, Life};
use crate::api::{
    API_VERSION, ApiError, Call, ClientEnd, ClientId, ErrorCode, FromClient, Hello, LineError,
    LineReader, MAX_REQUEST_LINE_BYTES, ManagerRequest, Peer, ReplySink, ReplyStream, RequestLine,
    Spool, reply_channel,
};
use async_channel::{SendError, Sender};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use storm_rm::{MPI_SPACE_VARIABLE, Owner, StepSpec};
use thiserror::Error;
use tokio::time::timeout;

/// A request about at most this many jobs, with one line of answer for each, has a short answer.
const FEW: usize = 16;

/// The state of one connection.
pub(super) struct Connection {
    pub(super) peer: Peer,
    pub(super) client: ClientId,
    /// Whether the core knows the client.
    pub(super) has_asked: AtomicBool,
    pub(super) spool: Spool,
    pub(super) limits: ServerLimits,
    pub(super) calls: Sender<FromClient>,
    pub(super) long_lines: LongLines,
    /// See [`Server`](super::Server).
    pub(super) mpi_space: Option<String>,
}

/// Why no more requests are read.
#[derive(Debug, Error)]
enum EndOfRequests {
    #[error("it sent no hello in time")]
    NoHello,
    #[error("it speaks version {0} of the protocol")]
    Version(u32),
    #[error("it does not speak the protocol")]
    NotTheProtocol,
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("a request did not arrive completely in time")]
    TooSlow,
    #[error("it sent bytes that belong to no request")]
    OutOfStep,
    #[error(transparent)]
    Upload(#[from] UploadError),
}

impl EndOfRequests {
    /// How the client left.
    fn as_client_end(&self, is_local: bool) -> ClientEnd {
        match self {
            EndOfRequests::Line(line) | EndOfRequests::Upload(UploadError::Line(line)) => {
                match line {
                    // The stream has an end, only the line has none.
                    LineError::Truncated => ClientEnd::Meant,
                    // The kernel resets the socket of a process that ended with unread replies.
                    LineError::Io(_) if is_local => ClientEnd::Meant,
                    LineError::Io(_) | LineError::TooLong { .. } => ClientEnd::Broken,
                }
            }
            EndOfRequests::NoHello
            | EndOfRequests::Version(_)
            | EndOfRequests::NotTheProtocol
            | EndOfRequests::TooSlow
            | EndOfRequests::OutOfStep
            | EndOfRequests::Upload(_) => ClientEnd::Broken,
        }
    }
}

impl Connection {
    /// Serves the client until it leaves.
    pub(super) async fn run(self, read: ReadHalf, write: WriteHalf) {
        let replies = reply_channel(self.limits.outgoing_bytes);
        let is_local = matches!(read, ReadHalf::Local(_));
        let reader = LineReader::new(read, MAX_REQUEST_LINE_BYTES);
        let mut told = false;
        let requests = async {
            let end = match self.requests(reader, &replies).await {
                Ok(()) => ClientEnd::Meant,
                Err(why) => {
                    tracing::info!(%why, "a client's requests end");
                    why.as_client_end(is_local)
                }
            };
            // Before its last replies: they may take as long as the job that it follows.
            self.tell_left(end).await;
            told = true;
            replies.finish();
            std::future::pending::<()>().await;
        };
        let written = tokio::select! {
            () = requests => Ok(()),
            written = write_replies(&replies, write, self.limits.read_timeout) => written,
        };
        let is_too_slow = replies.outgoing.life() == Life::TooSlow;
        if let Err(error) = written {
            tracing::debug!(%error, "a client is gone");
            if !told {
                // Only the end of a process closes the socket of this host.
                let is_meant = is_local && !is_too_slow;
                self.tell_left(if is_meant { ClientEnd::Meant } else { ClientEnd::Broken }).await;
            }
        }
        if is_too_slow {
            tracing::warn!("a client was dropped: it does not read its replies");
        }
    }

    async fn requests(
        &self,
        mut reader: LineReader<ReadHalf>,
        replies: &ReplyStream,
    ) -> Result<(), EndOfRequests> {
        self.hello(&mut reader, replies).await?;
        loop {
            let most = self.limits.pending_requests;
            poll_fn(|context| replies.outgoing.poll_may_ask(context, most)).await;
            let line = tokio::select! {
                () = self.calls.closed() => return Ok(()),
                line = self.line(&mut reader, replies) => line?,
            };
            let Some((line, _turn)) = line else { return Ok(()) };
            let parsed = RequestLine::parse(&line);
            drop(line);
            match parsed {
                Err((id, error)) => {
                    let _ = replies.sink(id, false).refuse(error);
                }
                Ok(RequestLine::Content(_)) => {
                    let error = ApiError::new(ErrorCode::BadRequest, "no file was asked for");
                    let _ = replies.sink(0, false).refuse(error);
                    return Err(EndOfRequests::OutOfStep);
                }
                Ok(RequestLine::Manager(id, request)) => {
                    self.request(&mut reader, replies, id, request).await?;
                }
            }
        }
    }

    /// The next request, with its turn if the request is long; `None` at the end.
    async fn line(
        &self,
        reader: &mut LineReader<ReadHalf>,
        replies: &ReplyStream,
    ) -> Result<Option<(Vec<u8>, Option<Turn>)>, EndOfRequests> {
        let refuse = |error| refuse_line(replies, error);
        match reader.line_start(SHORT_BYTES).await.map_err(refuse)? {
            LineStart::Whole(line) => Ok(Some((line, None))),
            LineStart::End => Ok(None),
            LineStart::Long => {
                let turn = self.long_lines.turn(self.peer.uid).await;
                let rest = timeout(self.limits.upload_timeout, reader.line()).await;
                let line = rest.map_err(|_| EndOfRequests::TooSlow)?.map_err(refuse)?;
                Ok(line.map(|line| (line, turn)))
            }
        }
    }

    async fn hello(
        &self,
        reader: &mut LineReader<ReadHalf>,
        replies: &ReplyStream,
    ) -> Result<(), EndOfRequests> {
        let refuse = |error| {
            let _ = replies.sink(0, false).refuse(error);
        };
        let line = match timeout(self.limits.hello_timeout, reader.line_start(SHORT_BYTES)).await {
            Err(_) => return Err(EndOfRequests::NoHello),
            Ok(Ok(LineStart::Whole(line))) => line,
            Ok(Ok(LineStart::End)) => return Err(LineError::Truncated.into()),
            Ok(Ok(LineStart::Long)) => {
                let error = LineError::TooLong { limit_bytes: SHORT_BYTES };
                return Err(refuse_line(replies, error).into());
            }
            Ok(Err(error)) => return Err(refuse_line(replies, error).into()),
        };
        let Ok(hello) = serde_json::from_slice::<Hello>(&line) else {
            let message = "the first line is not a hello";
            let hint = format!("send {{\"storm_api\":{API_VERSION},\"version\":\"...\"}} first");
            refuse(ApiError::new(ErrorCode::BadRequest, message).hint(hint));
            return Err(EndOfRequests::NotTheProtocol);
        };
        if hello.storm_api == API_VERSION {
            return Ok(());
        }
        let message = format!(
            "the client speaks version {} of the protocol, the manager version {API_VERSION}",
            hello.storm_api
        );
        let hint = "use the storm command of the same version as this cluster";
        refuse(ApiError::new(ErrorCode::VersionMismatch, message).hint(hint));
        Err(EndOfRequests::Version(hello.storm_api))
    }

    async fn request(
        &self,
        reader: &mut LineReader<ReadHalf>,
        replies: &ReplyStream,
        id: u64,
        mut request: ManagerRequest,
    ) -> Result<(), EndOfRequests> {
        if may_be_long(&request) {
            poll_fn(|context| replies.outgoing.poll_quiet(context)).await;
        }
        if let ManagerRequest::Jobs(_) | ManagerRequest::History(_) = request {
            self.list(replies, id, request).await;
            return Ok(());
        }
        let sink = replies.sink_of(id, answer_to(&request));
        let step = match &mut request {
            ManagerRequest::Submit { spec, .. } => {
                spec.owner = Owner { uid: self.peer.uid, gid: self.peer.gid };
                Some(&mut spec.step)
            }
            ManagerRequest::RunStep { spec, .. } => Some(&mut **spec),
            _ => None,
        };
        if let Some(step) = step
            && !self.prepare(step, reader, &sink).await?
        {
            return Ok(());
        }
        let call = FromClient::Call(self.call(request, sink));
        if let Err(SendError(FromClient::Call(unsent))) = self.calls.send(call).await {
            let error = ApiError::new(ErrorCode::ShuttingDown, "the cluster is going down");
            let _ = unsent.replies.refuse(error);
        }
        Ok(())
    }

    /// A request of this client.
    pub(super) fn call(&self, request: ManagerRequest, replies: ReplySink) -> Call {
        self.has_asked.store(true, Ordering::Relaxed);
        Call { peer: self.peer, client: self.client, request, replies }
    }

    /// Tells the core that this client has left.
    async fn tell_left(&self, end: ClientEnd) {
        if !self.has_asked.load(Ordering::Relaxed) {
            return;
        }
        // Without a core nothing of the client is left.
        let _ = self.calls.send(FromClient::Left { client: self.client, end }).await;
    }

    /// Prepares a specification for the core: names the space of MPI, and receives its files.
    /// `false` if the request was refused.
    async fn prepare(
        &self,
        spec: &mut StepSpec,
        reader: &mut LineReader<ReadHalf>,
        sink: &ReplySink,
    ) -> Result<bool, EndOfRequests> {
        if let Some(space) = &self.mpi_space {
            spec.env = spec.env.with(MPI_SPACE_VARIABLE, space);
        }
        match self.receive_files(spec, reader, sink).await {
            Ok(()) => Ok(true),
            Err(error) => {
                let _ = sink.refuse(error.to_api());
                if error.is_in_step() { Ok(false) } else { Err(error.into()) }
            }
        }
    }
}

fn answer_to(request: &ManagerRequest) -> Answer {
    match (is_streaming(request), may_be_long(request)) {
        (true, _) => Answer::Events,
        (false, true) => Answer::Long,
        (false, false) => Answer::Short,
    }
}

fn is_streaming(request: &ManagerRequest) -> bool {
    match request {
        ManagerRequest::Submit { attach, .. } => *attach,
        ManagerRequest::Attach { .. }
        | ManagerRequest::Wait { .. }
        | ManagerRequest::RunStep { .. } => true,
        ManagerRequest::Input { .. }
        | ManagerRequest::EndStep { .. }
        | ManagerRequest::CancelStep { .. }
        | ManagerRequest::TryOut { .. }
        | ManagerRequest::Jobs(_)
        | ManagerRequest::Reservations
        | ManagerRequest::Reserve(_)
        | ManagerRequest::Unreserve { .. }
        | ManagerRequest::Show { .. }
        | ManagerRequest::Script { .. }
        | ManagerRequest::Explain { .. }
        | ManagerRequest::Cancel { .. }
        | ManagerRequest::Hold { .. }
        | ManagerRequest::Release { .. }
        | ManagerRequest::Requeue { .. }
        | ManagerRequest::Suspend { .. }
        | ManagerRequest::ResumeJobs { .. }
        | ManagerRequest::Update { .. }
        | ManagerRequest::SetPartition { .. }
        | ManagerRequest::ResetPartition { .. }
        | ManagerRequest::Nodes
        | ManagerRequest::Partitions
        | ManagerRequest::History(_)
        | ManagerRequest::Priority { .. }
        | ManagerRequest::Shares
        | ManagerRequest::Status
        | ManagerRequest::Drain { .. }
        | ManagerRequest::Resume { .. }
        | ManagerRequest::Shutdown => false,
    }
}

/// Whether the answer may be long. A client is owed only one long answer at a time.
fn may_be_long(request: &ManagerRequest) -> bool {
    match request {
        ManagerRequest::Submit { .. }
        | ManagerRequest::TryOut { .. }
        | ManagerRequest::Attach { .. }
        | ManagerRequest::RunStep { .. }
        | ManagerRequest::EndStep { .. }
        | ManagerRequest::CancelStep { .. }
        | ManagerRequest::Input { .. }
        | ManagerRequest::SetPartition { .. }
        | ManagerRequest::ResetPartition { .. }
        | ManagerRequest::Unreserve { .. }
        | ManagerRequest::Drain { .. }
        | ManagerRequest::Resume { .. }
        | ManagerRequest::Shutdown => false,
        ManagerRequest::Cancel { jobs, .. }
        | ManagerRequest::Hold { jobs }
        | ManagerRequest::Release { jobs }
        | ManagerRequest::Requeue { jobs, .. }
        | ManagerRequest::Suspend { jobs }
        | ManagerRequest::ResumeJobs { jobs }
        | ManagerRequest::Update { jobs, .. } => jobs.len() > FEW,
        ManagerRequest::Wait { .. }
        | ManagerRequest::Jobs(_)
        | ManagerRequest::History(_)
        | ManagerRequest::Reservations
        | ManagerRequest::Reserve(_)
        | ManagerRequest::Show { .. }
        | ManagerRequest::Script { .. }
        | ManagerRequest::Explain { .. }
        | ManagerRequest::Nodes
        | ManagerRequest::Partitions
        | ManagerRequest::Priority { .. }
        | ManagerRequest::Shares
        | ManagerRequest::Status => true,
    }
}

/// Refuses a line, if the client can still receive the error.
fn refuse_line(replies: &ReplyStream, error: LineError) -> LineError {
    if let LineError::TooLong { .. } = error {
        let refusal = ApiError::new(ErrorCode::LineTooLong, error.to_string());
        let _ = replies.sink(0, false).refuse(refusal);
    }
    error
}
