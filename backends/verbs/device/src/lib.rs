//! Verbs of InfiniBand and RoCE: the objects of `libibverbs`, as owned values.
//!
//! The library, `libibverbs.so.1`, is loaded on first use: it is not needed to build the program,
//! nor to run anything else. [`guard`] makes the calls, each with its safety argument. [`abi`] has
//! the layouts. [`port_address`] chooses the address by which a port is known.
//!
//! This crate does not define the data that travels. Its users do: the lanes of
//! `storm-backend-verbs` and the ranks of `storm-mpi`.

pub mod abi;
pub mod guard;
pub mod port_address;

mod error;
mod library;

pub use error::VerbsError;
