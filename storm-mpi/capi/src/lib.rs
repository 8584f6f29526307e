//! The C interface of storm-mpi: the functions of `mpi.h`, as `libstormmpi`.
//!
//! A thin layer: handles and their tables, checks of arguments, packing of derived datatypes, and
//! error handlers. What communicates is the crate `storm-mpi`. Rank numbers are checked against the
//! communicator, counts and datatypes before anything is sent; what a C caller must itself guarantee
//! is said in `abi.rs`. Which threads may call in, and what they do to each other, is in `level.rs`. What is
//! absent, `docs/mpi.md` names.
// The names and the arguments are the standard's.
#![allow(non_snake_case, clippy::too_many_arguments)]

mod abi;
mod across;
mod api;
mod codes;
mod collective;
mod comm;
mod fault;
mod file;
mod generalized;
mod kept;
mod launcher;
mod level;
mod memory;
mod operation;
mod profiling;
mod recipe;
mod request;
mod sequence;
mod session;
mod spread;
mod table;
mod types;
mod window;
