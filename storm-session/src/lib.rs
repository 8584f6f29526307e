//! Authentication of connections: every TCP connection of a cluster begins with a handshake, and
//! then carries records that only its two ends can read or make.
//!
//! Daemons prove that they hold the *cluster key* ([`initiate`], [`accept`]); between two loopback
//! addresses, the session is not encrypted. A user on another host proves a *client key*, which is
//! derived from the cluster key for that user ([`connect_client`], [`accept_client`]). A login host
//! proves a *door key* for each of its users ([`connect_by_door`]). Clients' sessions are always
//! encrypted.
//!
//! Either proof is the Noise handshake `NNpsk0` (Noise Protocol Framework, revision 34, sections
//! 7.4 and 9) with fresh ephemeral keys. Recorded traffic cannot be replayed. A key that is found
//! later does not decrypt it. See `docs/decisions/0014` and `docs/decisions/0015`.
//!
//! This crate reads no key files, does not decide which addresses may listen, and does not know
//! what a session carries.

mod client_handshake;
mod client_key;
mod cluster_key;
mod door_key;
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

pub use client_handshake::{
    ClientSessionError, RemoteUser, Via, accept_client, connect_by_door, connect_client,
};
pub use client_key::{ClientKey, ClientSerial, NotASerial, NotAUserName, UserName};
pub use cluster_key::{ClusterKey, KeyId};
pub use door_key::DoorKey;
pub use error::SessionError;
pub use key_text::NotAKey;
pub use member_handshake::{MAGIC, accept, initiate, refuse_keyed};
pub use record::Sealed;
pub use refusal_log::RefusalLog;
pub use sealed_stream::SealedStream;
pub use socket::{configure, listen};
pub use trust::Trust;
