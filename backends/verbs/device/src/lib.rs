//! Verbs of InfiniBand and RoCE: what `libibverbs` makes, as owned values.
//!
//! The library, `libibverbs.so.1`, is loaded when it is first needed: nothing of it is needed to
//! build or to run anything else. What its calls need is in [`guard`], every one with its
//! argument; the layouts are in [`abi`]; [`port_address`] tells by which of its addresses a port is known.
//!
//! What it does not do: say what travels. That is the business of who uses it: the lanes of
//! `storm-backend-verbs`, and the ranks of `storm-mpi`.

pub mod abi;
pub mod guard;
pub mod port_address;

mod error;
mod library;

pub use error::VerbsError;
