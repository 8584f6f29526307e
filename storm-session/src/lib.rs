//! Who may speak: a handshake at the beginning of every TCP connection of a cluster,
//! and records that only its two ends can read or make.
//!
//! Daemons show that they hold the *cluster key* ([`initiate`], [`accept`]); between
//! two loopback addresses what they say then is not encrypted. A user on another host
//! shows a *client key*, which is derived from the cluster key for one user
//! ([`connect_client`], [`accept_client`]); what clients say is always encrypted.
//!
//! Both are the Noise handshake `NNpsk0` (Noise Protocol Framework, revision 34,
//! sections 7.4 and 9), with fresh ephemeral keys: what was recorded cannot be read
//! later by who then finds the key, nor played again. See `docs/decisions/0014` and
//! `docs/decisions/0015`.
//!
//! What it does not do: read key files, decide who may listen where, or know what
//! is said over a session.

mod client_handshake;
mod client_key;
mod cluster_key;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
#[cfg(any(test, fuzzing))]
mod in_memory;
mod key_text;
mod member_handshake;
mod record;
mod refusal_log;
mod sealed_stream;
mod socket;
mod trust;

pub use client_handshake::{ClientSessionError, RemoteUser, accept_client, connect_client};
pub use client_key::{ClientKey, ClientSerial, NotASerial, NotAUserName, UserName};
pub use cluster_key::{ClusterKey, KeyId};
pub use error::SessionError;
pub use key_text::NotAKey;
pub use member_handshake::{MAGIC, accept, initiate, refuse_keyed};
pub use record::Sealed;
pub use refusal_log::RefusalLog;
pub use sealed_stream::SealedStream;
pub use socket::{configure, listen};
pub use trust::Trust;
