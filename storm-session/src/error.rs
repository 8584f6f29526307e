//! Why there is no session.

use super::cluster_key::KeyId;
use std::io;
use thiserror::Error;

/// Why a connection did not become a session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The connection could not be made, or broke.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side left before the handshake was over.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// Who connects shows no key.
    #[error("it shows no key, and this cluster has one ({ours})")]
    NoKey {
        /// The key that it should hold.
        ours: KeyId,
    },
    /// Who connects speaks another version of the handshake.
    #[error("it speaks version {theirs} of the handshake, not {ours}")]
    Version {
        /// Theirs.
        theirs: u8,
        /// Ours.
        ours: u8,
    },
    /// Who connects shows a key that is not held here.
    #[error("its key is {theirs}, this cluster's is {ours}")]
    OtherKey {
        /// Theirs.
        theirs: KeyId,
        /// Ours.
        ours: KeyId,
    },
    /// The other side does not hold the key that it names, or the two do not agree
    /// on what is encrypted, or somebody is in between.
    #[error(
        "it does not prove that it holds key {key}; or only one side encrypts loopback, or a relay \
         is in between"
    )]
    Unproven {
        /// The key.
        key: KeyId,
    },
    /// The other side says that it has another key.
    #[error("the other side has key {theirs}, and not {ours}")]
    RefusedKey {
        /// Theirs, as it says.
        theirs: KeyId,
        /// The one that it was shown.
        ours: KeyId,
    },
    /// The other side says that it has no key.
    #[error("the other side has no key, and {ours} is held here")]
    RefusedAsKeyed {
        /// The key that it was shown.
        ours: KeyId,
    },
    /// The other side says that the handshake is not right.
    #[error("the other side refuses the handshake with key {key}")]
    RefusedHandshake {
        /// The key that it was shown.
        key: KeyId,
    },
}

impl SessionError {
    /// Whether another try may end differently without anybody changing a key.
    pub fn may_pass(&self) -> bool {
        matches!(self, SessionError::Io(_) | SessionError::Closed)
    }
}
