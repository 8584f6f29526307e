//! Why a handshake made no session.

use super::cluster_key::KeyId;
use std::io;
use thiserror::Error;

/// Why a connection did not become a session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The connection could not be made, or it broke.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side closed the connection during the handshake.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// The peer shows no key.
    #[error("the peer shows no key, and this cluster has one ({ours})")]
    NoKey {
        /// The key that the peer should hold.
        ours: KeyId,
    },
    /// The peer speaks another version of the handshake.
    #[error("the peer speaks version {theirs} of the handshake, not {ours}")]
    Version {
        /// The peer's version.
        theirs: u8,
        /// Our version.
        ours: u8,
    },
    /// The peer shows a key that this side does not hold.
    #[error("the peer's key is {theirs}, this cluster's is {ours}")]
    OtherKey {
        /// The peer's key.
        theirs: KeyId,
        /// Our key.
        ours: KeyId,
    },
    /// The other side does not prove that it holds the key that it names. It may lack the key, only
    /// one side may encrypt loopback connections, or a relay may be in between.
    #[error(
        "the peer does not prove that it holds key {key}: it lacks the key, only one side encrypts \
         loopback, or a relay is in between"
    )]
    Unproven {
        /// The key.
        key: KeyId,
    },
    /// The other side refuses our key, because it has another.
    #[error("the other side has key {theirs}, and not {ours}")]
    RefusedKey {
        /// The key that the other side claims to have.
        theirs: KeyId,
        /// The key that this side named.
        ours: KeyId,
    },
    /// The other side refuses our key, because it has none.
    #[error("the other side has no key, and this side has {ours}")]
    RefusedAsKeyed {
        /// The key that this side named.
        ours: KeyId,
    },
    /// The other side refuses the handshake as wrong.
    #[error("the other side refuses the handshake with key {key}")]
    RefusedHandshake {
        /// The key that this side named.
        key: KeyId,
    },
}

impl SessionError {
    /// Whether another attempt may succeed without a change of any key.
    pub fn may_pass(&self) -> bool {
        matches!(self, SessionError::Io(_) | SessionError::Closed)
    }
}
