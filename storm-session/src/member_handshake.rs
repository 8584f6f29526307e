//! The handshake between daemons, which hold the cluster key. An opening names it; 64 bytes in all.

use crate::cluster_key::{ClusterKey, ID_BYTES, KeyId};
use crate::error::SessionError;
use crate::handshake::{
    self, Failed, KEYLESS, OTHER_KEY, OTHER_VERSION, Protocol, WRONG, answer, hear, open,
};
use crate::record::Sealed;
use crate::trust::{Sealing, Trust};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The first bytes of an opening. Read as a frame's length, they exceed that of any hello.
pub const MAGIC: [u8; 7] = *b"\xffSTORM\0";
const PROTOCOL: Protocol = Protocol { magic: MAGIC, version: 1 };

/// Opens a session with `key`, as the side that connected. `None` between two loopback addresses,
/// where the session ends with the proof.
///
/// # Errors
/// [`SessionError`].
pub async fn initiate(
    tcp: &mut TcpStream,
    trust: &Trust,
    key: &ClusterKey,
) -> Result<Option<Sealed>, SessionError> {
    let ends = (tcp.local_addr()?, tcp.peer_addr()?);
    initiate_over(tcp, ends, trust, key).await
}

/// Like [`initiate`], over any stream of bytes between these addresses, ours first.
pub(crate) async fn initiate_over(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    (local, peer): (SocketAddr, SocketAddr),
    trust: &Trust,
    key: &ClusterKey,
) -> Result<Option<Sealed>, SessionError> {
    let sealing = trust.sealing(local, peer);
    let prologue = prologue(sealing, local, peer);
    let ours = key.id();
    match open(stream, &PROTOCOL, &ours.0, key.secret(), &prologue).await {
        Ok(noise) => Ok((sealing == Sealing::Sealed).then(|| Sealed::new(noise))),
        Err(Failed::Refused(code, detail)) => Err(refusal(code, &detail, ours)),
        Err(failed) => Err(failure(failed, ours)),
    }
}

/// Answers a peer that has connected. Until this function has succeeded, nothing that the peer
/// claims is trusted.
///
/// # Errors
/// [`SessionError`].
pub async fn accept(tcp: &mut TcpStream, trust: &Trust) -> Result<Option<Sealed>, SessionError> {
    let ends = (tcp.local_addr()?, tcp.peer_addr()?);
    accept_over(tcp, ends, trust).await
}

/// Like [`accept`], over any stream of bytes between these addresses, ours first.
pub(crate) async fn accept_over(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    (local, peer): (SocketAddr, SocketAddr),
    trust: &Trust,
) -> Result<Option<Sealed>, SessionError> {
    let sealing = trust.sealing(local, peer);
    let ours = trust.key().id();
    let heard = hear(stream, &[PROTOCOL]).await;
    let (_, opening) = heard.map_err(|failed| failure(failed, ours))?;
    let shown = KeyId(opening.name);
    let Some(key) = trust.find(shown) else {
        handshake::refuse(stream, OTHER_KEY, &ours.0).await?;
        return Err(SessionError::OtherKey { theirs: shown, ours });
    };
    let noise = answer(stream, &opening, key.secret(), &prologue(sealing, peer, local)).await;
    let noise = noise.map_err(|failed| failure(failed, shown))?;
    Ok((sealing == Sealing::Sealed).then(|| Sealed::new(noise)))
}

/// Tells a peer that opens with a key that this side has no key.
///
/// # Errors
/// The connection broke.
pub async fn refuse_keyed(tcp: &mut TcpStream) -> io::Result<()> {
    handshake::refuse(tcp, KEYLESS, &[]).await
}

fn failure(failed: Failed, key: KeyId) -> SessionError {
    match failed {
        Failed::Io(error) => SessionError::Io(error),
        Failed::Closed => SessionError::Closed,
        Failed::Foreign => SessionError::NoKey { ours: key },
        Failed::Version(theirs) => SessionError::Version { theirs, ours: PROTOCOL.version },
        Failed::Unproven | Failed::Refused(..) => SessionError::Unproven { key },
    }
}

/// The meaning of an answer that refuses.
fn refusal(code: u8, detail: &[u8], ours: KeyId) -> SessionError {
    match code {
        OTHER_KEY => {
            let mut theirs = [0; ID_BYTES];
            theirs.copy_from_slice(&detail[..ID_BYTES]);
            SessionError::RefusedKey { theirs: KeyId(theirs), ours }
        }
        KEYLESS => SessionError::RefusedAsKeyed { ours },
        OTHER_VERSION => SessionError::Version { theirs: detail[0], ours: PROTOCOL.version },
        WRONG => SessionError::RefusedHandshake { key: ours },
        _ => SessionError::Unproven { key: ours },
    }
}

/// The data that both ends must agree on, or the handshake fails. An open session is bound to the
/// addresses of its connection: no host translates its own addresses, and a relay has other
/// addresses.
fn prologue(sealing: Sealing, initiator: SocketAddr, responder: SocketAddr) -> Vec<u8> {
    let plain = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
    match sealing {
        Sealing::Sealed => b"storm session, sealed".to_vec(),
        Sealing::Open => {
            let (initiator, responder) = (plain(initiator), plain(responder));
            format!("storm session, open, {initiator} to {responder}").into_bytes()
        }
    }
}
