//! The keys that a member of the cluster holds, and how it uses them.

use super::cluster_key::{ClusterKey, KeyId};
use std::net::SocketAddr;

/// The keys of a member. Without a key, its connections are neither authenticated nor encrypted.
#[derive(Clone, Debug)]
pub struct Trust {
    key: ClusterKey,
    previous: Option<ClusterKey>,
    encrypt_loopback: bool,
}

/// Whether a session is encrypted after the handshake. Each end decides by its own addresses, and a
/// handshake between ends that differ fails. So an attacker on the way cannot turn encryption off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sealing {
    /// Encrypted, in records.
    Sealed,
    /// Plain: the connection does not leave this host's kernel.
    Open,
}

impl Trust {
    /// Trusts peers that hold `key`, and shows it.
    pub fn new(key: ClusterKey) -> Trust {
        Trust { key, previous: None, encrypt_loopback: false }
    }

    /// While a key is being replaced: also trusts peers that hold `previous`, and shows it to peers
    /// that lack the new key.
    #[must_use]
    pub fn or_previous(mut self, previous: ClusterKey) -> Trust {
        self.previous = Some(previous);
        self
    }

    /// Encrypts between two loopback addresses as well. The two ends need the same setting.
    #[must_use]
    pub fn encrypt_loopback(mut self) -> Trust {
        self.encrypt_loopback = true;
        self
    }

    /// The key that is shown first.
    pub fn key(&self) -> &ClusterKey {
        &self.key
    }

    /// The key of this name, if this member holds it.
    pub fn find(&self, id: KeyId) -> Option<&ClusterKey> {
        std::iter::once(&self.key).chain(&self.previous).find(|key| key.id() == id)
    }

    pub(super) fn sealing(&self, local: SocketAddr, peer: SocketAddr) -> Sealing {
        let inside = |addr: SocketAddr| addr.ip().to_canonical().is_loopback();
        if !self.encrypt_loopback && inside(local) && inside(peer) {
            Sealing::Open
        } else {
            Sealing::Sealed
        }
    }
}
