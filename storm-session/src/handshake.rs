//! The handshake, for members and clients alike, on the side that connects and on the side that
//! accepts. Every message has a fixed length, so an unproven peer causes no allocation. The caller
//! sets timeouts.
//!
//! ```text
//! opening              magic 7 | version 1 | name of the key N | Noise message 1: 48
//! answer,  49 bytes    0 | Noise message 2: 48       or     code | detail, padded
//! proof,   16 bytes    an empty Noise transport message: the opening was no copy
//! ```
//!
//! Noise `NNpsk0`: the first message cannot be made without the key, and the receiver refuses a
//! wrong message before it computes on curves. [`member_handshake`](crate::member_handshake) and
//! [`client_handshake`](crate::client_handshake) define the names of keys and the other data that
//! both ends must agree on.

use crate::key_text::Secret;
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, TransportState};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The pattern, the curve, the cipher and the hash. The two ends also confirm that they use this
/// name.
const NOISE: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// Length of a Noise message of this pattern: an ephemeral public key and a tag.
const NOISE_BYTES: usize = 48;
/// Length of a magic.
const MAGIC_BYTES: usize = 7;
const ANSWER_BYTES: usize = 1 + NOISE_BYTES;
/// Length of a tag over nothing.
const PROOF_BYTES: usize = 16;

/// The first byte of an answer when the handshake continues.
const GO_ON: u8 = 0;
/// This side does not hold the key. The name of the key that it holds follows.
pub(crate) const OTHER_KEY: u8 = 1;
/// The answering side has no key.
pub(crate) const KEYLESS: u8 = 2;
/// This side does not speak the version. The version that it speaks follows.
pub(crate) const OTHER_VERSION: u8 = 3;
/// The opening is wrong.
pub(crate) const WRONG: u8 = 4;

/// The first bytes of openings of one kind.
pub(crate) struct Protocol {
    pub(crate) magic: [u8; MAGIC_BYTES],
    /// Changes with every change to the handshake or the records.
    pub(crate) version: u8,
}

/// Why a handshake made no session.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The connection broke.
    Io(io::Error),
    /// The other side closed the connection during the handshake.
    Closed,
    /// The peer's first bytes are not those of this protocol.
    Foreign,
    /// The peer speaks another version.
    Version(u8),
    /// The other side refuses with this code and detail. Code and detail are unproven: they are
    /// reported, and only end this connection.
    Refused(u8, [u8; NOISE_BYTES]),
    /// The other side does not prove that it holds the key.
    Unproven,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Failed::Closed,
            _ => Failed::Io(error),
        }
    }
}

/// Opens a session with a key, as the side that connected.
pub(crate) async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    protocol: &Protocol,
    name: &[u8],
    secret: &Secret,
    prologue: &[u8],
) -> Result<TransportState, Failed> {
    let mut noise = noise(secret, prologue, Builder::build_initiator)?;
    let mut message = [0; NOISE_BYTES];
    noise.write_message(&[], &mut message).map_err(broken)?;
    let opening = [&protocol.magic, &[protocol.version][..], name, &message].concat();
    stream.write_all(&opening).await?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).await?;
    let [code, message @ ..] = answer;
    if code != GO_ON {
        return Err(Failed::Refused(code, message));
    }
    noise.read_message(&message, &mut []).map_err(|_| Failed::Unproven)?;
    let mut noise = noise.into_transport_mode().map_err(broken)?;
    let mut proof = [0; PROOF_BYTES];
    noise.write_message(&[], &mut proof).map_err(broken)?;
    stream.write_all(&proof).await?;
    Ok(noise)
}

/// The contents of an opening.
pub(crate) struct Opening<const NAME: usize> {
    pub(crate) name: [u8; NAME],
    message: [u8; NOISE_BYTES],
}

/// Reads the opening of a peer that has connected, in one of these protocols, whose openings have
/// the same length. Returns the opening with the index of its protocol.
pub(crate) async fn hear<const NAME: usize, S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    protocols: &[Protocol],
) -> Result<(usize, Opening<NAME>), Failed> {
    let mut magic = [0; MAGIC_BYTES];
    let mut version = [0];
    stream.read_exact(&mut magic).await?;
    stream.read_exact(&mut version).await?;
    let Some(index) = protocols.iter().position(|protocol| protocol.magic == magic) else {
        return Err(Failed::Foreign);
    };
    let protocol = &protocols[index];
    if version != [protocol.version] {
        refuse(stream, OTHER_VERSION, &[protocol.version]).await?;
        return Err(Failed::Version(version[0]));
    }
    let mut opening = Opening { name: [0; NAME], message: [0; NOISE_BYTES] };
    stream.read_exact(&mut opening.name).await?;
    stream.read_exact(&mut opening.message).await?;
    Ok((index, opening))
}

/// Answers an opening with the key that it names. Until this function has succeeded, nothing that
/// the other side claims is trusted.
pub(crate) async fn answer<const NAME: usize, S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    opening: &Opening<NAME>,
    secret: &Secret,
    prologue: &[u8],
) -> Result<TransportState, Failed> {
    let mut noise = noise(secret, prologue, Builder::build_responder)?;
    if noise.read_message(&opening.message, &mut []).is_err() {
        refuse(stream, WRONG, &[]).await?;
        return Err(Failed::Unproven);
    }
    let mut answer = [GO_ON; ANSWER_BYTES];
    noise.write_message(&[], &mut answer[1..]).map_err(broken)?;
    stream.write_all(&answer).await?;
    let mut noise = noise.into_transport_mode().map_err(broken)?;
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    noise.read_message(&proof, &mut []).map_err(|_| Failed::Unproven)?;
    Ok(noise)
}

/// Answers that there will be no session.
pub(crate) async fn refuse<S: AsyncWrite + Unpin>(
    stream: &mut S,
    code: u8,
    detail: &[u8],
) -> io::Result<()> {
    let mut answer = [0; ANSWER_BYTES];
    answer[0] = code;
    answer[1..][..detail.len()].copy_from_slice(detail);
    stream.write_all(&answer).await
}

fn noise<'a>(
    secret: &'a Secret,
    prologue: &'a [u8],
    build: impl FnOnce(Builder<'a>) -> Result<HandshakeState, snow::Error>,
) -> io::Result<HandshakeState> {
    let params: NoiseParams = NOISE.parse().map_err(broken)?;
    let builder = Builder::new(params).psk(0, secret).map_err(broken)?;
    build(builder.prologue(prologue).map_err(broken)?).map_err(broken)
}

/// An error that Noise never returns for correct input, unless the system gives no random bytes.
pub(crate) fn broken(error: snow::Error) -> io::Error {
    io::Error::other(error.to_string())
}
