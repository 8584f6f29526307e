//! The entrance for clients of other hosts. A connection must prove within a short time to hold a
//! user's key. Until then it costs little, and only a limited number of connections is served at
//! once.

use super::refusal_line;
use crate::api::halves::{ReadHalf, WriteHalf, remote_halves};
use crate::api::{ApiError, MAX_REQUEST_LINE_BYTES, Peer};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storm_rm::Owner;
use storm_session::{
    ClientSessionError, RefusalLog, RemoteUser, SealedStream, Trust, Via, accept_client,
};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{sleep, timeout};

/// Bytes that are read from a client that was turned away: room for a hello and a request.
const DISCARDED_BYTES: u64 = 2 * MAX_REQUEST_LINE_BYTES as u64;

/// Finds the user's account on this host, or gives the reason why the user's key does not count.
/// The function may block.
pub type AdmitUser = dyn Fn(&RemoteUser) -> Result<Owner, ApiError> + Send + Sync;

/// Serves users on other hosts, who show a client key.
#[derive(Clone)]
pub struct RemoteClients {
    /// The cluster keys that client keys may be derived from.
    pub trust: Trust,
    /// Finds the users' accounts.
    pub admit: Arc<AdmitUser>,
    /// Largest number of connections without a proof of identity yet. Beyond this number, the
    /// oldest of these connections is dropped: a real client needs only a few round trips.
    pub strangers: usize,
    /// Longest time for the proof.
    pub proof_timeout: Duration,
}

impl RemoteClients {
    /// Limits that let in hundreds of clients at once, even over connections with long round trips.
    pub fn new(trust: Trust, admit: Arc<AdmitUser>) -> RemoteClients {
        RemoteClients { trust, admit, strangers: 256, proof_timeout: Duration::from_secs(5) }
    }
}

impl fmt::Debug for RemoteClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RemoteClients { trust, strangers, proof_timeout, admit: _ } = self;
        f.debug_struct("RemoteClients")
            .field("trust", trust)
            .field("strangers", strangers)
            .field("proof_timeout", proof_timeout)
            .finish_non_exhaustive()
    }
}

/// A client that has proved its identity.
pub(super) struct Arrival {
    pub(super) peer: Peer,
    pub(super) from: SocketAddr,
    pub(super) read: ReadHalf,
    pub(super) write: WriteHalf,
}

/// Why a connection does not become a client.
#[derive(Debug, Error)]
enum Stranger {
    #[error(transparent)]
    Session(#[from] ClientSessionError),
    #[error("it did not authenticate in time")]
    Late,
    #[error("too many connections did not authenticate")]
    Crowded,
    #[error("the key of {} is valid, but cannot be used: {error}", user.name)]
    Unwanted { user: RemoteUser, error: ApiError },
}

impl Stranger {
    /// Refusals for the same reason are logged together.
    fn reason(&self) -> &'static str {
        match self {
            Stranger::Session(error) => error.kind(),
            Stranger::Late => "late",
            Stranger::Crowded => "crowded",
            Stranger::Unwanted { .. } => "unwanted",
        }
    }

    /// Whether the connection ended without data, as that of a port scanner does.
    fn said_nothing(&self) -> bool {
        matches!(self, Stranger::Session(ClientSessionError::Io(_) | ClientSessionError::Closed))
    }
}

/// A connection's number, and the outcome of its greeting.
type Greeted = (u64, Outcome);

enum Outcome {
    Known(RemoteUser, Result<Owner, ApiError>, Box<SealedStream>),
    Refused(Stranger),
    /// The client was sent the reason why it is not served.
    TurnedAway,
}

/// The door.
pub(super) struct RemoteDoor {
    listener: TcpListener,
    remote: RemoteClients,
    greetings: JoinSet<Greeted>,
    /// Connections that are being greeted, in the order in which they arrived.
    strangers: BTreeMap<u64, (SocketAddr, AbortHandle)>,
    number: u64,
    refusals: RefusalLog,
    opened: Instant,
}

impl RemoteDoor {
    pub(super) fn new(listener: TcpListener, remote: RemoteClients) -> RemoteDoor {
        RemoteDoor {
            listener,
            remote,
            greetings: JoinSet::new(),
            strangers: BTreeMap::new(),
            number: 0,
            refusals: RefusalLog::default(),
            opened: Instant::now(),
        }
    }

    /// The next client that has proved its identity. Cancelling the call loses no client.
    pub(super) async fn next(&mut self) -> Arrival {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((tcp, from)) => self.greet(tcp, from),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a client of another host");
                        sleep(super::ACCEPT_RETRY).await;
                    }
                },
                Some(greeted) = self.greetings.join_next() => {
                    if let Some(arrival) = self.greeted(greeted) {
                        return arrival;
                    }
                }
            }
        }
    }

    /// Sends a client the reason why it is not served.
    pub(super) fn turn_away(&mut self, arrival: Arrival, error: ApiError) {
        let Arrival { from, read, mut write, .. } = arrival;
        let patience = self.remote.proof_timeout;
        self.attend(from, |number| async move {
            let telling = async {
                write.write_all(&refusal_line(error)).await?;
                write.shutdown().await?;
                // Closing before the client's data is read could keep the client from reading the
                // refusal.
                let mut first = read.take(DISCARDED_BYTES);
                tokio::io::copy(&mut first, &mut tokio::io::sink()).await
            };
            // Whether the refusal arrived does not matter.
            let _ = timeout(patience, telling).await;
            (number, Outcome::TurnedAway)
        });
    }

    fn greet(&mut self, tcp: TcpStream, from: SocketAddr) {
        let RemoteClients { trust, admit, proof_timeout, .. } = self.remote.clone();
        self.attend(from, |number| async move {
            let proof = async {
                let (user, stream) = accept_client(tcp, &trust).await?;
                let asked = user.clone();
                // The name service may take long, so the request to the service follows the proof.
                let admitted = tokio::task::spawn_blocking(move || admit(&asked)).await;
                Ok((user, admitted, stream))
            };
            let outcome = match timeout(proof_timeout, proof).await {
                Err(_) => Outcome::Refused(Stranger::Late),
                Ok(Err(error)) => Outcome::Refused(Stranger::Session(error)),
                Ok(Ok((user, Ok(admitted), stream))) => {
                    Outcome::Known(user, admitted, Box::new(stream))
                }
                // The process is about to end.
                Ok(Ok((_, Err(_), _))) => Outcome::TurnedAway,
            };
            (number, outcome)
        });
    }

    /// Greets a connection, in place of the oldest connection without a proof if there are too
    /// many.
    fn attend<F>(&mut self, from: SocketAddr, attention: impl FnOnce(u64) -> F)
    where
        F: Future<Output = Greeted> + Send + 'static,
    {
        if self.strangers.len() >= self.remote.strangers
            && let Some((_, (oldest, greeting))) = self.strangers.pop_first()
        {
            greeting.abort();
            self.refused(oldest, &Stranger::Crowded);
        }
        self.number += 1;
        let greeting = self.greetings.spawn(attention(self.number));
        self.strangers.insert(self.number, (from, greeting));
    }

    fn greeted(&mut self, greeted: Result<Greeted, JoinError>) -> Option<Arrival> {
        let (number, outcome) = match greeted {
            Ok(greeted) => greeted,
            // If the greeting was aborted, its entry is removed already. If it panicked, its entry
            // is removed now.
            Err(error) => {
                self.strangers.retain(|_, (_, greeting)| greeting.id() != error.id());
                return None;
            }
        };
        let (from, _) = self.strangers.remove(&number)?;
        match outcome {
            Outcome::TurnedAway => None,
            Outcome::Refused(why) => {
                self.refused(from, &why);
                None
            }
            Outcome::Known(user, admitted, stream) => self.known(from, user, admitted, *stream),
        }
    }

    fn known(
        &mut self,
        from: SocketAddr,
        user: RemoteUser,
        admitted: Result<Owner, ApiError>,
        stream: SealedStream,
    ) -> Option<Arrival> {
        let (read, write) = remote_halves(stream);
        let by_door = matches!(user.via, Via::Door(_));
        // The peer is no process of this host.
        let peer = |owner: Owner| Peer { uid: owner.uid, gid: owner.gid, pid: 0, by_door };
        match admitted {
            Ok(owner) => {
                let (name, key) = (&user.name, user.via.serial());
                tracing::info!(
                    user = %name, %key, by_door, %from, "a client of another host connects"
                );
                Some(Arrival { peer: peer(owner), from, read, write })
            }
            Err(error) => {
                self.refused(from, &Stranger::Unwanted { user, error: error.clone() });
                // The client has no account, and is only sent the reason.
                let nobody = peer(Owner { uid: u32::MAX, gid: u32::MAX });
                self.turn_away(Arrival { peer: nobody, from, read, write }, error);
                None
            }
        }
    }

    fn refused(&mut self, from: SocketAddr, why: &Stranger) {
        if why.said_nothing() {
            tracing::debug!(%from, %why, "a connection sent nothing");
            return;
        }
        let (address, now) = (from.ip().to_canonical(), self.opened.elapsed());
        if let Some(unlogged) = self.refusals.note(address, why.reason(), now) {
            tracing::warn!(%from, %why, unlogged, "a client of another host was refused");
        }
    }
}
