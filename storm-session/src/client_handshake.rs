//! Between a user's client and the Machine Manager: the user holds a client key, the
//! manager derives it from the cluster key and what the opening says. An opening has 136
//! bytes; the name of the user is in the clear. What follows is always encrypted.

use crate::client_key::{ClientKey, ClientSerial, NAME_BYTES, UserName, read_name};
use crate::cluster_key::{ID_BYTES, KeyId};
use crate::handshake::{
    self, Failed, OTHER_KEY, OTHER_VERSION, Protocol, WRONG, answer, hear, open,
};
use crate::record::Sealed;
use crate::sealed_stream::SealedStream;
use crate::socket;
use crate::trust::Trust;
use std::io;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Unlike a daemon's, so that neither is taken for the other.
const PROTOCOL: Protocol = Protocol { magic: *b"\xffSTORMC", version: 1 };

/// Who has proved to hold a client key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteUser {
    /// Whose key it is.
    pub name: UserName,
    /// Which of the user's keys.
    pub serial: ClientSerial,
}

/// Why a client and a manager have no session.
#[derive(Debug, Error)]
pub enum ClientSessionError {
    /// The connection could not be made, or broke.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side left before the handshake was over.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// Who connects shows no client key.
    #[error("it shows no client key")]
    NoKey,
    /// The two sides speak different versions.
    #[error("the other side speaks version {theirs} of the handshake, not {ours}")]
    Version {
        /// Theirs.
        theirs: u8,
        /// Ours.
        ours: u8,
    },
    /// Who connects names no user.
    #[error("it names no user")]
    NoUser,
    /// Who connects shows a key that was made from a cluster key that is not held here.
    #[error("the key of {user} was made from cluster key {theirs}, and this cluster's is {ours}")]
    OtherKey {
        /// Who, as it says.
        user: UserName,
        /// The cluster key that it names.
        theirs: KeyId,
        /// Ours.
        ours: KeyId,
    },
    /// Who connects does not hold the key that it names.
    #[error("it does not prove that it is {user}")]
    UnprovenUser {
        /// Who it says that it is.
        user: UserName,
    },
    /// The manager does not prove that it holds the cluster key.
    #[error("the other side does not prove that it is the manager with cluster key {cluster}")]
    UnprovenManager {
        /// The cluster key that ours was made from.
        cluster: KeyId,
    },
    /// The manager says that it has another cluster key.
    #[error("the manager's cluster key is {theirs}, and this client key was made from {ours}")]
    RefusedKey {
        /// Theirs, as it says.
        theirs: KeyId,
        /// The one that ours was made from.
        ours: KeyId,
    },
    /// The manager says that the key is not right.
    #[error("the manager refuses the key: it is not one of {user}")]
    RefusedUser {
        /// Whose the key is, as its file says.
        user: UserName,
    },
}

impl ClientSessionError {
    /// A word for what kind it is: errors of one kind are logged together.
    pub fn kind(&self) -> &'static str {
        match self {
            ClientSessionError::Io(_) => "io",
            ClientSessionError::Closed => "closed",
            ClientSessionError::NoKey => "no key",
            ClientSessionError::Version { .. } => "version",
            ClientSessionError::NoUser => "no user",
            ClientSessionError::OtherKey { .. } => "other key",
            ClientSessionError::UnprovenUser { .. } => "unproven",
            ClientSessionError::UnprovenManager { .. } => "unproven manager",
            ClientSessionError::RefusedKey { .. } => "refused key",
            ClientSessionError::RefusedUser { .. } => "refused user",
        }
    }
}

/// Connects to a manager's address for clients, `HOST:PORT`, as the user of `key`. It
/// waits for as long as the network lets it.
///
/// # Errors
/// [`ClientSessionError`].
pub async fn connect_client(
    address: &str,
    key: &ClientKey,
) -> Result<SealedStream, ClientSessionError> {
    let mut tcp = TcpStream::connect(address).await?;
    socket::configure(&tcp)?;
    let name = key.name();
    let error = match open(&mut tcp, &PROTOCOL, &name, key.secret(), &prologue(&name)).await {
        Ok(noise) => return Ok(SealedStream::new(tcp, Sealed::new(noise))),
        Err(error) => error,
    };
    let unproven = ClientSessionError::UnprovenManager { cluster: key.cluster() };
    Err(match error {
        Failed::Io(error) => ClientSessionError::Io(error),
        Failed::Closed => ClientSessionError::Closed,
        Failed::Refused(OTHER_KEY, detail) => {
            let mut theirs = [0; ID_BYTES];
            theirs.copy_from_slice(&detail[..ID_BYTES]);
            ClientSessionError::RefusedKey { theirs: KeyId(theirs), ours: key.cluster() }
        }
        Failed::Refused(OTHER_VERSION, detail) => {
            ClientSessionError::Version { theirs: detail[0], ours: PROTOCOL.version }
        }
        Failed::Refused(WRONG, _) => ClientSessionError::RefusedUser { user: key.user().clone() },
        Failed::Refused(..) | Failed::Unproven | Failed::Foreign | Failed::Version(_) => unproven,
    })
}

/// Answers who has connected. Until this succeeds nothing that it says counts, and
/// nobody was asked about the user whom it names.
///
/// # Errors
/// [`ClientSessionError`].
pub async fn accept_client(
    mut tcp: TcpStream,
    trust: &Trust,
) -> Result<(RemoteUser, SealedStream), ClientSessionError> {
    socket::configure(&tcp)?;
    let (user, sealed) = accept_client_over(&mut tcp, trust).await?;
    Ok((user, SealedStream::new(tcp, sealed)))
}

/// As [`accept_client`], over any stream of bytes.
pub(crate) async fn accept_client_over(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    trust: &Trust,
) -> Result<(RemoteUser, Sealed), ClientSessionError> {
    let ours = trust.key().id();
    let heard = hear::<NAME_BYTES, _>(stream, &PROTOCOL).await;
    let opening = heard.map_err(|failed| match failed {
        Failed::Io(error) => ClientSessionError::Io(error),
        Failed::Closed => ClientSessionError::Closed,
        Failed::Version(theirs) => ClientSessionError::Version { theirs, ours: PROTOCOL.version },
        Failed::Foreign | Failed::Refused(..) | Failed::Unproven => ClientSessionError::NoKey,
    })?;
    let Some((shown, serial, user)) = read_name(&opening.name) else {
        handshake::refuse(stream, WRONG, &[]).await?;
        return Err(ClientSessionError::NoUser);
    };
    let Some(cluster) = trust.find(shown) else {
        handshake::refuse(stream, OTHER_KEY, &ours.0).await?;
        return Err(ClientSessionError::OtherKey { user, theirs: shown, ours });
    };
    let key = ClientKey::again(cluster, user.clone(), serial);
    let noise = answer(stream, &opening, key.secret(), &prologue(&opening.name)).await;
    let noise = noise.map_err(|failed| match failed {
        Failed::Io(error) => ClientSessionError::Io(error),
        Failed::Closed => ClientSessionError::Closed,
        Failed::Unproven | Failed::Foreign | Failed::Version(_) | Failed::Refused(..) => {
            ClientSessionError::UnprovenUser { user: user.clone() }
        }
    })?;
    Ok((RemoteUser { name: user, serial }, Sealed::new(noise)))
}

/// What both ends must see alike, or the handshake fails. Addresses are none of it: a
/// tunnel may lie between.
fn prologue(name: &[u8; NAME_BYTES]) -> Vec<u8> {
    [b"storm client session, sealed, ".as_slice(), name].concat()
}
