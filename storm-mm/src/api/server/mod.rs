//! The server side: accepts clients and carries requests to the manager's core.
//!
//! The server needs a tokio runtime with I/O and time. Writing to the spool blocks its thread for
//! as long as the file system takes. Give the server a thread of its own, so that no upload delays
//! a strobe; the channel of calls crosses threads.

mod connection;
mod connections;
mod listing;
mod long_lines;
mod remote_door;
mod upload;
mod writer;

use super::halves::{ReadHalf, WriteHalf, local_halves};
use super::{ApiError, ErrorCode, FromClient, Hello, Peer, Reply, ReplyLine, Spool};
use async_channel::Sender;
use connection::Connection;
use connections::Connections;
use long_lines::LongLines;
pub use remote_door::{AdmitUser, RemoteClients};
use remote_door::{Arrival, RemoteDoor};
use socket2::SockRef;
use std::future::pending;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tracing::Instrument;

/// Pause before accepting again when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Bytes of replies that the kernel buffers for a client of this host; the kernel doubles the
/// number, and its own default is 208 KiB. A listing is written while its last part is read, so 32
/// KiB is enough.
const SEND_BUFFER_BYTES: usize = 32 << 10;

/// Descriptors that only trusted users get, so that the clients of others cannot shut out an
/// administrator who ends them.
const TRUSTED_DESCRIPTORS: u64 = 8;
/// The part of a low limit that is kept for trusted users.
const TRUSTED_PART: u64 = 4;

/// Limits on what clients may cost.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Clients connected at once, without those of [`trusted`](Self::trusted) users.
    pub clients: usize,
    /// Clients of one user connected at once.
    pub clients_per_user: usize,
    /// Users that no limit on clients holds: the cluster's administrator gets in however many
    /// clients are connected.
    pub trusted: Vec<u32>,
    /// A client of this host is refused if its descriptor has this number or a higher number. For a
    /// user who is not [`trusted`](Self::trusted), the bound is up to 8 numbers lower. The kernel
    /// gives the lowest free descriptor, and the manager needs the rest for its nodes and files.
    pub descriptors: u64,
    /// The limit on open descriptors of this process, for messages.
    pub descriptor_limit: u64,
    /// Bytes of replies kept for a client that does not read. A client with four times as much is
    /// dropped.
    pub outgoing_bytes: usize,
    /// A client that reads nothing of its answers for this long is dropped, unless it follows or
    /// waits for a job.
    pub read_timeout: Duration,
    /// Requests of one client that may wait for their answers. Further requests are not read
    /// meanwhile.
    pub pending_requests: usize,
    /// A client that sends no hello for this long is dropped.
    pub hello_timeout: Duration,
    /// A client that stops for this long in the middle of a file or of a long request is dropped.
    pub upload_timeout: Duration,
    /// How long the last replies may take when the server ends.
    pub drain_timeout: Duration,
}

/// The missing thing if a client is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacking {
    /// A place for one more client, or for one more client of this user.
    Places,
    /// A descriptor that is not reserved.
    Descriptors,
}

impl Default for ServerLimits {
    /// Enough for every login session of a front end. A client sends its first line before it waits
    /// for anything, so only a broken client is late.
    fn default() -> ServerLimits {
        ServerLimits {
            clients: 4096,
            clients_per_user: 512,
            trusted: vec![0],
            descriptors: u64::MAX,
            descriptor_limit: u64::MAX,
            outgoing_bytes: 1 << 20,
            // Longer than any terminal needs.
            read_timeout: Duration::from_secs(30),
            pending_requests: 256,
            hello_timeout: Duration::from_secs(10),
            upload_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(2),
        }
    }
}

impl ServerLimits {
    /// A client of this user is refused if its descriptor has this number or a higher one.
    fn descriptors_of(&self, uid: u32) -> u64 {
        match self.trusted.contains(&uid) {
            true => self.descriptors,
            false => self.ordinary_descriptors(),
        }
    }

    /// A client of a user who is not trusted is refused if its descriptor has this number or a
    /// higher one.
    pub fn ordinary_descriptors(&self) -> u64 {
        self.descriptors - TRUSTED_DESCRIPTORS.min(self.descriptors / TRUSTED_PART)
    }

    /// The error for a client that is not served.
    fn too_many_clients(&self, lacking: Lacking) -> ApiError {
        let error = ApiError::new(ErrorCode::TooManyClients, "the manager has too many clients");
        match lacking {
            Lacking::Places => error.hint("try again later"),
            Lacking::Descriptors => {
                error.why(format!("it may have {} descriptors open", self.descriptor_limit)).hint(
                    "try again later; if that does not help, start it with a higher limit \
                     (ulimit -Hn, LimitNOFILE= of its unit)",
                )
            }
        }
    }
}

/// The server.
#[derive(Debug)]
pub struct Server {
    spool: Spool,
    limits: ServerLimits,
    calls: Sender<FromClient>,
    long_lines: LongLines,
    remote: Option<(TcpListener, RemoteClients)>,
    /// A string that all jobs submitted here share, and no job of another cluster has.
    mpi_space: Option<String>,
}

impl Server {
    /// Stores files in `spool` and sends requests to `calls`. The bound of `calls` limits how many
    /// requests may wait for the core.
    pub fn new(spool: Spool, limits: ServerLimits, calls: Sender<FromClient>) -> Server {
        // Without randomness only the job's number remains, which a job of another cluster may have
        // as well.
        let mpi_space = getrandom::u64().ok().map(|space| format!("{space:016x}"));
        let long_lines = LongLines::default();
        Server { spool, limits, calls, long_lines, remote: None, mpi_space }
    }

    /// Also serves users on other hosts, if they prove who they are.
    #[must_use]
    pub fn with_remote_clients(mut self, listener: TcpListener, clients: RemoteClients) -> Server {
        self.remote = Some((listener, clients));
        self
    }

    /// Serves until the receiver of the calls is dropped. Then delivers the remaining replies, and
    /// ends.
    pub async fn serve(mut self, listener: UnixListener) {
        let mut door =
            self.remote.take().map(|(listener, clients)| RemoteDoor::new(listener, clients));
        let mut connections = Connections::default();
        let mut accepts = true;
        let calls = self.calls.clone();
        let mut ending = std::pin::pin!(calls.closed());
        loop {
            tokio::select! {
                () = &mut ending => break,
                () = connections.one_ends() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        accepts = true;
                        self.welcome_local(stream, &mut connections);
                    }
                    Err(error) => {
                        if std::mem::take(&mut accepts) {
                            tracing::warn!(%error, "cannot accept a client; clients wait");
                        }
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                arrival = arrival(&mut door) => {
                    if let Err(arrival) = self.welcome(arrival, &mut connections)
                        && let Some(door) = &mut door
                    {
                        door.turn_away(arrival, self.limits.too_many_clients(Lacking::Places));
                    }
                }
            }
        }
        drop((listener, door));
        if timeout(self.limits.drain_timeout, connections.all_end()).await.is_err() {
            tracing::info!("some clients did not read their last replies");
        }
    }

    fn welcome_local(&self, stream: UnixStream, connections: &mut Connections) {
        let peer = match peer_of(&stream) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!(%error, "cannot tell who a client is; it is not served");
                return;
            }
        };
        // An open descriptor is not negative.
        let number = u64::try_from(stream.as_raw_fd()).unwrap_or(u64::MAX);
        if let Err(lacking) = self.admit(peer, number, connections) {
            // A client over the limit must cost nothing, so the bytes that the socket does not take
            // are lost. Both lines go in one write: the client reads them together.
            let refusal = self.limits.too_many_clients(lacking);
            let _ = SockRef::from(&stream).send(&refusal_line(refusal));
            return;
        }
        // The kernel's buffer for a client that does not read counts as the manager's memory.
        if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES) {
            tracing::debug!(%error, "a client has a send buffer of the usual size");
        }
        let client = tracing::info_span!("client", uid = peer.uid, pid = peer.pid);
        let (read, write) = local_halves(stream);
        self.serve_client(peer, (read, write), client, connections);
    }

    /// Serves a client of another host, if there is a place.
    fn welcome(&self, arrival: Arrival, connections: &mut Connections) -> Result<(), Arrival> {
        // Descriptors are not checked here: the door bounds its connections itself.
        if self.admit(arrival.peer, 0, connections).is_err() {
            return Err(arrival);
        }
        let Arrival { peer, from, read, write } = arrival;
        let client = tracing::info_span!("client", uid = peer.uid, %from);
        self.serve_client(peer, (read, write), client, connections);
        Ok(())
    }

    /// Whether one more client of this user is served, whose connection has the descriptor
    /// `number`. Logs the first refusal.
    fn admit(&self, peer: Peer, number: u64, connections: &mut Connections) -> Result<(), Lacking> {
        let lacking = if number >= self.limits.descriptors_of(peer.uid) {
            Lacking::Descriptors
        } else if !connections.admits(peer, &self.limits) {
            Lacking::Places
        } else {
            return Ok(());
        };
        if connections.refusals_begin() {
            let limit = self.limits.descriptor_limit;
            tracing::warn!(uid = peer.uid, pid = peer.pid, ?lacking, limit, "too many clients");
        }
        Err(lacking)
    }

    fn serve_client(
        &self,
        peer: Peer,
        (read, write): (ReadHalf, WriteHalf),
        client: tracing::Span,
        connections: &mut Connections,
    ) {
        let connection = Connection {
            peer,
            client: connections.number(),
            has_asked: AtomicBool::new(false),
            spool: self.spool.clone(),
            limits: self.limits.clone(),
            calls: self.calls.clone(),
            long_lines: self.long_lines.clone(),
            mpi_space: self.mpi_space.clone(),
        };
        connections.spawn(peer.uid, connection.run(read, write).instrument(client));
    }
}

/// The next client of another host; waits for ever if other hosts are not served.
async fn arrival(door: &mut Option<RemoteDoor>) -> Arrival {
    match door {
        Some(door) => door.next().await,
        None => pending().await,
    }
}

fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = stream.peer_cred()?;
    let pid = credentials.pid().unwrap_or(0);
    Ok(Peer { uid: credentials.uid(), gid: credentials.gid(), pid, by_door: false })
}

/// All lines that a refused client gets, from a server or from a relay in front of it.
pub fn refusal_line(error: ApiError) -> Vec<u8> {
    let line = ReplyLine { id: 0, reply: Reply::Error { error } };
    match (serde_json::to_string(&Hello::ours()), serde_json::to_string(&line)) {
        (Ok(hello), Ok(line)) => format!("{hello}\n{line}\n").into_bytes(),
        // JSON has a form for every value in them, so encoding cannot fail.
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the waiting clients of one user shut out the administrators.
    #[test]
    fn the_last_descriptors_are_for_trusted_users() {
        let of = |descriptors, uid| {
            ServerLimits { descriptors, ..ServerLimits::default() }.descriptors_of(uid)
        };
        assert_eq!((of(1000, 0), of(1000, 7)), (1000, 992));
        assert_eq!((of(16, 0), of(16, 7)), (16, 12));
        assert_eq!(of(0, 7), 0);
    }

    /// Regression: under `ulimit -n 40` clients were refused with no other client there.
    #[test]
    fn a_refusal_names_the_limit_on_descriptors() {
        let limits = ServerLimits { descriptors: 35, descriptor_limit: 40, ..Default::default() };
        let error = limits.too_many_clients(Lacking::Descriptors);
        assert_eq!(error.why.as_deref(), Some("it may have 40 descriptors open"));
        assert!(error.hint.is_some_and(|hint| hint.contains("LimitNOFILE=")));
        assert_eq!(limits.too_many_clients(Lacking::Places).why, None);
    }
}
