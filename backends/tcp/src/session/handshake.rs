//! The handshake, from both ends. Every message has one length, so nothing is
//! allocated for a stranger; what may be waited for is the caller's business.
//!
//! ```text
//! opening, 64 bytes    magic 7 | version 1 | name of the key 8 | Noise message 1: 48
//! answer,  49 bytes    0 | Noise message 2: 48       or     code | detail, padded
//! proof,   16 bytes    an empty Noise transport message: the opening was no copy
//! ```
//!
//! Noise `NNpsk0`: without the key the first message cannot be made, and is
//! refused before any arithmetic on curves.

use super::cluster_key::{ClusterKey, ID_BYTES, KeyId};
use super::error::SessionError;
use super::record::Sealed;
use super::trust::{Sealing, Trust};
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Begins an opening. As the length of a frame it is more than any hello's.
pub(crate) const MAGIC: [u8; 7] = *b"\xffSTORM\0";
/// Changes with every change of the handshake or of the records.
const VERSION: u8 = 1;
/// Pattern, curve, cipher and hash; its name is part of what both ends confirm.
const NOISE: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// A Noise message of this pattern: an ephemeral public key and a tag.
const NOISE_BYTES: usize = 48;
/// Magic and version.
const HEAD_BYTES: usize = MAGIC.len() + 1;
const OPENING_BYTES: usize = HEAD_BYTES + ID_BYTES + NOISE_BYTES;
const ANSWER_BYTES: usize = 1 + NOISE_BYTES;
/// A tag over nothing.
const PROOF_BYTES: usize = 16;

/// The first byte of an answer: the handshake goes on.
const GO_ON: u8 = 0;
/// Not with this key; the name of ours follows.
const OTHER_KEY: u8 = 1;
/// There is no key here.
const KEYLESS: u8 = 2;
/// Another version; ours follows.
const OTHER_VERSION: u8 = 3;
/// Not right.
const WRONG: u8 = 4;

/// Opens a session with `key`, from the side that connected.
pub(crate) async fn initiate(
    tcp: &mut TcpStream,
    trust: &Trust,
    key: &ClusterKey,
) -> Result<Option<Sealed>, SessionError> {
    let ends = (tcp.local_addr()?, tcp.peer_addr()?);
    initiate_over(tcp, ends, trust, key).await
}

/// As [`initiate`], over any stream of bytes between these addresses, ours first.
pub(super) async fn initiate_over(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    (local, peer): (SocketAddr, SocketAddr),
    trust: &Trust,
    key: &ClusterKey,
) -> Result<Option<Sealed>, SessionError> {
    let sealing = trust.sealing(local, peer);
    let unproven = || SessionError::Unproven { key: key.id() };
    let mut noise = noise(key, &prologue(sealing, local, peer), Builder::build_initiator)?;
    let mut opening = [0; OPENING_BYTES];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    opening[MAGIC.len()] = VERSION;
    opening[HEAD_BYTES..][..ID_BYTES].copy_from_slice(&key.id().0);
    noise.write_message(&[], &mut opening[HEAD_BYTES + ID_BYTES..]).map_err(broken)?;
    stream.write_all(&opening).await?;
    let mut answer = [0; ANSWER_BYTES];
    read(stream, &mut answer).await?;
    match answer[0] {
        GO_ON => {}
        code => return Err(refusal(code, &answer[1..], key.id())),
    }
    noise.read_message(&answer[1..], &mut []).map_err(|_| unproven())?;
    let mut noise = noise.into_transport_mode().map_err(broken)?;
    let mut proof = [0; PROOF_BYTES];
    noise.write_message(&[], &mut proof).map_err(broken)?;
    stream.write_all(&proof).await?;
    Ok((sealing == Sealing::Sealed).then(|| Sealed::new(noise)))
}

/// Answers who has connected. Until this succeeds nothing that it says counts.
pub(crate) async fn accept(
    tcp: &mut TcpStream,
    trust: &Trust,
) -> Result<Option<Sealed>, SessionError> {
    let ends = (tcp.local_addr()?, tcp.peer_addr()?);
    accept_over(tcp, ends, trust).await
}

/// As [`accept`], over any stream of bytes between these addresses, ours first.
pub(super) async fn accept_over(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    (local, peer): (SocketAddr, SocketAddr),
    trust: &Trust,
) -> Result<Option<Sealed>, SessionError> {
    let sealing = trust.sealing(local, peer);
    let ours = trust.key().id();
    let mut opening = [0; OPENING_BYTES];
    read(stream, &mut opening[..HEAD_BYTES]).await?;
    if opening[..MAGIC.len()] != MAGIC {
        return Err(SessionError::NoKey { ours });
    }
    let theirs = opening[MAGIC.len()];
    if theirs != VERSION {
        refuse(stream, OTHER_VERSION, &[VERSION]).await?;
        return Err(SessionError::Version { theirs, ours: VERSION });
    }
    read(stream, &mut opening[HEAD_BYTES..]).await?;
    let (id, message) = opening[HEAD_BYTES..].split_at(ID_BYTES);
    let mut shown = [0; ID_BYTES];
    shown.copy_from_slice(id);
    let Some(key) = trust.find(KeyId(shown)) else {
        refuse(stream, OTHER_KEY, &ours.0).await?;
        return Err(SessionError::OtherKey { theirs: KeyId(shown), ours });
    };
    let unproven = || SessionError::Unproven { key: key.id() };
    let mut noise = noise(key, &prologue(sealing, peer, local), Builder::build_responder)?;
    if noise.read_message(message, &mut []).is_err() {
        refuse(stream, WRONG, &[]).await?;
        return Err(unproven());
    }
    let mut answer = [GO_ON; ANSWER_BYTES];
    noise.write_message(&[], &mut answer[1..]).map_err(broken)?;
    stream.write_all(&answer).await?;
    let mut noise = noise.into_transport_mode().map_err(broken)?;
    let mut proof = [0; PROOF_BYTES];
    read(stream, &mut proof).await?;
    noise.read_message(&proof, &mut []).map_err(|_| unproven())?;
    Ok((sealing == Sealing::Sealed).then(|| Sealed::new(noise)))
}

/// Tells who opens with a key that there is none here.
pub(crate) async fn refuse_keyed(tcp: &mut TcpStream) -> io::Result<()> {
    refuse(tcp, KEYLESS, &[]).await
}

async fn refuse(stream: &mut (impl AsyncWrite + Unpin), code: u8, detail: &[u8]) -> io::Result<()> {
    let mut answer = [0; ANSWER_BYTES];
    answer[0] = code;
    answer[1..][..detail.len()].copy_from_slice(detail);
    stream.write_all(&answer).await
}

/// What an answer that does not go on means. Nothing proves that it is true, so
/// it is told and otherwise only ends this connection.
fn refusal(code: u8, detail: &[u8], ours: KeyId) -> SessionError {
    match code {
        OTHER_KEY => {
            let mut theirs = [0; ID_BYTES];
            theirs.copy_from_slice(&detail[..ID_BYTES]);
            SessionError::RefusedKey { theirs: KeyId(theirs), ours }
        }
        KEYLESS => SessionError::RefusedAsKeyed { ours },
        OTHER_VERSION => SessionError::Version { theirs: detail[0], ours: VERSION },
        WRONG => SessionError::RefusedHandshake { key: ours },
        _ => SessionError::Unproven { key: ours },
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> Result<(), SessionError> {
    match stream.read_exact(into).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(SessionError::Closed),
        Err(error) => Err(error.into()),
    }
}

/// What both ends must see alike, or the handshake fails. An open session is bound
/// to the addresses of its connection: on one host nothing translates them, and a
/// relay has others.
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

fn noise<'a>(
    key: &'a ClusterKey,
    prologue: &'a [u8],
    build: impl FnOnce(Builder<'a>) -> Result<HandshakeState, snow::Error>,
) -> Result<HandshakeState, SessionError> {
    let params: NoiseParams = NOISE.parse().map_err(broken)?;
    let builder = Builder::new(params).psk(0, key.secret()).map_err(broken)?;
    build(builder.prologue(prologue).map_err(broken)?).map_err(|error| broken(error).into())
}

/// Noise does not do what it does with any correct input: the system gives no
/// random bytes.
pub(super) fn broken(error: snow::Error) -> io::Error {
    io::Error::other(error.to_string())
}
