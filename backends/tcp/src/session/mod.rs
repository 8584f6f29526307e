//! Who may speak: a handshake at the beginning of every connection, and, beyond
//! this host, records that only its two ends can read or make.
//!
//! Both ends show that they hold the cluster key by the Noise handshake `NNpsk0`
//! (Noise Protocol Framework, revision 34, sections 7.4 and 9), with fresh
//! ephemeral keys: what was recorded cannot be read later by who then finds the
//! key, nor played again. See `docs/decisions/0014`.
//!
//! What it does not do: read key files, decide who may listen where, or know what
//! is said over a session.

mod cluster_key;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
#[cfg(any(test, fuzzing))]
mod in_memory;
mod record;
mod trust;

pub use cluster_key::{ClusterKey, KeyId, NotAKey};
pub use error::SessionError;
pub use trust::Trust;

pub(crate) use handshake::{MAGIC, accept, initiate, refuse_keyed};
pub(crate) use record::Sealed;
