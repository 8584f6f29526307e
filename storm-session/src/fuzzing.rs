//! Access for `fuzz/` to private parts of sessions: the handshake over any stream, and records
//! without a handshake. Only cargo-fuzz compiles it.

use crate::client_handshake::accept_client_over;
use crate::member_handshake::{accept_over, initiate_over};
use crate::{ClientSessionError, ClusterKey, RemoteUser, Sealed, SessionError, Trust, in_memory};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};

/// A session after its handshake, as one side holds it.
#[derive(Debug)]
pub struct End(Sealed);

impl End {
    /// The two ends of a session.
    pub fn pair() -> (End, End) {
        let (one, other) = in_memory::pair();
        (End(one), End(other))
    }

    /// The records that carry `frames`.
    pub fn seal(&self, frames: &[Vec<u8>]) -> Vec<u8> {
        in_memory::seal(&self.0, frames)
    }

    /// The plain text of `records`, read in pieces of `cut` bytes into `room` bytes.
    ///
    /// # Errors
    /// The records do not continue the records of the other end.
    pub fn open(&self, records: &[u8], cut: usize, room: usize) -> io::Result<Vec<u8>> {
        in_memory::open(&self.0, records, cut, room)
    }
}

/// The accepting end of a handshake between these addresses, ours first. Returns whether the
/// session is sealed.
///
/// # Errors
/// [`SessionError`]: there is no session.
pub async fn accept(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ends: (SocketAddr, SocketAddr),
    trust: &Trust,
) -> Result<bool, SessionError> {
    Ok(accept_over(stream, ends, trust).await?.is_some())
}

/// The accepting end of a handshake with the user of a client key.
///
/// # Errors
/// [`ClientSessionError`]: there is no session.
pub async fn accept_user(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    trust: &Trust,
) -> Result<RemoteUser, ClientSessionError> {
    Ok(accept_client_over(stream, trust).await?.0)
}

/// The connecting end.
///
/// # Errors
/// [`SessionError`]: there is no session.
pub async fn initiate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ends: (SocketAddr, SocketAddr),
    trust: &Trust,
    key: &ClusterKey,
) -> Result<bool, SessionError> {
    Ok(initiate_over(stream, ends, trust, key).await?.is_some())
}
