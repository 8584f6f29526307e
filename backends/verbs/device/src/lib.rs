//! Verbs of InfiniBand and RoCE: the objects of `libibverbs`, as owned values.
//!
//! The library, `libibverbs.so.1`, is loaded on first use. Neither the build nor a program without
//! verbs needs it. [`guard`] makes the calls, each with its safety argument. [`abi`] has the
//! layouts. [`port_address`] chooses the address that identifies a port.
//!
//! This crate does not define the messages. Its users do: the lanes of `storm-backend-verbs` and
//! the ranks of `storm-mpi`.

pub mod abi;
pub mod guard;
pub mod port_address;

mod error;
mod library;

pub use error::VerbsError;
