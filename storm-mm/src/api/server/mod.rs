//! The server side: accepts clients and carries requests to the manager's core.
//!
//! It needs a tokio runtime with I/O and time. Writing to the spool blocks its
//! thread for as long as the file system takes: give it a thread of its own, so
//! that no upload delays a strobe; the channel of calls crosses threads.

mod connection;
mod connections;
mod upload;
mod writer;

use super::{ApiError, Call, ErrorCode, Hello, Peer, Reply, ReplyLine, Spool};
use async_channel::Sender;
use connection::Connection;
use connections::Connections;
use std::io;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

/// Between two tries to accept when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What a client may cost.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Clients connected at once, besides those of [`trusted`](Self::trusted).
    pub clients: usize,
    /// Clients of one user connected at once.
    pub clients_per_user: usize,
    /// Users whom no limit on clients holds: whoever runs the cluster gets in
    /// however many others are there.
    pub trusted: Vec<u32>,
    /// Bytes of replies kept for a client that does not read; four times as
    /// much drops it.
    pub outgoing_bytes: usize,
    /// Requests of one client that wait for their answer; further ones are not
    /// read meanwhile.
    pub pending_requests: usize,
    /// A client that has not said its hello for so long is dropped.
    pub hello_timeout: Duration,
    /// So is one that stops in the middle of a file.
    pub upload_timeout: Duration,
    /// How long the last replies may take when the server ends.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    /// Enough for every login session of a front end; a client's first line is
    /// sent before it waits for anything, so only a broken one is late.
    fn default() -> ServerLimits {
        ServerLimits {
            clients: 4096,
            clients_per_user: 512,
            trusted: vec![0],
            outgoing_bytes: 1 << 20,
            pending_requests: 256,
            hello_timeout: Duration::from_secs(10),
            upload_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(2),
        }
    }
}

/// The server.
#[derive(Debug)]
pub struct Server {
    spool: Spool,
    limits: ServerLimits,
    calls: Sender<Call>,
}

impl Server {
    /// Stores files in `spool` and sends requests to `calls`, whose bound is how
    /// many may wait for the core.
    pub fn new(spool: Spool, limits: ServerLimits, calls: Sender<Call>) -> Server {
        Server { spool, limits, calls }
    }

    /// Serves until the receiver of the calls is dropped; then delivers the
    /// replies that were given, and ends.
    pub async fn serve(self, listener: UnixListener) {
        let mut connections = Connections::default();
        let calls = self.calls.clone();
        let mut ending = std::pin::pin!(calls.closed());
        loop {
            tokio::select! {
                () = &mut ending => break,
                () = connections.one_ends() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.welcome(stream, &mut connections),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a client");
                        sleep(ACCEPT_RETRY).await;
                    }
                },
            }
        }
        drop(listener);
        if timeout(self.limits.drain_timeout, connections.all_end()).await.is_err() {
            tracing::info!("some clients did not read their last replies");
        }
    }

    fn welcome(&self, stream: UnixStream, connections: &mut Connections) {
        let peer = match peer_of(&stream) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!(%error, "cannot tell who a client is; it is not served");
                return;
            }
        };
        if !connections.admits(peer.uid, &self.limits) {
            if connections.refusals_begin() {
                tracing::warn!(uid = peer.uid, pid = peer.pid, "too many clients");
            }
            turn_away(&stream);
            return;
        }
        let connection = Connection {
            peer,
            spool: self.spool.clone(),
            limits: self.limits.clone(),
            calls: self.calls.clone(),
        };
        connections.spawn(peer.uid, connection.run(stream));
    }
}

fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = stream.peer_cred()?;
    let pid = credentials.pid().unwrap_or(0);
    Ok(Peer { uid: credentials.uid(), gid: credentials.gid(), pid })
}

/// Says why and hangs up. What a fresh socket's buffer does not take is lost:
/// a client too many must not cost anything.
fn turn_away(stream: &UnixStream) {
    let error = ApiError::new(ErrorCode::TooManyClients, "the manager has too many clients")
        .hint("try again later");
    let line = ReplyLine { id: 0, reply: Reply::Error { error } };
    if let (Ok(hello), Ok(line)) =
        (serde_json::to_string(&Hello::ours()), serde_json::to_string(&line))
    {
        let _ = stream.try_write(format!("{hello}\n{line}\n").as_bytes());
    }
}
