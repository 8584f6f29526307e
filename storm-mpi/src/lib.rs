//! Message passing for applications: a subset of MPI, direct mode.
//!
//! `pmi` is the wire-up with the resource manager; its server half is used by the Node Manager.

pub mod pmi;
mod rank;

pub use rank::Rank;
