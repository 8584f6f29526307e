//! The handshake between a user's client and the Machine Manager. The user holds a client key, or a
//! login host speaks for the user with its door key. The manager derives either from the cluster
//! key and the contents of the opening. An opening has 136 bytes, with the name of the user in the
//! clear. Everything after the handshake is encrypted.

use crate::client_key::{ClientKey, ClientSerial, NAME_BYTES, UserName, read_name};
use crate::cluster_key::{ID_BYTES, KeyId};
use crate::door_key::DoorKey;
use crate::handshake::{
    self, Failed, OTHER_KEY, OTHER_VERSION, Protocol, WRONG, answer, hear, open,
};
use crate::key_text::Secret;
use crate::record::Sealed;
use crate::sealed_stream::SealedStream;
use crate::socket;
use crate::trust::Trust;
use std::io;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The protocols by the first bytes, which differ from the daemons': none can be taken for another.
const PROTOCOLS: [Protocol; 2] = [
    Protocol { magic: *b"\xffSTORMC", version: 1 },
    Protocol { magic: *b"\xffSTORMD", version: 1 },
];
/// The index of client keys.
const KEY: usize = 0;
/// The index of door keys.
const DOOR: usize = 1;

/// A user that has proved to hold a client key, or for whom a login host vouches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteUser {
    /// The user's name.
    pub name: UserName,
    /// By which key.
    pub via: Via,
}

/// The key by which a user came, with its serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A key of the user's own.
    Key(ClientSerial),
    /// The key of a login host, which says who the user is.
    Door(ClientSerial),
}

impl Via {
    /// The serial number of the key.
    pub fn serial(self) -> ClientSerial {
        match self {
            Via::Key(serial) | Via::Door(serial) => serial,
        }
    }
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
    connect(address, KEY, (&key.name(), key.secret()), (key.user(), key.cluster())).await
}

/// Connects to a manager's address for clients, `HOST:PORT`, as a user for whom the holder of a
/// door key vouches. Waits as long as the network does.
///
/// # Errors
/// [`ClientSessionError`].
pub async fn connect_by_door(
    address: &str,
    key: &DoorKey,
    user: &UserName,
) -> Result<SealedStream, ClientSessionError> {
    let (name, secret) = (key.name_of(user), key.secret_of(user));
    connect(address, DOOR, (&name, &secret), (user, key.cluster())).await
}

async fn connect(
    address: &str,
    kind: usize,
    (name, secret): (&[u8; NAME_BYTES], &Secret),
    (user, cluster): (&UserName, KeyId),
) -> Result<SealedStream, ClientSessionError> {
    let mut tcp = TcpStream::connect(address).await?;
    socket::configure(&tcp)?;
    let protocol = &PROTOCOLS[kind];
    let error = match open(&mut tcp, protocol, name, secret, &prologue(kind, name)).await {
        Ok(noise) => return Ok(SealedStream::new(tcp, Sealed::new(noise))),
        Err(error) => error,
    };
    let unproven = ClientSessionError::UnprovenManager { cluster };
    Err(match error {
        Failed::Io(error) => ClientSessionError::Io(error),
        Failed::Closed => ClientSessionError::Closed,
        Failed::Refused(OTHER_KEY, detail) => {
            let mut theirs = [0; ID_BYTES];
            theirs.copy_from_slice(&detail[..ID_BYTES]);
            ClientSessionError::RefusedKey { theirs: KeyId(theirs), ours: cluster }
        }
        Failed::Refused(OTHER_VERSION, detail) => {
            ClientSessionError::Version { theirs: detail[0], ours: protocol.version }
        }
        Failed::Refused(WRONG, _) => ClientSessionError::RefusedUser { user: user.clone() },
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
    let heard = hear::<NAME_BYTES, _>(stream, &PROTOCOLS).await;
    let (kind, opening) = heard.map_err(|failed| match failed {
        Failed::Io(error) => ClientSessionError::Io(error),
        Failed::Closed => ClientSessionError::Closed,
        Failed::Version(theirs) => {
            ClientSessionError::Version { theirs, ours: PROTOCOLS[KEY].version }
        }
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
    let (via, secret) = match kind {
        DOOR => (Via::Door(serial), DoorKey::again(cluster, serial).secret_of(&user)),
        _ => {
            let key = ClientKey::again(cluster, user.clone(), serial);
            (Via::Key(serial), key.secret().clone())
        }
    };
    let noise = answer(stream, &opening, &secret, &prologue(kind, &opening.name)).await;
    let noise = noise.map_err(|failed| match failed {
        Failed::Io(error) => ClientSessionError::Io(error),
        Failed::Closed => ClientSessionError::Closed,
        Failed::Unproven | Failed::Foreign | Failed::Version(_) | Failed::Refused(..) => {
            ClientSessionError::UnprovenUser { user: user.clone() }
        }
    })?;
    Ok((RemoteUser { name: user, via }, Sealed::new(noise)))
}

/// The data that both ends must agree on, or the handshake fails. Addresses are not part of it,
/// because a tunnel may lie between the ends.
fn prologue(kind: usize, name: &[u8; NAME_BYTES]) -> Vec<u8> {
    let purpose: &[u8] = match kind {
        DOOR => b"storm door session, sealed, ",
        _ => b"storm client session, sealed, ",
    };
    [purpose, name].concat()
}
