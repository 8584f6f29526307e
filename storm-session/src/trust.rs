//! Which keys a member of the cluster holds, and what it does with them.

use super::cluster_key::{ClusterKey, KeyId};
use std::net::SocketAddr;

/// The keys of a member. Without one, its connections are neither authenticated
/// nor encrypted.
#[derive(Clone, Debug)]
pub struct Trust {
    key: ClusterKey,
    previous: Option<ClusterKey>,
    encrypt_loopback: bool,
}

/// Whether what follows the handshake is encrypted. Each end derives it from its
/// own addresses, and a handshake between two that differ fails: nobody on the way
/// can talk one of them out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sealing {
    /// In records.
    Sealed,
    /// As it is: the connection does not leave this host's kernel.
    Open,
}

impl Trust {
    /// Trusts who holds `key`, and shows it.
    pub fn new(key: ClusterKey) -> Trust {
        Trust { key, previous: None, encrypt_loopback: false }
    }

    /// While a key is being replaced: trusts who holds `previous` as well, and
    /// shows that to who has no other yet.
    #[must_use]
    pub fn or_previous(mut self, previous: ClusterKey) -> Trust {
        self.previous = Some(previous);
        self
    }

    /// Encrypts between two loopback addresses too; both ends must be told so.
    #[must_use]
    pub fn encrypt_loopback(mut self) -> Trust {
        self.encrypt_loopback = true;
        self
    }

    /// The key that is shown first.
    pub fn key(&self) -> &ClusterKey {
        &self.key
    }

    /// The key of this name, if it is held.
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
