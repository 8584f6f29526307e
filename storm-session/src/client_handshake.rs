//! The handshake between a user's client and the Machine Manager. The user holds a client key; the
//! manager derives the key from the cluster key and the contents of the opening. An opening has 136
//! bytes and contains the user's name in the clear. Everything after the handshake is encrypted.

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

/// The magic differs from the daemons', so that the two protocols cannot be confused.
const PROTOCOL: Protocol = Protocol { magic: *b"\xffSTORMC", version: 1 };

/// A user that has proved to hold a client key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteUser {
    /// The user's name.
    pub name: UserName,
    /// The serial number of the key.
    pub serial: ClientSerial,
}

/// Why a client and a manager have no session.
#[derive(Debug, Error)]
pub enum ClientSessionError {
    /// The connection could not be made, or it broke.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side closed the connection during the handshake.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// The peer shows no client key.
    #[error("the client shows no key")]
    NoKey,
    /// The two sides speak different versions.
    #[error("the other side speaks version {theirs} of the handshake, not {ours}")]
    Version {
        /// The peer's version.
        theirs: u8,
        /// Our version.
        ours: u8,
    },
    /// The peer names no user.
    #[error("the client names no user")]
    NoUser,
    /// The peer's key was made from a cluster key that this side does not hold.
    #[error("the key of {user} was made from cluster key {theirs}, and this cluster's is {ours}")]
    OtherKey {
        /// The user that the peer claims to be.
        user: UserName,
        /// The cluster key that the peer names.
        theirs: KeyId,
        /// Our cluster key.
        ours: KeyId,
    },
    /// The peer does not hold the key that it names.
    #[error("the client does not prove that it is {user}")]
    UnprovenUser {
        /// The user that the peer claims to be.
        user: UserName,
    },
    /// The manager does not prove that it holds the cluster key.
    #[error("the other side does not prove that it is the manager with cluster key {cluster}")]
    UnprovenManager {
        /// The cluster key that our client key was made from.
        cluster: KeyId,
    },
    /// The manager refuses the client key, because it was made from another cluster key.
    #[error("the manager's cluster key is {theirs}, and this client key was made from {ours}")]
    RefusedKey {
        /// The cluster key that the manager claims to have.
        theirs: KeyId,
        /// The cluster key that our client key was made from.
        ours: KeyId,
    },
    /// The manager answers that the key is wrong.
    #[error("the manager refuses the key: it is not one of {user}")]
    RefusedUser {
        /// The user of the key, according to its file.
        user: UserName,
    },
}

impl ClientSessionError {
    /// A word for the kind of error; errors of the same kind are logged together.
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

/// Connects to a manager's address for clients, `HOST:PORT`, as the user of `key`. Has no timeout
/// of its own.
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

/// Answers a client that has connected. Until this function has succeeded, nothing that the client
/// claims is trusted, and the named user is not looked up.
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

/// Like [`accept_client`], over any stream of bytes.
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

/// The data that both ends must agree on, or the handshake fails. Addresses are not part of it,
/// because a tunnel may lie between the ends.
fn prologue(name: &[u8; NAME_BYTES]) -> Vec<u8> {
    [b"storm client session, sealed, ".as_slice(), name].concat()
}
